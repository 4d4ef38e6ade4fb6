#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace harrow::server {

/// Puts files on nodes before a run: which node is to get which file from whom, and what has become of it.
/// Pure: no clock, no channel. All calls are of one thread.
class Staging {
 public:
  struct Limits {
    size_t reads = 8;      // of the submit directory, by a node at once
    size_t fetches = 32;   // from other nodes, by a node at once
    size_t serves = 2;     // of a file, by a node that has it or gets it
    uint32_t retries = 3;  // of a file to a node, after which it is read from the submit directory
  };
  /// The node is to get the file.
  struct Copy {
    FileId file;
    NodeId to;
    NodeId from{};  // none: it reads it from the submit directory
    bool operator==(const Copy&) const = default;
  };
  enum class Why : uint8_t {
    kNotSent = 0,     // by the node that was to
    kUnreadable = 1,  // in the submit directory
    kNoRoom = 2,
  };
  /// What is not where it is to be, and never will.
  struct Trouble {
    FileId file;
    Why why;
    NodeId node{};  // that has no room for it; none: no node has, or it is no matter of nodes
    bool operator==(const Trouble&) const = default;
  };

  /// `everywhere`: each file on every node, else on one.
  Staging(std::vector<FileId> files, bool everywhere, const Limits& limits);

  /// The node takes part, from now on or again.
  void Joined(NodeId node);
  /// With all that it holds or was to get.
  void Lost(NodeId node);
  /// All have joined that are waited for: they take turns in this order, and copies begin.
  void Begin(const std::vector<NodeId>& nodes);
  /// The node has it, whether it was asked for or not.
  void Stored(FileId file, NodeId node);
  /// It may well have it: it is asked first.
  void Likely(FileId file, NodeId node);
  /// It had it, and has it no more.
  void Gone(FileId file, NodeId node);
  /// Its copy did not succeed. What was asked of another node meanwhile goes on.
  void Failed(FileId file, NodeId to, NodeId from, Why why);

  /// What is to be sent now; of a copy that is on its way: it comes from another node from now on.
  std::vector<Copy> TakeCopies();
  /// And what is to be told.
  std::vector<Trouble> TakeTroubles() { return std::exchange(troubles_, {}); }

  /// Each file is where it is to be, or never will; after TakeCopies.
  bool complete() const;
  bool begun() const { return begun_; }
  size_t nodes() const { return nodes_.size(); }
  size_t files() const { return files_.size(); }
  bool Holds(FileId file, NodeId node) const;
  /// Is it on a node, or on each of them?
  bool IsStaged(FileId file) const;
  size_t failed() const { return failed_; }  // troubles

 private:
  struct File {
    FileId id;
    std::vector<NodeId> holders{};
    std::vector<NodeId> refused{};  // are not asked again
    NodeId likely{};
    NodeId reader{};  // is to read it; none: nobody
    bool unreadable = false;
  };
  struct Node {
    std::deque<uint32_t> to_read{}, to_fetch{};  // places in files_; some are settled already
    size_t reads = 0, fetches = 0;               // on their way
    size_t serves = 0;                           // to others
    uint64_t files = 0;                          // that it has, or is to read
  };
  struct Failures {
    uint32_t count = 0;
    NodeId last{};  // who failed to send it
  };
  using Place = std::pair<uint32_t, NodeId>;  // a file, and who gets it

  File* Find(FileId file, uint32_t* place);
  void Tell(const File& file, Why why, NodeId node);
  bool IsOpen(uint32_t place) const;
  void FindReader(uint32_t place);
  void WantEverywhere(uint32_t place);
  NodeId SourceOf(uint32_t place, NodeId to, bool whole) const;
  void Ask(uint32_t place, NodeId to, NodeId from);
  void End(std::map<Place, NodeId>::iterator going);
  void LoseHolder(uint32_t place, NodeId node);
  void LoseSource(uint32_t place, NodeId source);
  void TakeReads(NodeId id, Node* node);
  void TakeFetches(NodeId id, Node* node);

  const bool everywhere_;
  const Limits limits_;
  std::vector<File> files_;
  std::unordered_map<FileId, uint32_t> place_of_;
  std::map<NodeId, Node> nodes_;
  std::map<Place, NodeId> going_;  // who sends it; none: it is read from the submit directory
  std::map<Place, Failures> failures_;
  std::deque<uint32_t> homeless_;  // files that somebody is to be found for who reads them
  std::set<Place> unsent_;         // of going_
  std::vector<Trouble> troubles_;
  size_t failed_ = 0;
  bool begun_ = false;
};

}  // namespace harrow::server
