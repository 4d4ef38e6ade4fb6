#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/shared_time.h"
#include "agent/source_index.h"
#include "agent/steps/sandbox.h"
#include "agent/steps/task.h"
#include "agent/transfers.h"
#include "agent/workers.h"
#include "store/store.h"

namespace harrow::agent {

/// What became of a copy, or of a file that was held here; numbers as pb::FileNote.What.
struct FileNews {
  enum class What : uint8_t {
    kStored = 0,
    kUnreachable = 1,
    kAbsent = 2,
    kDamaged = 3,
    kUnreadable = 4,
    kNoRoom = 5,
    kGone = 6,
    kSaved = 7,
    kNotSaved = 8,
    kPut = 9,
    kNotPut = 10,
  };
  FileId file;
  What what = What::kStored;
  std::optional<store::Object> object{};
  NodeId from{};         // none: the submit directory
  int64_t moved = 0;     // bytes
  std::string text{};    // why not
  std::string source{};  // SourceOf, of what was read from the submit directory
  uint64_t put = 0;      // Putting::number
  Duration took{0};      // its part (SharedTime) of copying what is kPut; none: it was there
};

/// What is kept of what is where, for those who open the store later.
struct FileRecords {
  SourceIndex* sources = nullptr;  // null: there will be nobody
  HeldLog* log = nullptr;          // null: likewise
  bool tell = false;               // the server, of what is here: what was read to be this (SourceOf)
};

/// The files of a flow on this node: which object of the store each is, which are on their way, and which
/// attempts wait for them. From any thread; its hooks are called from any, and may call it.
class LocalFiles : public FileHost {
 public:
  struct Hooks {
    /// An input that an attempt awaits is here.
    std::function<void(AttemptId)> arrived;
    /// It will not come.
    std::function<void(AttemptId, std::string why)> failed;
    /// For the server.
    std::function<void(FileNews)> tell;
    /// FileHost::NoteTemporary.
    std::function<void(const std::string& path)> temporary{};
  };
  struct Copy {
    FileId file;
    std::optional<store::Object> object{};  // where it is known
    std::string path{};                     // absolute, in the submit directory
    NodeId from{};                          // none: it is read from there
    std::string source{};                   // SourceOf(path), where somebody else has read it
    bool listed = false;                    // what is at `path` has to be `object`
  };

  /// `store` and the records outlive it. `slots`: how many are served at once (Outside).
  LocalFiles(store::Store* store, size_t slots, Hooks hooks, FileRecords records = {});
  /// Held by an agent of this run before; before all else.
  void Restore(const HeldLog::Held& held);

  void Use(Transfers* transfers);
  /// The node is to have the file. One that is on its way comes from somebody else from now on.
  void Bring(Copy copy);
  /// The node holds it no more.
  void Drop(FileId file);
  /// Nor may anybody here read what they were: it is not what it should be. Other files that go with it are
  /// told as gone, and attempts that have read one of them are to run again.
  void DropDamaged(const std::vector<FileId>& files);
  /// Copies it to the submit directory.
  void Save(FileId file, const std::string& path);
  /// To be put into the run's exchange, where `path` is there when it is whole.
  struct Putting {
    uint64_t number = 0;
    FileId file{};
    std::optional<store::ObjectId> object{};  // what the node holds of the file, if it is that; none: `content`
    std::string content{};
    std::string path{};
  };
  void Put(Putting putting);
  /// They are not needed there any more.
  void Unput(std::vector<std::string> paths);
  /// There will be no room for it: what waits for it fails.
  void Refuse(FileId file);
  Awaited Await(const LocalTask& task) override;
  /// What tasks wait for and nobody brings is told again: a server that has lost sight of this node may not
  /// have heard it.
  void TellMissing();
  void Forget(const LocalTask& task) override;
  /// All that are here whole.
  std::vector<std::pair<FileId, store::Object>> Held();

  store::Store& store() override { return store_; }
  void Outside(const std::function<void()>& work) override;
  void NoteTemporary(const std::string& path) override {
    if (hooks_.temporary) hooks_.temporary(path);
  }
  uint32_t umask() const override { return umask_; }
  std::optional<store::Object> ObjectOf(FileId file) override;
  void Made(FileId file, const store::Object& object) override;
  uint64_t BeginTaking() override;
  void EndTaking(uint64_t taking) override;
  void Discard(const store::ObjectId& object) override;
  void Spoiled(FileId file) override;
  uint32_t Spoilings(const store::ObjectId& object) override;

 private:
  struct File {
    std::optional<store::Object> object{};  // here whole
    bool coming = false;                    // it is on its way
    bool spare = false;                     // here as long as nobody needs the room
    std::string trouble{};                  // why it will not come
    std::string no_room{};                  // why it did not, when it was asked for last
    std::vector<AttemptId> waiting{};
  };
  void Came(Transfers::Outcome outcome);
  Status PutAt(const Putting& putting, Duration* took);
  void Hold(std::unique_lock<std::mutex>& lock, FileId file, const store::Object& object, bool spare = false);
  bool Keep(const store::Object& object);
  void Release(File* file);
  void DropUnused(const store::ObjectId& object);
  void DropOrSpare(const store::ObjectId& object);

  store::Store& store_;
  const Hooks hooks_;
  const FileRecords records_;
  const uint32_t umask_;
  Workers workers_;
  std::mutex mutex_;
  Transfers* transfers_ = nullptr;                           // of mutex_
  std::unordered_map<FileId, File> files_;                   // of mutex_
  std::set<uint64_t> putting_;                               // of mutex_: numbers
  SharedTime put_time_;                                      // of mutex_
  std::unordered_map<store::ObjectId, uint32_t> used_;       // of mutex_: by how many files
  std::unordered_map<store::ObjectId, uint32_t> spoilings_;  // of mutex_
  // Of mutex_: takings that go on, and what was to be dropped when the last taking had that number: one of
  // those that had begun may just have taken the same content.
  uint64_t takings_ = 0;
  std::set<uint64_t> taking_;
  std::deque<std::pair<uint64_t, store::ObjectId>> to_drop_;
};

}  // namespace harrow::agent
