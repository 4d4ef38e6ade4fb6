// One job of a chain (`harrow sbatch --then-resume`). A follow-on waits in Slurm's queue with the dependency
// afternotok and
// --kill-on-invalid-dep: it is gone when the job before it ends well, whoever could still do something about
// it. A job that ends otherwise, but not by its time limit (tasks have failed, it is cancelled, nothing was
// done in it and it was not just late), takes its follow-on away itself; and as it may have been killed
// before it could, a follow-on looks at the run and at the job before it first. Each follow-on submits the
// next one when it begins, as nobody knows whether it will be able to when it ends; sbatch may be forbidden
// there, which is said.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/text.h"
#include "batch/follow_on.h"
#include "batch/slurm.h"
#include "batch/slurm_query.h"
#include "journal/journal.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "launcher/resume_place.h"
#include "launcher/run_access.h"
#include "launcher/sbatch_call.h"
#include "os/clock.h"
#include "run/standing.h"
#include "run_dir/owner.h"

namespace harrow::launcher {
namespace {

constexpr Duration kAnswerWithin = std::chrono::seconds(10);
constexpr Duration kLookAgain = std::chrono::seconds(1);  // twice as long each time, up to:
constexpr Duration kLookAtMost = std::chrono::seconds(30);

struct LinkOptions {
  FollowOn chain;
  std::string after;
  std::vector<std::string> command;
};

volatile sig_atomic_t child = 0, first_signal = 0;

void PassOn(int signal) {
  if (first_signal == 0) first_signal = signal;
  if (child > 0) kill(child, signal);
}

/// What Slurm says of a job: "RUNNING", "TIMEOUT", ...; empty: it does not say.
std::string StateOf(const std::string& job) {
  const Result<std::string> told =
      batch::RunCommand({"squeue", "-h", "-t", "all", "-j", job, "-o", "%T"}, kAnswerWithin);
  return told.ok() ? told->substr(0, told->find('\n')) : "";
}

/// Has a job had all of its time? (While it ends Slurm does not say whether that was it.) None: not known.
std::optional<bool> AtItsLimit(const std::string& job) {
  const Result<std::string> told =
      batch::RunCommand({"squeue", "-h", "-t", "all", "-j", job, "-o", batch::kTimeFormat}, kAnswerWithin);
  return told.ok() ? batch::HadAllItsTime(*told) : std::nullopt;
}

void Say(const std::string& text) {
  std::cerr << "harrow: " << text << std::endl;
}

/// Takes the follow-on of this job away.
void EndChain(const std::string& job) {
  const Result<std::string> mine =
      batch::RunCommand({"squeue", "-h", "--me", "-t", "PD", "-o", batch::kFollowOnFormat}, kAnswerWithin);
  if (!mine.ok()) return;
  for (const std::string& follow_on : batch::FollowOnsOf(*mine, job))
    (void)batch::RunCommand({"scancel", follow_on}, kAnswerWithin);
}

std::optional<run::Standing> Look(const std::string& run_dir) {
  const auto part = OpenRun(run_dir);
  if (!part.ok()) return std::nullopt;
  const Result<journal::History> history = journal::ReadHistory(part->dir);
  if (!history.ok()) return std::nullopt;
  return run::StandingOf(*history);
}

/// Until no other job works in the run: a follow-on may be let go before the job that it follows has gone.
void WaitForRun(const std::string& run_dir, const std::string& job) {
  bool said = false;
  for (Duration pause = kLookAgain; first_signal == 0; pause = std::min(2 * pause, kLookAtMost)) {
    const auto part = OpenRun(run_dir);
    if (!part.ok()) return;
    const Result<run_dir::Owner> owner = run_dir::ReadOwner(*part->dir, part->dir->path());
    if (!owner.ok() || owner->job.empty() || batch::JobRuns(ThisProgram(), owner->job, job) != true) return;
    if (!said)
      Say(StrCat("job ", owner->job, " still works in ", Printable(run_dir, 1000), "; waiting for its end"));
    said = true;
    for (Duration slept{0}; slept < pause && first_signal == 0; slept += kLookAgain)
      std::this_thread::sleep_for(kLookAgain);
  }
}

/// Why a follow-on has nothing to do; none: it goes on. The exit status in `code`.
std::optional<std::string> Needless(const LinkOptions& options, const std::optional<run::Standing>& standing,
                                    int* code) {
  *code = kExitStopped;
  if (!standing) {
    *code = kExitCannotGoOn;
    return StrCat("there is no run in ", Printable(options.chain.run_dir, 1000), " that could go on");
  }
  if (standing->open == 0) {
    *code = kExitDone;
    return "no task of the run is open";
  }
  if (StateOf(options.after) == "CANCELLED") return StrCat("job ", options.after, " was cancelled");
  if (standing->hopeless())
    return StrCat(
        "no task ", standing->barren > 0 ? "began" : "ended", " in job ", options.after,
        standing->barren > 0 ? ", nor in the one before it" : ", and what was interrupted would be again");
  return std::nullopt;
}

/// Why nobody is to go on after this job; none: its follow-on.
std::optional<std::string> WhyTheLast(int code, const std::string& job, uint64_t ended_before,
                                      const std::optional<run::Standing>& now) {
  if (code == kExitTaskFailed) return "tasks have failed";
  if (code == kExitDone || (now && now->open == 0)) return "no task is open";
  if (code == kExitUsage || code == kExitCannotGoOn) return "the run could not go on";
  // Where that is not known the follow-on sees to it: it asks what became of this job.
  if ((first_signal == SIGTERM || first_signal == SIGINT) && AtItsLimit(job) == false)
    return "the run was cancelled";
  if (!now || now->ended > ended_before) return std::nullopt;
  if (now->barren == 0)
    return "no task ended in this job, and what was interrupted would be in the next; it needs longer jobs";
  if (now->hopeless())
    return "no task began in this job, nor in the one before it; they need longer jobs, or a smaller time or "
           "end_margin";
  Say("no task began in this job, which may be due to a late start: one more job tries it");
  return std::nullopt;
}

int RunChild(std::vector<std::string> words) {
  words.insert(words.begin(), ThisProgram());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);  // until the child is known
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &before);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int error =
      first_signal != 0 ? EINTR : posix_spawn(&pid, argv[0], nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) child = pid;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (error == EINTR) return 128 + first_signal;
  if (error != 0) return Fail(Status(Code::kInternal, StrCat(words[0], ": ", strerrordesc_np(error))));
  int status = 0;
  (void)TEMP_FAILURE_RETRY(waitpid(pid, &status, 0));
  child = 0;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int Link(LinkOptions options) {
  const std::string job = Variable("SLURM_JOB_ID");
  if (job.empty())
    return Fail(Status(Code::kInvalid, "harrow link is the inside of a job of harrow sbatch --then-resume"));
  struct sigaction action {};
  action.sa_handler = PassOn;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) sigaction(signal, &action, nullptr);
  FollowOn& chain = options.chain;
  if (chain.run_dir.empty()) {
    chain.run_dir = RealPath(StrCat("harrow-", job));
    options.command.insert(options.command.begin() + 1, {"--run-dir", chain.run_dir});
  }
  chain.directory = RealPath(".");
  // A job that Slurm has begun again goes on with what it did before, and has one follow-on.
  const std::string restarts = Variable("SLURM_RESTART_COUNT");
  const bool again = !restarts.empty() && restarts != "0";
  if (again) EndChain(job);
  if (!options.after.empty() || (again && OpenRun(chain.run_dir).ok()))
    options.command = {"run", "--resume", "--run-dir", chain.run_dir};
  if (!options.after.empty() || again) (void)SubmitFollowOn(chain, job);
  if (!options.after.empty()) WaitForRun(chain.run_dir, batch::JobWithRestarts(Environment()));
  const std::optional<run::Standing> before = Look(chain.run_dir);
  int code = kExitDone;
  if (!options.after.empty()) {
    if (const auto why = Needless(options, before, &code)) {
      Say(StrCat("nothing is to be gone on with: ", *why));
      EndChain(job);
      return code;
    }
  }
  code = RunChild(options.command);
  if (const auto why = WhyTheLast(code, job, before ? before->ended : 0, Look(chain.run_dir))) {
    if (code != kExitDone) Say(StrCat("no job goes on: ", *why));
    EndChain(job);
  }
  return code;
}

const Registered kLink(
    {.name = "link",
     .summary = "A job of a chain; what harrow sbatch --then-resume submits",
     .example = "",
     .usage = "",
     .hidden = true,
     .setup = [](CLI::App& app) -> std::function<int()> {
       auto options = std::make_shared<LinkOptions>();
       app.add_option("--run-dir", options->chain.run_dir)->type_name("D");
       app.add_option("--after", options->after)->type_name("JOB");
       app.add_option("--sbatch", options->chain.sbatch)->type_name("WORD")->allow_extra_args(false);
       app.add_option("COMMAND", options->command);
       return [options] { return Link(*options); };
     }});

}  // namespace
}  // namespace harrow::launcher
