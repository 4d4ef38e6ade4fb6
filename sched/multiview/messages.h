#pragma once

#include <memory>
#include <vector>

#include "multiview/geometry.h"
#include "multiview/memory.h"
#include "multiview/team.h"

namespace harrow::multiview {

/// Reads and writes parts of a segment: a file's longer runs by system calls, so that its pages do not become memory of this
/// process, everything else in place.
class SegmentAccess {
 public:
  explicit SegmentAccess(Segment* segment) : segment_(segment) {}
  Status Gather(RunCursor* cursor, std::byte* out, std::int64_t bytes) const;
  Status Scatter(RunCursor* cursor, const std::byte* in, std::int64_t bytes) const;

 private:
  Segment* segment_;
};

/// What goes to or comes from one process: runs of a local segment, one after the other.
struct Flow {
  int process;
  std::vector<Runs> runs;
  std::int64_t total = 0;
  bool whole = false;  // contiguous on both sides: goes without staging
};

/// Moves flows between processes in messages of bounded size; both sides cut a flow alike.
class MessageExchange {
 public:
  /// Flows in the order of Plan::send and Plan::receive. Their memory is at most 2 * kSlots * packed_bytes.
  MessageExchange(internal::Team& team, std::vector<Flow> send, std::vector<Flow> receive, Segment* from, Segment* to,
                  std::size_t packed_bytes);
  ~MessageExchange();
  /// Does what can be done without waiting.
  Status Progress() { return send_.flows.empty() && receive_.flows.empty() ? Status() : Step(false); }
  Status Finish();

 private:
  static constexpr int kSlots = 4;
  struct Side {
    std::vector<Flow> flows;
    std::size_t flow = 0;
    std::int64_t done = 0;  // bytes of the current flow given to messages
    bool finished() const { return flow == flows.size(); }
  };
  struct Slot {
    std::unique_ptr<std::byte[]> staging;
    std::size_t flow = 0;
    std::int64_t begin = 0, bytes = 0;  // in the flow
    bool staged = false;
    bool busy = false;
    bool arrived = false;
  };
  struct Position {
    std::size_t run = 0;
    std::int64_t done = 0;
    std::unique_ptr<RunCursor> cursor;
  };
  Status Step(bool wait);
  Status Turn(bool wait);
  Status StartSend(int slot);
  Status StartReceive(int slot);
  void Unpack(const Slot& slot);
  void UnpackArrived();
  template <class F>
  void Walk(const Flow& flow, Position* position, std::int64_t bytes, F&& each);

  internal::Team& team_;
  Side send_, receive_;
  Segment *from_, *to_;
  SegmentAccess read_, write_;
  std::int64_t packed_bytes_;
  Slot slots_[2 * kSlots];  // sends, then receives
  MPI_Request requests_[2 * kSlots];
  Position packed_;                  // in the flow being sent
  std::vector<Position> unpacked_;   // in each flow being received
  Status error_;                     // of a file; the messages go on
  Status broken_;                    // of MPI; nothing goes on
};

}  // namespace harrow::multiview
