#include "agent/steps/streams.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "agent/steps/file_pattern.h"
#include "agent/steps/gang.h"
#include "base/text.h"

namespace harrow::agent {

Status Streams::OpenFor(const char* what, const std::string& path, int flags, os::Fd* fd) const {
  os::Fd opened;
  const auto open = [&] {
    errno = EINTR;
    while (!opened.ok() && errno == EINTR && !host_.to_end()) opened = os::Fd(::open(path.c_str(), flags | O_CLOEXEC, 0666));
    return errno;
  };
  host_.blocks(true);
  int error = open();
  if (!opened.ok() && error == ENOENT && (flags & O_CREAT) != 0) {
    MakeDirectoriesOf(path);
    error = open();
  }
  host_.blocks(false);
  if (!opened.ok()) return Status(Code::kInvalid, StrCat("cannot open its ", what, " ", path, ": ", strerror(error)));
  *fd = std::move(opened);
  return {};
}

/// Empties a file that each attempt writes from the start: one of the task's own outputs, or as it asks for.
void Streams::BeginAnew(const LocalTask& task, int fd) const {
  struct stat file {};
  struct stat output {};
  const bool always = task.profile->spec().empty_streams;
  if ((task.outputs.empty() && !always) || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) ||
      file.st_size == 0)
    return;
  if (always && host_.may_run()) {
    [[maybe_unused]] const int emptied = ftruncate(fd, 0);
    return;
  }
  for (const std::string& name : task.outputs) {
    const std::string path = Below(task.profile->base().common().submit_dir, name);
    if (stat(path.c_str(), &output) != 0 || output.st_ino != file.st_ino || output.st_dev != file.st_dev)
      continue;
    if (!host_.may_run()) return;  // then the task does not begin either
    [[maybe_unused]] const int emptied = ftruncate(fd, 0);
    return;
  }
}

namespace {

/// In a sandbox, where it is a file that the task declares.
std::string InSandbox(const LocalTask& task, const std::string& sandbox, const std::string& path) {
  const std::string& submit_dir = task.profile->base().common().submit_dir;
  if (!path.starts_with(submit_dir + "/")) return path;
  const std::string name =
      std::filesystem::path(path.substr(submit_dir.size() + 1)).lexically_normal().string();
  const auto is_or_holds = [&](const std::string& declared) {
    return declared == name || name.starts_with(declared + "/");
  };
  const bool declared = std::any_of(task.outputs.begin(), task.outputs.end(), is_or_holds) ||
                        std::any_of(task.inputs.begin(), task.inputs.end(),
                                    [&](const TaskInput& input) { return is_or_holds(input.path); });
  return declared ? Below(sandbox, name) : path;
}

}  // namespace

Status Streams::OpenFiles(const LocalTask& task, const std::string& sandbox, uint32_t rank) {
  const ProfileSpec& spec = task.profile->spec();
  const auto expand = [&](const std::string& pattern) {
    if (pattern.empty()) return std::string();
    std::string path = ExpandFilePattern(pattern, task, rank);
    return sandbox.empty() ? path : InSandbox(task, sandbox, path);
  };
  // Somebody else's text may be there: another task's, an earlier attempt's, the user's.
  constexpr int kWrite = O_WRONLY | O_CREAT | O_APPEND;
  const std::string out = expand(spec.stdout_path);
  const std::string err = expand(spec.stderr_path);
  if (!spec.stdin_path.empty() && rank == 0)  // as mpirun has it
    HARROW_RETURN_IF_ERROR(OpenFor("stdin", expand(spec.stdin_path), O_RDONLY, &in_));
  if (!out.empty()) {
    HARROW_RETURN_IF_ERROR(OpenFor("stdout", out, kWrite, &out_));
    BeginAnew(task, out_.get());
  }
  one_file_ = !err.empty() && err == out;
  if (!err.empty() && !one_file_) {
    HARROW_RETURN_IF_ERROR(OpenFor("stderr", err, kWrite, &err_));
    BeginAnew(task, err_.get());
  }
  return {};
}

/// Of a pipe that many records wait in, and of one that holds what its reader takes at once, so that others
/// get the next.
constexpr int kPipeBytes = 256 << 10;
constexpr int kPipeOfSplit = 4 << 10;

