#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "store/files.h"
#include "store/half.h"
#include "store/listing.h"
#include "store/store.h"
#include "store/table.h"
#include "store/tree.h"

namespace harrow::store {

/// The Store of a directory (store_format.md). One lock guards the table; contents are read and written, and
/// names given and taken, without it.
class LocalStore : public Store {
 public:
  using Entries = std::shared_ptr<const std::vector<Entry>>;

  LocalStore(std::string directory, const Options& options)
      : directory_(std::move(directory)), options_(options) {}
  ~LocalStore() override;

  /// Takes the directory, and what lies in it.
  Status Start();

  Result<Object> CopyIn(const std::string& path) override;
  Result<Object> MoveIn(const std::string& path) override;
  Result<std::unique_ptr<Arrival>> Begin(const Object& object, bool part) override;
  bool Has(const ObjectId& id) const override;
  Result<std::vector<Object>> MissingOf(const ObjectId& directory) const override;
  Result<std::unique_ptr<Reader>> Read(const ObjectId& id) override;
  Status Place(const ObjectId& id, std::string_view inside, const std::string& path) override;
  Status CopyOut(const ObjectId& id, const std::string& path, uint32_t umask,
                 const CopyWatch& watch) override;
  bool Unchanged(const ObjectId& id) override;
  Result<std::string> MakeSandbox(const std::string& name) override;
  void RemoveSandbox(const std::string& path) override;
  void Drop(const ObjectId& id) override;
  void Damaged(const ObjectId& id) override;
  Room room() const override;
  void SetOthers(uint64_t bytes) override;
  void Spare(const ObjectId& id) override;
  std::vector<Object> All() const override;
  void Erase() override;

  // For Arrivals (arrival.cc).
  Status Finish(const std::shared_ptr<Half>& half);
  void Leave(const std::shared_ptr<Half>& half);
  Status Write(Half* half, int64_t offset, std::string_view data);

 private:
  /// A file in arriving/ and the room that it takes; both are given back with it, unless Keep.
  class Temporary;
  class RoomTaken;
  /// What keeps objects for as long as a call needs them.
  class Pins;
  struct Taken {
    Object object;
    int64_t length = 0;
    uint64_t inode = 0;
    uint64_t charge = 0;
    std::shared_ptr<const std::vector<Object>> parts{};
  };
  /// How a content comes to have its name: gives what is at hand the name `name` in `directory`; 0 or the
  /// error.
  using Put = std::function<int(int directory, const char* name)>;
  enum class As { kNamed, kPart };
  /// Where an object lies, and what its inode was.
  struct Seen {
    bool in_objects = false;
    uint64_t inode = 0;
    int64_t length = 0;
  };

  // open.cc
  Status OpenRoot();
  Status TakeOwner(bool* trusted);
  Status WriteOwner();
  void ScanFolder(bool in_objects, std::vector<std::pair<ObjectId, Row>>* listings);

  // local_store.cc
  std::unique_lock<std::mutex> Lock() const { return std::unique_lock(lock_); }
  Row* Settle(std::unique_lock<std::mutex>& lock, const ObjectId& id);
  Status TakeRoom(uint64_t charge, bool of_disk, std::string_view shown);
  void GiveRoom(uint64_t charge);
  uint64_t ChargeOf(int64_t bytes) const;
  /// Gives a content its name, unless it is here already (false). Room for `taken` has been taken; `put` is
  /// called once. Pinned, as a part.
  Result<bool> Adopt(const Taken& taken, As as, const Half* half, const Put& put);
  void Promote(const ObjectId& id, Row* row);
  void Carry(const Table::Removals& removals);
  void Spoiled(const ObjectId& id);
  int FolderOf(bool in_objects) const { return in_objects ? objects_.get() : parts_.get(); }
  int Rename(const ObjectId& id, bool into_objects);
  /// Under the lock: gives its room back and removes its file, unless that has another name now. False: done
  /// before.
  bool Detach(const Half* half, bool renamed = false);
  void EndHalf(const std::shared_ptr<Half>& half, bool failed);
  /// Under the lock: detaches the one that has been without an Arrival for longest; null: there is none. Its
  /// room on disk is free when it has ended and nobody reads it.
  std::shared_ptr<Half> DetachIdle();
  bool Same(const Seen& seen, const struct stat& info) const {
    return seen.inode == info.st_ino && seen.length == info.st_size && HasObjectTime(info) &&
           S_ISREG(info.st_mode);
  }
  /// Calls back with where a whole object lies, again where it was moved meanwhile (ENOENT).
  Status At(const ObjectId& id, const std::function<int(int folder, const char* name, const Seen&)>& use);
  /// Of a whole object, found to be as it was.
  Result<Fd> OpenObject(const ObjectId& id, int64_t* length);
  Result<Entries> ListingOf(const ObjectId& id);
  bool UnchangedFile(const ObjectId& id);

  // take_in.cc
  Result<Object> CopyInFrom(int fd, const struct stat& info, const std::string& shown, As as);
  Result<Object> MoveInFrom(int parent, const std::string& name, const struct stat& info,
                            const std::string& shown, As as);
  Result<Object> TakeTree(int root, const std::string& shown, bool move);
  Result<Object> TakeListing(const std::vector<Entry>& entries, const std::string& shown);
  Result<Object> AdoptTemporary(Temporary* file, const ObjectId& id, int64_t length, const Entries& entries,
                                As as);

  // place.cc
  Result<std::string> BelowSandboxes(const std::string& path) const;
  Status PlaceFile(const ObjectId& id, int parent, const std::string& name, const std::string& shown);
  int PlaceOne(int folder, const char* object, const Seen& seen, bool program, int parent,
               const std::string& name);
  int CopyOne(int from, bool program, int parent, const std::string& name, int64_t bytes, bool clone);

  // copy_out.cc
  class Copier;

  uint64_t Limit() const { return options_.limit - std::min(options_.limit, others_.load()); }

  const std::string directory_;
  const Options options_;
  std::atomic<uint64_t> others_ = 0;
  Fd root_, owner_, objects_, parts_, arriving_, sandboxes_;
  uint64_t block_ = 4096;
  uint64_t device_ = 0;
  bool erased_ = false;

  enum class Way : uint8_t { kClone, kLink, kCopy };
  std::atomic<Way> way_ = Way::kClone;       // how objects come into sandboxes
  std::atomic<uint64_t> no_clone_from_ = 0;  // device whose files cannot be reflinked into the store
  std::atomic<uint64_t> temporary_ = 0;

  mutable std::mutex lock_;
  std::condition_variable settled_;
  Table table_;
  std::unordered_map<ObjectId, std::shared_ptr<Half>> halves_;
  uint64_t leavings_ = 0;                               // of halves by their Arrivals
  uint64_t taken_ = 0;                                  // room that temporaries and halves have
  std::vector<std::pair<ObjectId, Entries>> listings_;  // the last few that were used
};

}  // namespace harrow::store
