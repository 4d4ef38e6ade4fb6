#include "agent/steps/criu_tool.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "os/posix_files.h"
#include "os/spawn.h"

namespace harrow::agent {

Status CriuTool::Works(bool* first) {
  const std::lock_guard lock(mutex_);
  *first = !works_.has_value();
  if (!works_) works_ = Try();
  return *works_;
}

Status CriuTool::Try() const {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Status(Code::kUnavailable, StrCat("no pipe: ", strerror(errno)));
  const os::Fd heard(ends[0]);
  os::Fd says(ends[1]);
  std::vector<std::string> words = {harrow_, "hold", "--criu", criu_, "--try", place_};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const os::Fd nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  os::Spawner spawner;
  const os::SpawnOutcome outcome = spawner.Spawn(
      {.program = argv[0], .argv = argv.data(), .envp = environ, .stdin_fd = nothing.get(), .stdout_fd = nothing.get(),
       .stderr_fd = says.get()});
  says = os::Fd();
  if (!outcome.started()) return Status(Code::kUnavailable, StrCat(harrow_, ": ", strerror(outcome.error)));
  std::string said;
  char text[512];
  for (ssize_t n; (n = TEMP_FAILURE_RETRY(read(heard.get(), text, sizeof text))) > 0;) said.append(text, static_cast<size_t>(n));
  int wait_status = 0;
  (void)TEMP_FAILURE_RETRY(waitpid(outcome.pid, &wait_status, 0));
  if (wait_status == 0) return {};
  constexpr std::string_view kHead = "harrow: ";
  if (said.starts_with(kHead)) said.erase(0, kHead.size());
  said = said.substr(0, said.find('\n'));
  return Status(Code::kUnavailable, said.empty() ? "it cannot be tried" : Printable(said, 300));
}

std::vector<std::string> CriuTool::Words(const Paths& paths, const Question& question) const {
  std::vector<std::string> words = {harrow_,    "hold",     "--criu",
                                    criu_,      "--images", paths.images,
                                    "--trouble", paths.trouble, "--signal",
                                    StrCat(question.signal), "--status", StrCat(question.status),
                                    "--limit", StrCat(std::max<int64_t>(1, question.limit.count() / 1'000'000))};
  if (!paths.restore.empty()) words.insert(words.end(), {"--restore", paths.restore});
  words.push_back("--");
  return words;
}

}  // namespace harrow::agent
