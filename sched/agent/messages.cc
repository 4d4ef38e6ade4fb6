#include "agent/messages.h"

#include "wire/attempt_id.h"

namespace harrow::agent {
namespace {

static_assert(static_cast<int>(End::kExited) == pb::Attempt::EXITED);
static_assert(static_cast<int>(End::kSignaled) == pb::Attempt::SIGNALED);
static_assert(static_cast<int>(End::kTimedOut) == pb::Attempt::TIMED_OUT);
static_assert(static_cast<int>(End::kOutOfMemory) == pb::Attempt::OUT_OF_MEMORY);
static_assert(static_cast<int>(End::kCancelled) == pb::Attempt::CANCELLED);
static_assert(static_cast<int>(End::kInterrupted) == pb::Attempt::INTERRUPTED);
static_assert(static_cast<int>(End::kNotStarted) == pb::Attempt::NOT_STARTED);
static_assert(static_cast<int>(End::kLost) == pb::Attempt::LOST);
static_assert(static_cast<int>(End::kMissingOutput) == pb::Attempt::MISSING_OUTPUT);
static_assert(static_cast<int>(End::kRewound) == pb::Attempt::REWOUND);
static_assert(static_cast<int>(End::kCheckpointed) == pb::Attempt::CHECKPOINTED);

int64_t Microseconds(Duration d) {
  return d / std::chrono::microseconds(1);
}

}  // namespace

int64_t Nanoseconds(WallTime time) {
  return time.time_since_epoch().count();
}

ProfileSpec ProfileFromProto(const pb::Profile& message) {
  ProfileSpec spec{.cores = message.cores(),
                   .devices = message.gpus(),
                   .memory = message.memory(),
                   .nodes = message.nodes(),
                   .whole_node = message.whole_node(),
                   .ranks = message.ranks(),
                   .mpi = static_cast<Mpi>(message.mpi()),
                   .cwd = message.cwd(),
                   .shell = message.shell(),
                   .time_limit = Duration(message.time_limit_ns()),
                   .missing_ok = message.missing_ok(),
                   .empty_streams = message.empty_streams(),
                   .warn_signal = message.warn_signal(),
                   .warn_before = Duration(message.warn_before_ns()),
                   .warn_alone = message.warn_alone(),
                   .stdin_path = message.stdin_path(),
                   .stdout_path = message.stdout_path(),
                   .stderr_path = message.stderr_path()};
  for (const pb::EnvVar& variable : message.env()) spec.env.emplace_back(variable.name(), variable.value());
  if (message.has_checkpoint()) {
    const pb::Checkpointing& how = message.checkpoint();
    spec.checkpoint = {.on = true,
                       .criu = how.by() == kByCriu,
                       .ask = static_cast<CheckpointSpec::Ask>(how.ask()),
                       .signal = how.by() == kByCriu ? kAskHolder : how.signal(),
                       .status = how.status(),
                       .ask_all = how.ask_all(),
                       .files = {how.file().begin(), how.file().end()},
                       .every = Duration(how.every_ns()),
                       .time = Duration(how.time_ns()),
                       .restart_command = how.restart_command(),
                       .restart_form = how.restart_form() <= 4 ? static_cast<CommandForm>(how.restart_form()) : CommandForm::kNone};
  }
  return spec;
}

void GangToProto(const Gang& gang, pb::Gang* out) {
  out->set_here(gang.here);
  out->set_space(gang.space);
  for (const Gang::Node& node : gang.nodes) {
    pb::GangNode* const one = out->add_node();
    one->set_node(node.id.value);
    one->set_name(node.name);
    one->set_ranks(node.ranks);
  }
}

StreamSource SourceFromProto(const pb::StreamSource& message) {
  return {.stream = StreamId(message.stream()),
          .writer = message.open() ? AttemptId() : wire::IdOf(message.writer()),
          .node = message.node() == 0 ? NodeId() : NodeId(message.node() - 1),
          .split = message.split(),
          .records = message.records(),
          .gone = message.gone(),
          .open = message.open(),
          .over = message.over()};
}

LocalTask TaskFromProto(pb::Task& message) {
  LocalTask task;
  task.id = message.id();
  task.attempt = message.attempt();
  // What is not known cannot be started, and says so.
  task.form = message.form() <= 4 ? static_cast<CommandForm>(message.form()) : CommandForm::kNone;
  task.command = std::move(*message.mutable_command());
  task.name = std::move(*message.mutable_name());
  for (std::string& path : *message.mutable_outputs()) task.outputs.push_back(std::move(path));
  task.sizes_wanted = message.sizes_wanted();
  task.checkpoints = std::move(*message.mutable_checkpoints());
  task.sandbox = message.sandbox();
  for (pb::TaskInput& input : *message.mutable_input())
    task.inputs.push_back(
        {FileId(input.file()), std::move(*input.mutable_path()), std::move(*input.mutable_inside())});
  for (const uint32_t file : message.output_file()) task.output_files.emplace_back(file);
  for (const bool result : message.output_result()) task.output_results.push_back(result);
  task.output_files.resize(task.outputs.size());
  task.output_results.resize(task.outputs.size());
  if (message.has_earlier()) {
    const pb::Made& made = message.earlier();
    task.earlier = {.begin_ns = made.begin_ns(),
                    .end_ns = made.end_ns(),
                    .found = {made.found().begin(), made.found().end()}};
  }
  task.writes_streams = message.writes_streams();
  for (const pb::StreamSource& source : message.source()) task.sources.push_back(SourceFromProto(source));
  if (message.has_gang()) {
    Gang gang{.here = message.gang().here(),
              .space = message.gang().space(),
              .ends_together = message.gang().ends_together()};
    for (const pb::GangNode& node : message.gang().node())
      gang.nodes.push_back({.id = NodeId(node.node()), .name = node.name(), .ranks = node.ranks()});
    task.gang = std::make_shared<Gang>(std::move(gang));
  }
  return task;
}

void ResultToProto(TaskResult result, pb::Attempt* out) {
  out->set_task(result.id);
  out->set_attempt(result.attempt);
  out->set_end(static_cast<pb::Attempt::End>(result.end));
  out->set_code(result.code);
  out->set_start_ns(Nanoseconds(result.start));
  out->set_end_ns(Nanoseconds(result.finish));
  pb::Usage* usage = out->mutable_usage();
  usage->set_user_us(Microseconds(result.user_time));
  usage->set_system_us(Microseconds(result.system_time));
  usage->set_max_rss_kib(result.max_rss_kib);
  if (result.output_offset != 0 || result.truncated) {
    pb::OutputRef* output = out->mutable_output();
    output->set_offset(result.output_offset);
    output->set_stdout_bytes(result.stdout_bytes);
    output->set_stderr_bytes(result.stderr_bytes);
    output->set_truncated(result.truncated);
  }
  if (!result.message.empty()) out->set_message(std::move(result.message));
  for (int64_t size : result.output_sizes) out->add_output_sizes(size);
  for (uint32_t pu : result.pus) out->add_cores(pu);
  if (!result.devices.empty()) out->set_gpus(std::move(result.devices));
  if (result.made) {
    pb::Made* made = out->mutable_made();
    made->set_begin_ns(result.made->begin_ns);
    made->set_end_ns(result.made->end_ns);
    for (const uint32_t number : result.made->found) made->add_found(number);
  }
  if (result.end == End::kCheckpointed) {
    out->mutable_checkpoint()->set_bytes(result.checkpoint_bytes);
    out->mutable_checkpoint()->set_took_ns(result.checkpoint_took.count());
  }
  out->set_no_room(result.no_room);
  for (const MadeFile& made : result.made_files) {
    pb::MadeFile* message = out->add_made_file();
    message->set_file(made.file.value);
    message->set_shared(made.shared);
    if (!made.object) continue;
    message->set_object(made.object->id.Bytes());
    message->set_bytes(made.object->bytes);
  }
  for (const StreamSource& source : result.read) {
    pb::StreamSource* const read = out->add_read();
    read->set_stream(source.stream.value);
    wire::SetId(source.writer, read->mutable_writer());
    read->set_split(source.split);
    read->set_records(source.records);
  }
  out->set_read_to_end(result.read_to_end);
  out->set_written(result.written + 1);
  if (result.gang) GangToProto(*result.gang, out->mutable_gang());
  if (result.gang && result.failed) out->set_failed_ns(Nanoseconds(*result.failed));
  out->set_undeclared(result.undeclared);
  for (std::string& path : result.undeclared_paths) out->add_undeclared_path(std::move(path));
}

}  // namespace harrow::agent
