#include "server/messages.h"

#include <algorithm>
#include <utility>

#include "base/number_list.h"
#include "base/text.h"

namespace harrow::server {

constexpr uint32_t kDroppedNamed = 10;

static_assert(static_cast<int>(journal::End::kExited) == pb::Attempt::EXITED &&
                  static_cast<int>(journal::End::kLost) == pb::Attempt::LOST,
              "the journal numbers ends as the wire does");

core::TaskRestored::As RestoredAs(journal::TaskFate fate) {
  using As = core::TaskRestored::As;
  switch (fate) {
    case journal::TaskFate::kDone:
      return As::kDone;
    case journal::TaskFate::kFailed:
      return As::kFailed;
    case journal::TaskFate::kSkipped:
      return As::kSkipped;
    case journal::TaskFate::kCancelled:
      return As::kCancelled;
    case journal::TaskFate::kPruned:
      return As::kPruned;
    case journal::TaskFate::kOpen:
      break;
  }
  return As::kOpen;
}

std::string DroppedText(const pb::Attempt& attempt) {
  std::string names;
  uint32_t named = 0;
  for (const std::string& path : attempt.undeclared_path()) {
    if (named == std::min(attempt.undeclared(), kDroppedNamed)) break;
    names += StrCat(named++ == 0 ? "" : ", ", Printable(path, 60));
  }
  if (named == 0) return "";
  if (const uint32_t more = attempt.undeclared() - named; more > 0) names += StrCat(" and ", more, " more");
  return StrCat("dropped with its sandbox, as not declared (out = [...]): ", names);
}

journal::AttemptRecord AttemptFromProto(const pb::Attempt& attempt, NodeId node) {
  journal::AttemptRecord record;
  record.task = TaskId(attempt.task());
  record.attempt = attempt.attempt();
  record.node = node;
  record.end =
      attempt.end() == pb::Attempt::RUNNING ? journal::End::kLost : static_cast<journal::End>(attempt.end());
  record.code = attempt.code();
  record.start_ns = attempt.start_ns();
  record.end_ns = attempt.end_ns();
  record.user_us = attempt.usage().user_us();
  record.system_us = attempt.usage().system_us();
  record.max_rss_kib = attempt.usage().max_rss_kib();
  record.output_file = attempt.output().file();
  record.output_offset = attempt.output().offset();
  record.stdout_bytes = attempt.output().stdout_bytes();
  record.stderr_bytes = attempt.output().stderr_bytes();
  record.output_truncated = attempt.output().truncated();
  record.message = attempt.message();
  if (const std::string dropped = DroppedText(attempt); !dropped.empty())
    record.message += StrCat(record.message.empty() ? "" : "; ", dropped);
  record.cores = NumberList({attempt.cores().data(), static_cast<size_t>(attempt.cores_size())});
  return record;
}

journal::PartRecord PartFromProto(const pb::Attempt& attempt, const journal::PartRecord& as) {
  journal::AttemptRecord told = AttemptFromProto(attempt, as.node);
  journal::PartRecord part = as;
  part.end = told.end;
  part.code = told.code;
  part.start_ns = told.start_ns;
  part.end_ns = told.end_ns;
  part.failed_ns = attempt.failed_ns();
  part.user_us = told.user_us;
  part.system_us = told.system_us;
  part.max_rss_kib = told.max_rss_kib;
  part.output_file = told.output_file;
  part.output_offset = told.output_offset;
  part.stdout_bytes = told.stdout_bytes;
  part.stderr_bytes = told.stderr_bytes;
  part.output_truncated = told.output_truncated;
  part.message = std::move(told.message);
  part.cores = std::move(told.cores);
  return part;
}

journal::NodeRecord NodeToRecord(const Node& node, int64_t left_ns) {
  return {.node = node.id,
          .name = node.name,
          .slots = node.capacity.slots,
          .incarnation = node.incarnation,
          .output_file = node.output_file,
          .joined_ns = node.joined_ns,
          .left_ns = left_ns,
          .topology = node.topology};
}

}  // namespace harrow::server
