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

/// All of them, ordered by the box in `from`, then by the one in `to`: the same on both sides of a transfer.
std::vector<Piece> Common(const BoxSpan& from, const BoxSpan& to);

/// With whom one process exchanges what, and what it keeps, when a complete array goes from one layout to another. It knows
/// nothing of elements one by one, and its size goes with the partners of the process. What a partner has of either layout, and
/// so the pieces, are made when they are needed: kept, they would be a hundred times the plan.
class Plan {
 public:
  Plan(const Layout& from_layout, const Layout& to_layout, int process);

  const BoxList& from() const { return from_; }
  const BoxList& to() const { return to_; }
  /// Processes, in the order process + 1, process + 2, ...
  const std::vector<int>& send() const { return send_; }
  /// In the order process - 1, process - 2, ...
  const std::vector<int>& receive() const { return receive_; }
  const std::vector<Piece>& keep() const { return keep_; }

 private:
  BoxList from_, to_;
  std::vector<int> send_, receive_;
  std::vector<Piece> keep_;
};

/// The parts of `pieces` that lie in elements first .. last - 1 of the memory `from` describes.
std::vector<Piece> Within(std::span<const Piece> pieces, const BoxSpan& from, Index first, Index last);

/// Roles of `to` for the processes of `from`, such that as much as possible of what a process holds stays where it is: a
/// weighted bipartite matching, exact up to kExactProcesses and greedy above (at least half of the best).
std::vector<int> LeastMovedRoles(const Layout& from, const Grid& to);
inline constexpr int kExactProcesses = 128;

}  // namespace harrow::multiview
