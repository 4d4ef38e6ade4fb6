#include "batch/slurm_query.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/number.h"
#include "base/text.h"
#include "batch/slurm_cpus.h"

extern char** environ;

namespace harrow::batch {
namespace {

constexpr size_t kMostOutput = size_t{64} << 20;

std::vector<std::string_view> Split(std::string_view line, char by) {
  std::vector<std::string_view> out;
  while (true) {
    size_t at = line.find(by);
    out.push_back(line.substr(0, at));
    if (at == std::string_view::npos) return out;
    line.remove_prefix(at + 1);
  }
}

std::string LastLine(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  if (size_t at = text.rfind('\n'); at != std::string_view::npos) text.remove_prefix(at + 1);
  return Printable(text, 300);
}

// Reads both pipes to their ends. False: `deadline` passed or too much came.
bool ReadBoth(std::array<int, 2> fds, std::array<std::string, 2>* texts, Duration limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::array<pollfd, 2> polled = {pollfd{fds[0], POLLIN, 0}, pollfd{fds[1], POLLIN, 0}};
  char buffer[65536];
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    int n = poll(polled.data(), polled.size(), static_cast<int>(left));
    if (n < 0 && errno != EINTR) return false;
    for (size_t i = 0; n > 0 && i < polled.size(); ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      ssize_t got = TEMP_FAILURE_RETRY(read(polled[i].fd, buffer, sizeof buffer));
      if (got <= 0) {
        polled[i].fd = -1;
        continue;
      }
      (*texts)[i].append(buffer, static_cast<size_t>(got));
      if ((*texts)[i].size() > kMostOutput) return false;
    }
  }
  return true;
}

/// A file without a name that holds `text`, to be read from its begin.
int FileOf(std::string_view text) {
  const int fd = memfd_create("harrow-input", MFD_CLOEXEC);
  while (fd >= 0 && !text.empty()) {
    const ssize_t written = TEMP_FAILURE_RETRY(write(fd, text.data(), text.size()));
    if (written <= 0) break;
    text.remove_prefix(static_cast<size_t>(written));
  }
  if (fd < 0 || (text.empty() && lseek(fd, 0, SEEK_SET) == 0)) return fd;
  close(fd);
  return -1;
}

}  // namespace

Result<CommandEnd> RunToEnd(const std::vector<std::string>& command, Duration limit, std::string_view input) {
  std::array<int, 2> out, err;
  const int in = input.empty() ? -1 : FileOf(input);
  if (in < 0 && !input.empty()) return Status(Code::kExhausted, StrCat("memfd_create: ", strerror(errno)));
  const auto close_input = [in] {
    if (in >= 0) close(in);
  };
  if (pipe2(out.data(), O_CLOEXEC) != 0) {
    int error = errno;
    close_input();
    return Status(Code::kExhausted, StrCat("pipe: ", strerror(error)));
  }
  if (pipe2(err.data(), O_CLOEXEC) != 0) {
    int error = errno;
    close_input();
    for (int fd : out) close(fd);
    return Status(Code::kExhausted, StrCat("pipe: ", strerror(error)));
  }
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (in >= 0) {
    posix_spawn_file_actions_adddup2(&actions, in, 0);
  } else {
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  }
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_adddup2(&actions, err[1], 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  int failed = posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(err[1]);
  close_input();

  std::array<std::string, 2> texts;
  bool complete = failed == 0 && ReadBoth({out[0], err[0]}, &texts, limit);
  close(out[0]);
  close(err[0]);
  if (failed != 0) return Status(Code::kUnavailable, StrCat(command[0], ": ", strerror(failed)));
  if (!complete) kill(pid, SIGKILL);
  siginfo_t info = {};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED) != 0) {
    // A caller that reaps all children may have taken it: then the output must tell.
    if (errno != EINTR) break;
  }
  if (!complete) {
    return Status(Code::kUnavailable, StrCat(command[0], " gave no answer within ", FormatDuration(limit)));
  }
  const int status = info.si_pid != pid ? 0 : info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  return CommandEnd{status, std::move(texts[0]), std::move(texts[1])};
}

Result<std::string> RunCommand(const std::vector<std::string>& command, Duration limit) {
  Result<CommandEnd> end = RunToEnd(command, limit);
  if (!end.ok()) return end.status();
  if (end->status != 0) return Status(Code::kUnavailable, StrCat(command[0], " failed: ", LastLine(end->err)));
  return std::move(end->out);
}

Result<SlurmAllocation> ParseQuery(std::string_view text) {
  const Status damaged(Code::kUnavailable, "the answer of harrow-slurm-query is incomplete");
  SlurmAllocation allocation;
  bool complete = false;
  while (!text.empty()) {
    size_t end_of_line = text.find('\n');
    if (end_of_line == std::string_view::npos) return damaged;
    std::vector<std::string_view> field = Split(text.substr(0, end_of_line), '\t');
    text.remove_prefix(end_of_line + 1);
    if (field[0] == "gone" && field.size() == 2) {
      return Status(Code::kNotFound, StrCat("Slurm knows no running job ", field[1]));
    } else if (field[0] == "job" && field.size() == 5) {
      int64_t end = 0;
      if (!ReadNumber(field[2], &end)) return damaged;
      SlurmComponent component;
      component.job_id = field[1];
      component.partition = field[3];
      if (allocation.components.empty()) {
        allocation.job_id = field[1];
        allocation.job_name = field[4];
      }
      allocation.components.push_back(std::move(component));
      WallTime at{std::chrono::seconds(end)};
      if (end > 0 && (!allocation.end || at < *allocation.end)) allocation.end = at;
    } else if (field[0] == "node" && field.size() == 5 && !allocation.components.empty()) {
      GrantedNode node;
      node.name = field[1];
      if (!ReadNumber(field[2], &node.cpus) || !ReadNumber(field[3], &node.memory) ||
          !ReadNumber(field[4], &node.devices)) {
        return damaged;
      }
      node.partition = allocation.components.back().partition;
      allocation.components.back().nodes.push_back(std::move(node));
    } else if (field[0] == "cpus" && field.size() == 3 && !allocation.components.empty() &&
               !allocation.components.back().nodes.empty()) {
      GrantedNode& node = allocation.components.back().nodes.back();
      Result<std::vector<uint32_t>> which = ParseCpus(field[1]);
      if (!which.ok() || !ReadNumber(field[2], &node.of)) return damaged;
      node.which = *std::move(which);
    } else if (field[0] == "end") {
      complete = true;
    } else {
      return damaged;
    }
  }
  if (!complete || allocation.components.empty()) return damaged;
  return allocation;
}

std::optional<WallTime> ParseTimeLeft(std::string_view left, WallTime now) {
  while (!left.empty() && (left.back() == '\n' || left.back() == ' ')) left.remove_suffix(1);
  // squeue leaves out leading zeros as sinfo does: M:SS, H:MM:SS, D-HH:MM:SS.
  Result<Duration> duration = left.find(':') == std::string_view::npos
                                  ? Result<Duration>(Status(Code::kInvalid, "no length of time"))
                                  : ParseDuration(left);
  if (!duration.ok()) return std::nullopt;
  return now + *duration;
}

}  // namespace harrow::batch
