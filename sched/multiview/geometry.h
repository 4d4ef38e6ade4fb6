#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "multiview/indices.h"

namespace harrow::multiview {

/// The elements lo .. lo + n - 1 of an array.
struct Box {
  Indices lo, n;

  Index volume() const;
  bool Contains(std::span<const Index> at) const;
  bool Contains(const Box& other) const;
  friend bool operator==(const Box&, const Box&) = default;
};

/// Empty result: false.
bool Intersect(const Box& a, const Box& b, Box* out);

/// Position of `at` in row-major order of an array of extents `shape`, and back.
Index Linear(std::span<const Index> shape, std::span<const Index> at);
void Unlinear(std::span<const Index> shape, Index linear, Index* at);

/// Appends the row-major range first .. last - 1 of an array of extents `shape` as the fewest boxes: at most
/// 2 * dimensions - 1, in ascending order of their first elements.
void AppendRange(std::span<const Index> shape, Index first, Index last, std::vector<Box>* boxes);

/// The memory of a box that is part of a larger row-major array: runs of equal length, `count[i]` of them `stride[i]` bytes
/// apart, slowest loop first. Loops are merged where that makes runs longer.
struct Runs {
  std::int64_t first = 0;   // bytes from the array's start
  std::int64_t length = 0;  // bytes of a run
  std::int64_t total = 0;   // bytes of all
  Indices count, stride;

  Runs() = default;
  /// `part` lies within `whole`, whose elements have `element_bytes` each.
  Runs(const Box& whole, const Box& part, std::size_t element_bytes);
  bool contiguous() const { return count.empty(); }
};

/// Walks through the bytes of `runs` in order.
class RunCursor {
 public:
  explicit RunCursor(const Runs& runs) : runs_(&runs), at_(runs.count.size()), offset_(runs.first) {}
  std::int64_t remaining() const { return runs_->total - done_; }
  /// Offset of the next byte, and how many follow it without a gap.
  std::int64_t offset() const { return offset_ + in_run_; }
  std::int64_t length() const { return runs_->length - in_run_; }
  /// `bytes` <= length().
  void Skip(std::int64_t bytes);
  /// Copies the next `bytes` out of (into) the array that starts at `array`.
  void Gather(const std::byte* array, std::byte* out, std::int64_t bytes);
  void Scatter(std::byte* array, const std::byte* in, std::int64_t bytes);

 private:
  template <bool kGather>
  void Transfer(std::byte* array, std::byte* packed, std::int64_t bytes);
  const Runs* runs_;
  Indices at_;
  std::int64_t offset_;
  std::int64_t in_run_ = 0;
  std::int64_t done_ = 0;
};

/// Copies `part` from one array to another; in the longest runs that are contiguous in both.
void CopyPart(const Box& part, std::byte* to, const Box& to_whole, const std::byte* from, const Box& from_whole,
              std::size_t element_bytes);

}  // namespace harrow::multiview
