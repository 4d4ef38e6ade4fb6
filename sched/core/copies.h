#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/key_map.h"
#include "base/time.h"

namespace harrow::core {

/// Copies of files that are on their way to nodes: one a file and node, however many tasks wait for it.
class Copies {
 public:
  struct Copy {
    // Who sends it, or is to; none: it is read from the submit directory.
    NodeId from;
    // The first of those who wait for it; none: it is a backup, made for the number of its replicas.
    TaskId reader{};
    // When it was asked for.
    Time since{};
    // Who failed to, last.
    NodeId failed{};
    // Nobody sends it now: a source is looked for again then. Time::max(): it is on its way.
    Time again = Time::max();
    // How often nobody sent it, one time after the other, as who was to could not be reached.
    uint8_t failures = 0;
    // How often there was no room for it.
    uint8_t no_room = 0;
    // It waits for that.
    bool for_room = false;
    // It goes, or will, once more, though nothing goes on that may end with room.
    bool last_try = false;
  };
  /// Null: none is on its way there. Lives until the next one is added or removed.
  const Copy* Find(FileId file, NodeId to) const {
    const uint32_t at = Where(file, to);
    return at == kNone ? nullptr : &entries_[at].copy;
  }
  /// One or more of that file are on their way.
  bool Any(FileId file) const { return First(file) != kNone; }
  /// each(to, copy), in no order.
  template <class Each>
  void ForEachTaker(FileId file, const Each& each) const {
    for (uint32_t at = First(file); at != kNone; at = entries_[at].next)
      each(entries_[at].to, entries_[at].copy);
  }
  /// Who else a file is on its way to, in ascending order of nodes.
  std::vector<NodeId> Takers(FileId file) const;
  void Add(FileId file, NodeId to, NodeId from, TaskId reader, Time now);
  // What follows changes nothing where none is on its way there.
  /// It comes from somebody else, or is read from the submit directory.
  void SetSource(FileId file, NodeId to, NodeId from);
  /// Nobody sends it: one more failure.
  void Park(FileId file, NodeId to, Time again);
  /// Nobody sends it, as there is no room for it.
  void ParkForRoom(FileId file, NodeId to, Time again);
  /// Whoever sends it next begins anew.
  void ForgetFailures(FileId file, NodeId to);
  void SetLastTry(FileId file, NodeId to, Time again);
  /// There may be room now, for one of those that wait for it there.
  void NoteRoom(NodeId at, Time now);
  /// One is on its way, other than those that try again whether there is room.
  bool AnyGoes() const;
  /// Backups that are on their way to the node; to all.
  uint32_t backups(NodeId to) const { return to.value < backups_.size() ? backups_[to.value] : 0; }
  uint32_t backups() const { return all_backups_; }
  void Remove(FileId file, NodeId to);
  /// How many that node sends, of that file.
  uint32_t served(FileId file, NodeId by) const;
  /// Whether `node` gets it, over whomever, from `from`.
  bool ComesFrom(FileId file, NodeId node, NodeId from) const;

  using Place = std::pair<FileId, NodeId>;  // a file, and who gets it
  // These answer in ascending order.
  std::vector<Place> To(NodeId node) const;
  std::vector<Place> From(NodeId node) const;
  std::vector<Place> Parked(Time until) const;
  /// When a source is to be looked for next; Time::max(): for none.
  Time next() const;
  size_t size() const { return at_.size(); }
  /// each(file, to, copy), in no order.
  template <class Each>
  void ForEach(const Each& each) const {
    for (const Entry& entry : entries_) {
      if (entry.to) each(entry.file, entry.to, entry.copy);
    }
  }

  size_t memory() const;
  std::string FindBroken() const;

 private:
  static constexpr uint32_t kNone = KeyMap::kNone;
  struct Entry {
    FileId file{};
    NodeId to{};  // none: it is free
    Copy copy{};
    // Others of the same file, or the next that is free.
    uint32_t before = kNone, next = kNone;
  };
  static uint64_t Key(FileId file, NodeId node) { return uint64_t{file.value} << 32 | node.value; }
  uint32_t First(FileId file) const { return file.value < first_.size() ? first_[file.value] : kNone; }
  uint32_t Where(FileId file, NodeId to) const {
    const uint32_t first = First(file);
    return first == kNone || entries_[first].to == to ? first : at_.Find(Key(file, to));
  }
  Copy* Mutable(FileId file, NodeId to) {
    const uint32_t at = Where(file, to);
    return at == kNone ? nullptr : &entries_[at].copy;
  }
  template <class Which>
  std::vector<Place> Places(const Which& which) const;

  void Serve(FileId file, NodeId by);
  void Stop(FileId file, Copy* copy, Time again);
  void Unserve(FileId file, const Copy& copy);

  // As many as are on their way at one time: some a slot.
  std::vector<Entry> entries_;
  uint32_t free_ = kNone;
  KeyMap at_;                    // where in entries_, by file and node
  std::vector<uint32_t> first_;  // where in entries_, by file; of files after the end nothing comes
  KeyMap served_;                // by file and who sends it
  uint32_t parked_ = 0;
  // By the node that they are for.
  std::vector<uint32_t> backups_;
  uint32_t all_backups_ = 0;
};

}  // namespace harrow::core
