#pragma once

#include <vector>

#include "multiview/layout.h"

namespace harrow::multiview {

/// Boxes that lie one after the other in memory.
struct BoxList {
  std::vector<Box> boxes;
  std::vector<Index> first;  // elements before each box
  Index volume = 0;

  BoxList() = default;
  explicit BoxList(std::vector<Box> list);
};

/// What box `from` of one list and box `to` of another have in common.
struct Piece {
  int from;
  int to;
  Box part;
};

struct Partner {
  int process;
  BoxList boxes;  // the partner's
  std::vector<Piece> pieces;
};

/// What one process sends, receives and keeps when a complete array goes from one layout to another. It knows nothing of
/// elements one by one, and its size goes with the partners of the process.
struct Plan {
  BoxList from, to;                     // mine
  std::vector<Partner> send, receive;   // in the order process + 1, process + 2, ... (send), process - 1, ... (receive)
  std::vector<Piece> keep;

  Plan(const Layout& from_layout, const Layout& to_layout, int process);
};

/// The parts of `pieces` that lie in elements first .. last - 1 of the memory `from` describes.
std::vector<Piece> Within(const std::vector<Piece>& pieces, const BoxList& from, Index first, Index last);

/// Roles of `to` for the processes of `from`, such that as much as possible of what a process holds stays where it is: a
/// weighted bipartite matching, exact up to kExactProcesses and greedy above (at least half of the best).
std::vector<int> LeastMovedRoles(const Layout& from, const Grid& to);
inline constexpr int kExactProcesses = 128;

}  // namespace harrow::multiview
