#include "launcher/sbatch_call.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "batch/follow_on.h"
#include "batch/sbatch.h"
#include "launcher/command.h"
#include "launcher/run_access.h"

namespace harrow::launcher {
namespace {

/// Starts sbatch and hands what it prints to `hear`; its exit status, or that of Fail.
int Call(const std::vector<std::string>& words, const std::string& script,
         const std::function<void(std::string_view)>& hear) {
  const int fd = memfd_create("harrow-sbatch", MFD_CLOEXEC);
  int ends[2] = {-1, -1};
  if (fd < 0 || !WriteTo(fd, script) || lseek(fd, 0, SEEK_SET) != 0 ||
      (hear && pipe2(ends, O_CLOEXEC) != 0)) {
    if (fd >= 0) close(fd);
    return Fail(
        Status(Code::kExhausted, StrCat("the job's script cannot be written: ", strerrordesc_np(errno))));
  }
  // A task's sruns are told so where they may run; sbatch would keep its job there.
  if (getenv("HARROW_TASK_ID") != nullptr) {
    for (const char* name : {"SLURM_HOSTFILE", "SLURM_OVERLAP", "SLURM_CPU_BIND"}) unsetenv(name);
  }
  std::vector<std::string> copy = words;
  copy.insert(copy.begin(), "sbatch");
  std::vector<char*> argv;
  for (std::string& word : copy) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
  if (hear) posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(fd);
  if (hear) close(ends[1]);
  if (error == 0 && hear) {
    char buffer[4096];
    for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) != 0;) {
      if (got < 0 && errno != EINTR) break;
      if (got > 0) hear({buffer, static_cast<size_t>(got)});
    }
  }
  if (hear) close(ends[0]);
  if (error != 0)
    return Fail(Status(Code::kUnavailable, StrCat("sbatch cannot be started: ", strerrordesc_np(error))));
  int status = 0;
  (void)TEMP_FAILURE_RETRY(waitpid(pid, &status, 0));
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int CallSbatch(const std::vector<std::string>& words, const std::string& script,
               const std::function<void(std::string_view)>& hear) {
  if (!hear) return Call(words, script, {});
  return Call(words, script, [&](std::string_view said) {
    WriteTo(STDOUT_FILENO, said);
    hear(said);
  });
}

std::vector<std::string> LinkCommand(const FollowOn& chain, const std::string& after) {
  std::vector<std::string> command = {ThisProgram(), "link"};
  if (!chain.run_dir.empty()) command.insert(command.end(), {"--run-dir", chain.run_dir});
  if (!after.empty()) command.insert(command.end(), {"--after", after});
  for (const std::string& word : chain.sbatch) command.push_back(StrCat("--sbatch=", word));
  return command;
}

bool SubmitFollowOn(const FollowOn& chain, const std::string& after) {
  unsetenv("SBATCH_WAIT");
  std::string said;
  const int code =
      Call(batch::FollowOnWords(chain.sbatch, after, chain.run_dir, chain.directory),
           batch::SbatchScript(LinkCommand(chain, after), StrCat("harrow run --resume, after job ", after)),
           [&](std::string_view more) { said += more; });
  const auto job = batch::SubmittedJob(said);
  if (code == 0 && job) {
    std::cerr << "harrow: job " << *job << " goes on where the time limit ends job " << after << std::endl;
    return true;
  }
  std::cerr << "harrow: no follow-on of job " << after
            << " could be submitted; when its time limit ends it: harrow run --resume --run-dir "
            << ShellQuote(chain.run_dir) << std::endl;
  return false;
}

}  // namespace harrow::launcher
