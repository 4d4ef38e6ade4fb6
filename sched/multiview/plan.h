#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "multiview/layout.h"

namespace harrow::multiview {

/// Boxes that lie one after the other in memory.
struct BoxSpan {
  std::span<const Box> boxes;
  std::span<const Index> first;  // elements before each box
  Index volume;
};
struct BoxList {
  std::vector<Box> boxes;
  std::vector<Index> first;
  Index volume = 0;

  BoxList() = default;
  explicit BoxList(std::vector<Box> list);
  operator BoxSpan() const { return {boxes, first, volume}; }
};

/// What box `from` of one list and box `to` of another have in common.
struct Piece {
  int from;
  int to;
  Box part;
};

/// What one process sends, receives and keeps when a complete array goes from one layout to another. It knows nothing of
/// elements one by one, and its size goes with the partners of the process.
class Plan {
 public:
  struct Partner {
    int process;
    bool sends;
    std::uint32_t box, boxes;  // first and number, in the plan's list
    Index volume;
  };

  Plan(const Layout& from_layout, const Layout& to_layout, int process);

  const BoxList& from() const { return from_; }
  const BoxList& to() const { return to_; }
  /// In the order process + 1, process + 2, ...
  const std::vector<Partner>& send() const { return send_; }
  /// In the order process - 1, process - 2, ...
  const std::vector<Partner>& receive() const { return receive_; }
  const std::vector<Piece>& keep() const { return keep_; }
  /// The partner's own boxes: before the move where it sends, after it where it receives.
  BoxSpan BoxesOf(const Partner& p) const {
    return {std::span(boxes_).subspan(p.box, p.boxes), std::span(first_).subspan(p.box, p.boxes), p.volume};
  }
  /// What goes to or comes from the partner, in the same order on both sides. Made anew at each call: it is a quarter of the
  /// planning, and its memory would be half of the plan's.
  std::vector<Piece> PiecesOf(const Partner& p) const;

 private:
  Partner Add(const Layout& layout, int process, bool sends);
  BoxList from_, to_;
  std::vector<Partner> send_, receive_;
  std::vector<Piece> keep_;
  // Of all partners together: a plan with thousands of them is made without thousands of allocations.
  std::vector<Box> boxes_;
  std::vector<Index> first_;
};

/// The parts of `pieces` that lie in elements first .. last - 1 of the memory `from` describes.
std::vector<Piece> Within(std::span<const Piece> pieces, const BoxSpan& from, Index first, Index last);

/// Roles of `to` for the processes of `from`, such that as much as possible of what a process holds stays where it is: a
/// weighted bipartite matching, exact up to kExactProcesses and greedy above (at least half of the best).
std::vector<int> LeastMovedRoles(const Layout& from, const Grid& to);
inline constexpr int kExactProcesses = 128;

}  // namespace harrow::multiview
