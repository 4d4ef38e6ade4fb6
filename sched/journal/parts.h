#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "journal/journal.h"

namespace harrow::journal {

/// Whether it ended well.
template <class Record>
bool Succeeded(const Record& record) {
  return record.end == End::kExited && record.code == 0;
}

/// It did, or has left a checkpoint.
template <class Record>
bool EndedWell(const Record& record) {
  return Succeeded(record) || record.end == End::kCheckpointed;
}

/// It was told to end, and its task goes on: it counts neither as a failure nor as a loss.
template <class Record>
bool IsContinued(const Record& record) {
  return record.end == End::kRewound || record.end == End::kCheckpointed;
}

/// What was decided last about each of so many tasks.
std::vector<TaskFate> LastFates(const History& history, size_t tasks);

/// Whether a part ended because it was told to, as another one had, or its node was lost.
bool WasAsked(const PartRecord& part);

/// The part of an attempt that says how all of it ended, as its position: the first of those that ended
/// otherwise than well, and by themselves. All ended well, or as they were asked to: one that left a
/// checkpoint, else the first that was asked, else the first. There is at least one.
size_t DecidingPart(std::span<const PartRecord> parts);

/// The rank that ended an attempt, where its message begins with it ("rank 3 of 8 ...", as agents and server
/// write it).
std::optional<uint32_t> RankIn(std::string_view message);

}  // namespace harrow::journal
