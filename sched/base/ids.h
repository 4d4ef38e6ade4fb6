#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>

namespace harrow {

/// A dense index that cannot be mixed up with another kind of index. Default: none.
template <class Tag>
struct Id {
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  uint32_t value = kNone;

  constexpr Id() = default;
  constexpr explicit Id(uint32_t v) : value(v) {}
  constexpr explicit operator bool() const { return value != kNone; }
  constexpr auto operator<=>(const Id&) const = default;
};

using TaskId = Id<struct TaskTag>;
using FileId = Id<struct FileTag>;
using NodeId = Id<struct NodeTag>;
using ProfileId = Id<struct ProfileTag>;  // attributes that tasks share
using KindId = Id<struct KindTag>;        // family of tasks: what a plot or a table groups by
using StreamId = Id<struct StreamTag>;    // lines between tasks
using ShapeId = Id<struct ShapeTag>;      // resources that tasks ask for

/// One try of a task. The scheduler numbers a task's attempts from 1; together they name an attempt for ever, in
/// events, messages, records and logs. Default: none.
struct AttemptId {
  TaskId task;
  uint32_t number = 0;

  constexpr auto operator<=>(const AttemptId&) const = default;
  constexpr uint64_t key() const { return uint64_t{task.value} << 32 | number; }
};

/// The papers' rank of a task: 0 for a final task, one more than the largest of those that need it.
using Level = int32_t;

}  // namespace harrow

template <class Tag>
struct std::hash<harrow::Id<Tag>> {
  size_t operator()(harrow::Id<Tag> id) const noexcept { return id.value * 0x9E3779B97F4A7C15ull; }
};

template <>
struct std::hash<harrow::AttemptId> {
  size_t operator()(harrow::AttemptId id) const noexcept { return id.key() * 0x9E3779B97F4A7C15ull; }
};
