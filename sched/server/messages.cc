#include "server/messages.h"

#include <utility>

#include "base/number_list.h"

namespace harrow::server {

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

void AttemptToProto(const journal::AttemptRecord& record, pb::Attempt* out) {
  out->set_task(record.task.value);
  out->set_attempt(record.attempt);
  out->set_end(static_cast<pb::Attempt::End>(record.end));
  out->set_code(record.code);
  out->set_start_ns(record.start_ns);
  out->set_end_ns(record.end_ns);
  out->mutable_usage()->set_user_us(record.user_us);
  out->mutable_usage()->set_system_us(record.system_us);
  out->mutable_usage()->set_max_rss_kib(record.max_rss_kib);
  pb::OutputRef* output = out->mutable_output();
  output->set_file(static_cast<uint32_t>(record.output_file));
  output->set_offset(record.output_offset);
  output->set_stdout_bytes(record.stdout_bytes);
  output->set_stderr_bytes(record.stderr_bytes);
  output->set_truncated(record.output_truncated);
  out->set_message(record.message);
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