Status Streams::OpenStreams(const LocalTask& task) {
  if (!task.has_streams()) return {};
  if (host_.streams == nullptr)
    return Status(Code::kUnavailable, "the node has no place for streams between tasks");
  if (task.writes_streams) HARROW_RETURN_IF_ERROR(written_.Open(task.attempt_id(), kPipeBytes, !task.outputs.empty()));
  if (task.sources.empty()) return {};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return Status(Code::kExhausted, StrCat("no pipe for its streams: ", strerror(errno)));
  in_ = os::Fd(ends[0]);
  const os::Fd fed_end(ends[1]);
  const bool split = std::any_of(task.sources.begin(), task.sources.end(),
                                 [](const StreamSource& source) { return source.split; });
  (void)fcntl(ends[0], F_SETPIPE_SZ, split ? kPipeOfSplit : kPipeBytes);
  return host_.streams->Feed(task.attempt_id(), ends[1]);
}

Status Streams::Prepare(Launch* launch, TaskResult*) {
  const LocalTask& task = launch->task;
  stdout_.Reset();
  stderr_.Reset();
  written_.Reset();
  const uint32_t rank = launch->given.process + (task.gang ? task.gang->first_rank() : 0);
  Status opened = OpenFiles(task, launch->sandbox, rank);
  if (opened.ok()) opened = OpenStreams(task);
  if (!opened.ok()) {
    CloseOwnEnds();
    CloseAll();
    return opened;
  }
  const uint64_t limit = limit_.load(std::memory_order_relaxed);
  const std::optional<uint32_t> writer = task.profile->spec().ranks > 0 ? std::optional(rank) : std::nullopt;
  const bool piped =
      (out_.ok() || task.writes_streams || stdout_.Open(task.id, task.attempt, limit, writer)) &&
      (err_.ok() || one_file_ || stderr_.Open(task.id, task.attempt, limit, writer));
  if (!piped) {
    const int error = errno;
    CloseOwnEnds();
    CloseAll();
    return Status(Code::kExhausted, StrCat("no pipe for its output: ", strerror(error)));
  }
  launch->request.stdin_fd = in_.get();
  launch->request.stdout_fd = task.writes_streams ? written_.write_fd()
                              : out_.ok()         ? out_.get()
                                                  : stdout_.write_fd();
  launch->request.stderr_fd = one_file_ ? out_.get() : err_.ok() ? err_.get() : stderr_.write_fd();
  return {};
}

void Streams::CloseOwnEnds() {
  stdout_.CloseWriteEnd();
  written_.CloseWriteEnd();
  stderr_.CloseWriteEnd();
  for (os::Fd* fd : {&in_, &out_, &err_}) *fd = os::Fd();
}

std::array<pollfd, 2> Streams::ToPoll() const {
  return {pollfd{written_.open() ? written_.read_fd() : stdout_.read_fd(), POLLIN, 0},
          pollfd{stderr_.read_fd(), POLLIN, 0}};
}

void Streams::TakeIn(const pollfd* polled) {
  if (written_.open()) {
    written_.TakeIn(polled[0].revents);
  } else {
    stdout_.TakeIn(polled[0].revents);
  }
  stderr_.TakeIn(polled[1].revents);
}

void Streams::HandOn() {
  stdout_.HandOn();
  stderr_.HandOn();
}

void Streams::CloseAll() {
  stdout_.CloseAll();
  written_.CloseAll();
  stderr_.CloseAll();
}

void Streams::Settle(const LocalTask& task, TaskResult* result) {
  CloseOwnEnds();
  CloseAll();
  if (result->end == End::kRunning) return;
  HandOn();
  if (task.writes_streams) written_.Judge(result);
  result->stdout_bytes = stdout_.kept_bytes();
  result->stderr_bytes = stderr_.kept_bytes();
  result->truncated = stdout_.truncated() || stderr_.truncated();
  result->output_offset = stdout_.first_offset();
  if (const uint64_t other = stderr_.first_offset();
      other != 0 && (result->output_offset == 0 || other < result->output_offset))
    result->output_offset = other;
}

}  // namespace harrow::agent
