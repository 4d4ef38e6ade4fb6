#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "store/local_store.h"

namespace harrow::store {

/// "xx/NAME", of objects/ or parts/.
std::string ObjectPath(const ObjectId& id);

/// A link with that text; one that is there already is as good.
Status PlaceLink(const std::string& target, int parent, const std::string& name, const std::string& shown,
                 int disk);

bool PlacedBefore(const ObjectId& id, uint64_t inode, int parent, const std::string& name);

/// Whether one syncfs makes files and names of a file system of this type (statfs) durable.
bool SyncfsSuffices(long type);

/// What is told to At: the object's file is not what it was when it came.
constexpr int kNotTheSame = -1;

inline Status NotHere(const ObjectId& id) {
  return Status(Code::kNotFound, StrCat(id.Text(), " is not in the store"));
}

inline Status Dropped(const ObjectId& id) {
  return Status(Code::kNotFound, StrCat(id.Text(), " was dropped while it arrived"));
}

class LocalStore::Pins {
 public:
  explicit Pins(LocalStore* store) : store_(store) {}
  ~Pins();
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;
  /// False: it is not here.
  bool Take(const ObjectId& id);
  /// One that Adopt has pinned.
  void Add(const ObjectId& id) { ids_.push_back(id); }

 private:
  LocalStore* const store_;
  std::vector<ObjectId> ids_;
};

class LocalStore::RoomTaken {
 public:
  explicit RoomTaken(LocalStore* store) : store_(store) {}
  ~RoomTaken() { GiveBack(); }
  RoomTaken(const RoomTaken&) = delete;
  RoomTaken& operator=(const RoomTaken&) = delete;
  Status Take(uint64_t charge, bool of_disk, std::string_view shown) {
    HARROW_RETURN_IF_ERROR(store_->TakeRoom(charge, of_disk, shown));
    charge_ = charge;
    return {};
  }
  uint64_t charge() const { return charge_; }
  void GiveBack() {
    if (charge_ != 0) store_->GiveRoom(std::exchange(charge_, 0));
  }
  /// It is somebody else's from now on.
  void Keep() { charge_ = 0; }

 private:
  LocalStore* const store_;
  uint64_t charge_ = 0;
};

class LocalStore::Temporary {
 public:
  explicit Temporary(LocalStore* store) : store_(store), room_(store) {}
  ~Temporary();
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  Status Make(uint64_t charge, std::string_view shown);
  int fd() const { return fd_.get(); }
  const std::string& name() const { return name_; }
  uint64_t charge() const { return room_.charge(); }
  Fd TakeFd() { return std::move(fd_); }
  /// File and room are somebody else's from now on.
  void Keep() {
    name_.clear();
    room_.Keep();
  }

 private:
  LocalStore* const store_;
  RoomTaken room_;
  Fd fd_;
  std::string name_;
};

}  // namespace harrow::store
