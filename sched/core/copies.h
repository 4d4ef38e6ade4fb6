#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace harrow::core {

/// Copies of files that are on their way to nodes: one a file and node, however many tasks wait for it.
class Copies {
 public:
  struct Copy {
    // Who sends it, or is to; none: it is read from the submit directory.
    NodeId from;
    // The first of those who wait for it.
    TaskId reader{};
    // Who failed to, last.
    NodeId failed{};
    // Nobody sends it now: a source is looked for again then. Time::max(): it is on its way.
    Time again = Time::max();
    // How often that one could not be reached, one time after the other.
    uint8_t failures = 0;
    // How often there was no room for it.
    uint8_t no_room = 0;
    // It waits for that.
    bool for_room = false;
    // It goes, or will, once more, though nothing goes on that may end with room.
    bool last_try = false;
  };
  /// Null: none is on its way there.
  const Copy* Find(FileId file, NodeId to) const;
  /// Who else a file is on its way to, in ascending order of nodes.
  std::vector<NodeId> Takers(FileId file) const;
  void Add(FileId file, NodeId to, NodeId from, TaskId reader);
  /// It comes from somebody else, or is read from the submit directory.
  void SetSource(FileId file, NodeId to, NodeId from);
  /// Nobody sends it: one more failure.
  void Park(FileId file, NodeId to, Time again);
  /// Nobody sends it, as there is no room for it.
  void ParkForRoom(FileId file, NodeId to, Time again);
  void SetLastTry(FileId file, NodeId to, Time again);
  /// There may be room now, for one of those that wait for it there.
  void NoteRoom(NodeId at, Time now);
  /// One is on its way, other than those that try again whether there is room.
  bool AnyGoes() const;
  void Remove(FileId file, NodeId to);
  /// How many that node sends, of that file.
  uint32_t served(FileId file, NodeId by) const;
  /// Whether `node` gets it, over whomever, from `from`.
  bool ComesFrom(FileId file, NodeId node, NodeId from) const;

  using Place = std::pair<FileId, NodeId>;  // a file, and who gets it
  std::vector<Place> To(NodeId node) const;
  std::vector<Place> From(NodeId node) const;
  std::vector<Place> Parked(Time until) const;
  /// When a source is to be looked for next; Time::max(): for none.
  Time next() const;
  bool any() const { return !copies_.empty(); }
  size_t size() const { return copies_.size(); }
  const std::map<Place, Copy>& all() const { return copies_; }

  size_t memory() const;
  std::string FindBroken() const;

 private:
  void Stop(FileId file, Copy* copy, Time again);
  void Unserve(FileId file, const Copy& copy);

  // As many as are on their way at one time: some a slot.
  std::map<Place, Copy> copies_;
  std::map<Place, uint32_t> served_;
  uint32_t parked_ = 0;
};

}  // namespace harrow::core
