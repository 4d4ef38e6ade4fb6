#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "store/object.h"

namespace harrow::store {

/// What is known of one content.
struct Row {
  enum class State : uint8_t {
    kAbsent,    // only named by listings that are here
    kSettling,  // a thread is giving it its name on disk, or taking it away
    kWhole,
  };
  State state = State::kAbsent;
  bool named = false;       // asked for by itself
  bool in_objects = false;  // its file lies in objects/, not in parts/
  uint64_t spare = 0;       // not 0: it goes when room is wanted, the lowest first
  uint32_t users = 0;       // directory objects here that hold it
  uint32_t pins = 0;        // calls under way that need it
  int64_t length = 0;       // of its file
  int64_t bytes = 0;        // Object::bytes
  uint64_t inode = 0;
  uint64_t charge = 0;                                 // of room
  std::shared_ptr<const std::vector<Object>> parts{};  // of a directory, each once, ascending
  mutable uint64_t complete_at = 0;                    // losses() when all parts were seen here
};

/// Which contents a store has and why it keeps them: asked for by themselves, held by directory objects, or
/// needed by a call. What nothing keeps comes out as a removal, whose files the caller unlinks. The store's
/// lock guards it.
class Table {
 public:
  struct Removal {
    ObjectId id;
    bool in_objects = false;
  };
  using Removals = std::vector<Removal>;

  Row* Find(const ObjectId& id);
  const Row* Find(const ObjectId& id) const;
  /// A thread of the caller's begins to give it its name.
  Row& BeginSettling(const ObjectId& id);
  /// It has it; `what` says length, bytes, inode, charge, parts, named, in_objects. Users of its parts are
  /// counted from now on.
  void Settled(const ObjectId& id, const Row& what);
  /// It has none (any more): what a removal ends with, too. Returns the room that is free again.
  uint64_t Gone(const ObjectId& id);

  /// Is here, and meant to be: not one that only a call under way still keeps.
  bool Kept(const ObjectId& id) const;
  /// Kept, and every file in it whole.
  bool Complete(const ObjectId& id) const;
  void Pin(const ObjectId& id) { ++rows_[id].pins; }
  void Unpin(const ObjectId& id, Removals* removals);
  void Unname(const ObjectId& id, Removals* removals);
  /// One that is named is so until room is wanted, or (Name) for good again.
  void Spare(const ObjectId& id);
  void Name(Row* row);
  /// The one that was spared first is named no more. False: none is spare.
  bool GiveUpSpare(Removals* removals);
  /// Its content is not what it was: it goes, whoever needs it, and every directory object that holds it.
  void Spoiled(const ObjectId& id, Removals* removals);

  std::vector<Object> Named() const;
  std::vector<ObjectId> Orphans() const;  // whole, and kept by nothing
  uint64_t whole() const { return whole_; }
  uint64_t used() const { return used_; }    // room of all, spare ones included
  uint64_t spare() const { return spare_; }  // of these
  void SetComplete(const Row& row) const { row.complete_at = losses_; }
  /// Every row, sums and counts agree; for tests.
  bool SanityCheck() const;

 private:
  void Release(const ObjectId& id, Removals* removals);
  void Remove(const ObjectId& id, Row* row, Removals* removals);
  void Unspare(Row* row);

  std::unordered_map<ObjectId, Row> rows_;
  uint64_t whole_ = 0;
  uint64_t used_ = 0;
  std::map<uint64_t, ObjectId> spares_;  // by Row::spare
  uint64_t sparings_ = 0;
  uint64_t spare_ = 0;
  uint64_t losses_ = 1;
};

}  // namespace harrow::store
