#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/files.h"
#include "store/hasher.h"
#include "store/store.h"

namespace harrow::store {

/// A content that arrives: its file in arriving/, the pieces that are here, and who waits for more. The store
/// owns it (shared with its Arrival and Readers). One thread writes; any may read.
class Half {
 public:
  Half(const Object& object, std::string name, Fd fd, uint64_t charge)
      : object_(object), name_(std::move(name)), fd_(std::move(fd)), charge_(charge) {}

  const Object& object() const { return object_; }
  const std::string& name() const { return name_; }
  int fd() const { return fd_.get(); }
  uint64_t charge() const { return charge_; }
  bool whole() const;
  int64_t here() const;

  /// As Arrival. `disk`: whose free room a message tells.
  Status Write(int64_t offset, std::string_view data, int disk);
  std::vector<Arrival::Stretch> Missing(size_t limit) const;
  /// Of all bytes; those that came in order need not be read again.
  Result<ObjectId> Hash();

  /// Nothing more comes: it is whole and has its name, or it never will be.
  void End(bool failed);
  bool failed() const;
  uint64_t Wait(int64_t beyond, std::function<void(bool failed)> then);  // 0: has been called
  void Forget(uint64_t waiter);

  // Guarded by the store's lock.
  bool live = true;    // somebody has its Arrival
  bool named = false;  // asked for by itself
  uint64_t left = 0;   // when somebody last had its Arrival: they are numbered

 private:
  struct Waiter {
    uint64_t number;
    int64_t beyond;
    std::function<void(bool)> then;
  };
  std::optional<bool> FateOf(int64_t beyond) const;  // `failed`, where it is known

  const Object object_;
  const std::string name_;
  const Fd fd_;
  const uint64_t charge_;

  // Of the writing thread.
  Hasher hasher_;
  int64_t hashed_ = 0;

  mutable std::mutex lock_;
  std::map<int64_t, int64_t> pieces_;  // begin -> end; apart from each other
  std::vector<Waiter> waiters_;
  uint64_t waiter_ = 0;
  bool ended_ = false, failed_ = false;
};

}  // namespace harrow::store
