#include "journal/parts.h"

#include <charconv>

namespace harrow::journal {

// Who is lost by itself tells why.
std::vector<TaskFate> LastFates(const History& history, size_t tasks) {
  std::vector<TaskFate> fates(tasks, TaskFate::kOpen);
  for (const FateRecord& record : history.fates) {
    if (record.task.value < tasks) fates[record.task.value] = record.fate;
  }
  return fates;
}

bool WasAsked(const PartRecord& part) {
  return part.end == End::kLost && part.message.empty();
}

namespace {

int64_t EndedWhen(const PartRecord& part) {
  return part.failed_ns > 0 ? part.failed_ns : part.end_ns;
}

}  // namespace

size_t DecidingPart(std::span<const PartRecord> parts) {
  std::optional<size_t> first, asked, left;
  for (size_t i = 0; i < parts.size(); ++i) {
    const PartRecord& part = parts[i];
    if (Succeeded(part)) continue;
    if (part.end == End::kCheckpointed) {
      if (!left || part.part < parts[*left].part) left = i;
    } else if (WasAsked(part)) {
      if (!asked) asked = i;
    } else if (!first || EndedWhen(part) < EndedWhen(parts[*first])) {
      first = i;
    }
  }
  return first.value_or(left.value_or(asked.value_or(0)));
}

std::optional<uint32_t> RankIn(std::string_view message) {
  constexpr std::string_view kRank = "rank ";
  if (!message.starts_with(kRank)) return std::nullopt;
  message.remove_prefix(kRank.size());
  uint32_t rank = 0;
  const auto [end, error] = std::from_chars(message.data(), message.data() + message.size(), rank);
  if (error != std::errc() || !message.substr(static_cast<size_t>(end - message.data())).starts_with(" of "))
    return std::nullopt;
  return rank;
}

}  // namespace harrow::journal
