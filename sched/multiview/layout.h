#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "multiview/geometry.h"
#include "harrow/multiview.hpp"

namespace harrow::multiview {

/// An array cut into blocks along each dimension; blocks of a dimension differ by at most one element, larger ones first.
class Grid {
 public:
  Grid() = default;
  Grid(Indices shape, Indices blocks);
  /// `call` and `what` ("Split", "View") are for the error's text.
  static Result<Grid> Make(std::span<const Index> shape, const Cuts& cuts, const char* call, const char* what);

  const Indices& shape() const { return shape_; }
  const Indices& blocks() const { return blocks_; }
  Index count() const;
  Index Start(std::size_t d, Index block) const { return block * smaller_[d] + std::min(block, larger_[d]); }
  /// The block of dimension `d` that holds index `i`.
  Index Holding(std::size_t d, Index i) const {
    const Index q = smaller_[d], r = larger_[d];
    return i < r * (q + 1) ? i / (q + 1) : r + (i - r * (q + 1)) / q;
  }
  /// Elements of the blocks lo .. lo + n - 1.
  Box Elements(const Box& of_blocks) const;
  /// The blocks that `elements` touches.
  Box Blocks(const Box& elements) const;
  friend bool operator==(const Grid& a, const Grid& b) { return a.shape_ == b.shape_ && a.blocks_ == b.blocks_; }

 private:
  Indices shape_, blocks_;
  Indices smaller_, larger_;  // the size of the smaller blocks; how many have one element more
};

/// Which process holds what: the blocks of a grid, in row-major order, in runs over the processes. A run is a *role*; process p
/// has role p unless the layout is relabelled.
class Layout {
 public:
  Layout(Grid grid, int processes, std::vector<int> role_of_process = {});

  const Grid& grid() const { return grid_; }
  int processes() const { return processes_; }
  bool relabelled() const { return !role_of_process_.empty(); }
  int RoleOf(int process) const { return relabelled() ? role_of_process_[process] : process; }
  int ProcessOf(int role) const { return relabelled() ? process_of_role_[role] : role; }
  const std::vector<int>& role_of_process() const { return role_of_process_; }
  int Owner(std::span<const Index> at) const;
  /// What the process holds, in the order in which it lies in memory, each box row-major: at most 2 * dimensions - 1 boxes.
  std::vector<Box> Boxes(int process) const;
  /// Elements the process holds; the most any process holds.
  Index Volume(int process) const;
  Index LargestVolume() const;
  /// Calls `visit(process)` for each process that holds a part of `box`, in the order of their roles, and more than once in a row
  /// for some; time goes with their number, not with the blocks' or the elements'.
  void ForEachHolder(const Box& box, const std::function<void(int)>& visit) const;
  /// Those processes in ascending order.
  std::vector<int> Holders(const Box& box) const;
  friend bool operator==(const Layout& a, const Layout& b) {
    return a.processes_ == b.processes_ && a.grid_ == b.grid_ && a.role_of_process_ == b.role_of_process_;
  }

 private:
  Index FirstBlock(int role) const {
    return role * fewer_ + std::min<Index>(role, longer_);
  }
  int RoleOfBlock(Index block) const;
  void Visit(const Box& blocks, std::size_t d, Index before, const std::function<void(int)>& visit) const;

  Grid grid_;
  int processes_;
  Index count_, fewer_, longer_;  // blocks; of the shorter runs; the number of longer runs
  Indices inner_;  // blocks below one block of dimension d
  std::vector<int> role_of_process_, process_of_role_;  // empty: the same
};

}  // namespace harrow::multiview
