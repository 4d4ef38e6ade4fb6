#include "batch/sbatch.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <memory>
#include <string>
#include <time.h>
#include <unistd.h>
#include <vector>

#include "base/text.h"
#include "formats/batch_script.h"
#include "launcher/command.h"
#include "launcher/flow_plan.h"
#include "launcher/inputs.h"
#include "launcher/resume_place.h"
#include "launcher/run_access.h"
#include "launcher/run_words.h"
#include "launcher/sbatch_call.h"
#include "os/file_system.h"
#include "run/fit.h"

// `harrow sbatch`: a job that runs a flow. What it is to run is read and checked here, where its author looks
// at it, and then sbatch is given a script that becomes `harrow run WORDS`, on its standard input. sbatch
// prints what it prints.

namespace harrow::launcher {
namespace {

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += StrCat(text.empty() ? "" : " ", ShellQuote(word));
  return text;
}

/// The command line in two: sbatch's words, and the command that the job becomes.
struct Asked {
  std::vector<std::string> sbatch, command;
};

Result<Asked> Split(const std::vector<std::string>& words) {
  const auto dashes = std::find(words.begin(), words.end(), "--");
  const auto is_command = [](const std::string& word) { return word == "run" || word == "array"; };
  if (dashes == words.end()) {
    const auto command = std::find_if(words.begin(), words.end(), is_command);
    std::vector<std::string> before(words.begin(), command), after(command, words.end());
    if (after.empty()) after = {"run", "tasks.txt"};
    return Bad(StrCat("what the job is to run comes after --; try: harrow sbatch ", Joined(before),
                      before.empty() ? "" : " ", "-- ", Joined(after)));
  }
  Asked asked{.sbatch = {words.begin(), dashes}, .command = {dashes + 1, words.end()}};
  const std::string line =
      StrCat("harrow sbatch ", Joined(asked.sbatch), asked.sbatch.empty() ? "" : " ", "-- ");
  if (asked.command.empty())
    return Bad(StrCat("nothing to run stands after --; try: ", line, "run tasks.txt"));
  if (const std::string& first = asked.command[0]; !is_command(first)) {
    if (IsCommand(first))
      return Bad(StrCat("a job is for harrow run or harrow array; harrow ", first, " needs none"));
    const auto near = Suggest(first, std::vector<std::string_view>{"run", "array"});
    if (near) return Bad(StrCat("no command '", Printable(first), "' after --; did you mean '", *near, "'?"));
    return Bad(StrCat("after -- comes run or array, and not '", Printable(first), "'; try: ", line, "run ",
                      Joined(asked.command)));
  }
  if (!IsCommand(asked.command[0])) return Bad(StrCat("this harrow has no command '", asked.command[0], "'"));
  return asked;
}

bool OnPath(const std::string& program) {
  const std::string path = Variable("PATH");
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const std::string directory = path.substr(at, end - at);
    if (access(StrCat(directory.empty() ? "." : directory, "/", program).c_str(), X_OK) == 0) return true;
    at = end + 1;
  }
  return false;
}

/// Standard input as a file, as it is gone when the job begins; removed again where nothing is submitted.
/// (A --wait that fails does not tell: the job may be there still.)
class StoredInput {
 public:
  ~StoredInput() {
    if (!path_.empty() && !kept_) unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }
  void Keep() { kept_ = true; }

  /// In the current directory; it becomes standard input, so that messages are as those of `harrow run -`.
  Status Store() {
    const time_t now = time(nullptr);
    tm parts{};
    localtime_r(&now, &parts);
    char date[32];
    strftime(date, sizeof date, "%Y%m%d-%H%M%S", &parts);
    std::string path = RealPath(StrCat("harrow-stdin-", date, "-", getpid(), ".txt"));
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    const auto failed = [&](const char* what) {
      const Status status(Code::kUnavailable, StrCat("standard input cannot be kept for the job: ", what,
                                                     path, ": ", strerrordesc_np(errno)));
      if (fd >= 0) close(fd);
      return status;
    };
    if (fd < 0) return failed("");
    path_ = path;
    char buffer[65536];
    for (ssize_t got; (got = TEMP_FAILURE_RETRY(read(STDIN_FILENO, buffer, sizeof buffer))) != 0;) {
      if (got < 0 || !WriteTo(fd, {buffer, static_cast<size_t>(got)}))
        return failed(got < 0 ? "reading into " : "");
    }
    if (fsync(fd) != 0 || lseek(fd, 0, SEEK_SET) != 0 || dup2(fd, STDIN_FILENO) < 0) return failed("");
    close(fd);
    return Status();
  }

 private:
  std::string path_;
  bool kept_ = false;
};

/// What the job is to run, checked in the directory that it will run in.
int Check(const batch::SbatchWords& given, std::vector<std::string>* command, StoredInput* input,
          CheckedRun* checked) {
  const std::string here = RealPath(".");
  const std::string there = given.Value("chdir", 'D').value_or("");
  if (!there.empty() && chdir(there.c_str()) != 0) {
    return Fail(Bad(StrCat("the job's directory ", Printable(there, 1000),
                           " (--chdir) cannot be entered: ", strerrordesc_np(errno))));
  }
  const auto dash =
      command->front() == "run" ? std::find(command->begin(), command->end(), "-") : command->end();
  if (dash != command->end()) {
    if (const Status stored = input->Store(); !stored.ok()) return Fail(stored);
  }
  const int code = CheckRun(*command, checked);
  if (dash != command->end()) *dash = input->path();
  if (!there.empty() && chdir(here.c_str()) != 0) {
    return Fail(Status(Code::kUnavailable, StrCat(here, ": ", strerrordesc_np(errno))));
  }
  return code;
}

NodeCapacity LargestNode(const NodeShape& shape, const CheckedRun& checked) {
  NodeCapacity most = shape.largest;
  if (checked.options.slots > 0) most.slots = checked.options.slots;
  return most;
}

/// How many nodes the job may get: what -N says ("4", "2-4"), or what the partition lets a job have; 0:
/// nobody knows.
uint32_t MostNodes(const batch::SbatchWords& given, const NodeShape& shape) {
  const std::string said = given.Value("nodes", 'N').value_or("");
  const size_t dash = said.rfind('-');
  const std::string_view digits = std::string_view(said).substr(dash == std::string::npos ? 0 : dash + 1);
  uint32_t nodes = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), nodes);
  if (error == std::errc() && end == digits.data() + digits.size()) return nodes;
  return said.empty() && !given.says_nodes() ? shape.most : 0;
}

/// How many nodes the job is to have, and why, where the user does not say.
struct Proposal {
  uint32_t nodes = 1;
  std::string why;
};
Proposal ProposeFor(const Result<NodeShape>& shape, const std::string& command, CheckedRun* checked) {
  if (command != "run") return {1, "as nothing else was said"};
  Result<FlowTimes> times = FindFlowTimes(checked->graph, "", "");
  if (!times.ok()) return {1, "as the run times are not known"};
  if (!shape.ok()) return {1, shape.status().message()};
  for (size_t i = 0; i < checked->done.size(); ++i) {
    if (checked->done[i]) times->work[i] = {.seconds = 0, .left_out = true};
  }
  const sim::NodeCounts counts = ProposeNodes(checked->graph, times->work, *shape, checked->options);
  const sim::NodeCount& best = counts.tried[counts.best];
  if (!std::isfinite(best.makespan))
    return {1, StrCat("as some tasks ask for more than nodes of ", shape->name, " have")};
  return {best.nodes, StrCat("by harrow plan: run times ", times->said_by, ", ", shape->name, ", about ",
                             FormatDuration(FromSeconds(best.makespan)))};
}

/// The job has as many nodes as its widest task needs.
void WidenFor(const Result<NodeShape>& shape, const CheckedRun& checked, Proposal* proposal) {
  const NodeCapacity each = shape.ok() ? LargestNode(*shape, checked) : NodeCapacity();
  const run::Widest widest = run::FindWidest(checked.graph, checked.done, each);
  if (widest.nodes <= proposal->nodes) return;
  *proposal = {widest.nodes,
               StrCat("as ", Printable(checked.graph.TaskName(widest.task), 60), " needs so many")};
}

/// The job gets the script of an array as it is now, by its standard input, as sbatch gives a job its own.
void TakeScriptAlong(std::vector<std::string>* command, CheckedRun* checked) {
  if (std::any_of(command->begin(), command->end(),
                  [](const std::string& word) { return word == "--wrap" || word.starts_with("--wrap="); })) {
    checked->script.clear();  // the job makes it anew
    return;
  }
  if (checked->script_words > 0) {
    (*command)[command->size() - checked->script_words] = "-";
  } else {
    command->push_back("-");
  }
  // What it is called by its file's name, or says itself.
  command->insert(command->begin() + 1,
                  {StrCat("--job-name=", checked->name), StrCat("--called=", checked->script_called)});
}

/// How long the job may run, rounded up to minutes as Slurm does, and who says so; 0: without a limit, or
/// nobody does.
std::pair<Duration, std::string> JobTime(const batch::SbatchWords& given, const Result<NodeShape>& shape) {
  const std::optional<std::string> option = given.Value("time", 't');
  const std::string said = option ? *option : Variable("SBATCH_TIMELIMIT");
  if (given.heterogeneous()) return {};
  if (said.empty()) {
    return shape.ok() ? std::pair(shape->time, StrCat("by default in ", shape->name))
                      : std::pair<Duration, std::string>();
  }
  const Result<Duration> time = ParseDuration(said);  // "UNLIMITED" is none; sbatch tells of others
  if (!time.ok()) return {};
  constexpr Duration kMinute = std::chrono::minutes(1);
  return {(*time + kMinute - Duration(1)) / kMinute * kMinute, option ? "--time" : "SBATCH_TIMELIMIT"};
}

/// Tells of tasks that would never run in the job. False: that are all, by what the user says, and nothing is
/// to be submitted.
bool FitsIntoJob(const batch::SbatchWords& given, const Result<NodeShape>& shape, const std::string& command,
                 const CheckedRun& checked) {
  const auto place = [&](TaskId task) {
    return command == "array" ? checked.script_called : checked.graph.PlaceText(checked.graph.place(task));
  };
  if (shape.ok() && !given.heterogeneous()) {
    const NodeCapacity most = LargestNode(*shape, checked);
    const uint32_t nodes = MostNodes(given, *shape);
    const run::JobNodes job{.nodes = std::vector(std::max(1u, nodes), most), .counted = nodes > 0};
    const run::Misfits large = run::FindTooLarge(checked.graph, checked.done, job);
    if (large.tasks > 0) {
      std::cerr << "harrow: warning: " << place(large.first) << ": " << large.Text()
                << " can never run: " << Printable(checked.graph.TaskName(large.first), 60) << " asks for "
                << run::TooLargeText(checked.graph.profile(large.first), job,
                                     nodes > 0 && given.Has("nodes", 'N') ? "the job" : shape->name)
                << "; ask for less, or for "
                << (given.Has("nodes", 'N') ? "more nodes (-N) or another partition\n"
                                            : "another partition\n");
    }
  }
  const auto [time, said_by] = JobTime(given, shape);
  const Duration margin = checked.options.end_margin;
  if (time == Duration(0)) return true;
  const run::Misfits late = run::FindTooLong(checked.graph, checked.done, time, margin);
  if (late.tasks == 0) return true;
  const Duration asked = checked.graph.profile(late.first).time_limit;
  const auto minutes = (asked + margin) / std::chrono::minutes(1) + 1;
  const bool refused = late.all() && !said_by.starts_with("by default");
  std::cerr << "harrow: " << (refused ? "" : "warning: ") << place(late.first) << ": " << late.Text()
            << " would never run: the time of " << Printable(checked.graph.TaskName(late.first), 60) << " is "
            << FormatDuration(asked) << ", and the job has " << FormatDuration(time) << " (" << said_by
            << "), of which " << FormatDuration(margin)
            << " are kept free at its end (end_margin); ask for a longer job (-t " << minutes
            << " before --), or give " << (command == "array" ? "elements" : "tasks") << " less time"
            << (command == "array" ? " (-t after --)" : "") << ", or set HARROW_END_MARGIN\n";
  return !refused;
}

/// What sbatch would take for the job's script in the place of what stands after --; empty: nothing.
std::string ScriptAmong(const std::vector<std::string>& words) {
  const auto options = formats::BatchOptions();
  const auto takes_next = [&](const auto& is) {
    const auto known = std::find_if(options.begin(), options.end(), is);
    return known == options.end() || known->argument == formats::BatchOption::Argument::kRequired;
  };
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--wrap" || word.starts_with("--wrap=")) return "--wrap";
    if (word == ":" || word == "-") continue;
    if (!word.starts_with('-')) return word;
    bool next = false;  // is its argument; of an option that is not known it may be
    if (word.starts_with("--")) {
      next = word.find('=') == std::string::npos &&
             takes_next([&](const formats::BatchOption& option) { return option.name == std::string_view(word).substr(2); });
    } else {
      next = word.size() == 2 && takes_next([&](const formats::BatchOption& option) { return option.letter == word[1]; });
    }
    if (next) ++i;
  }
  return {};
}

struct SbatchOptions {
  bool then_resume = false;
};

int Sbatch(const SbatchOptions& options) {
  Result<Asked> asked = Split(ForeignWords());
  if (!asked.ok()) return Fail(asked.status());
  if (!OnPath("sbatch")) {
    return Fail(Status(
        Code::kNotFound,
        StrCat("there is no sbatch on this machine (in PATH); where Slurm is, its commands are on the login "
               "nodes; to run here: harrow ",
               Joined(asked->command))));
  }
  const batch::SbatchWords given(std::move(asked->sbatch));
  const std::string line = StrCat("harrow ", Joined(asked->command));
  const bool array = given.Has("array", 'a') || !Variable("SBATCH_ARRAY_INX").empty();
  if (const std::string script = ScriptAmong(given.words()); !script.empty()) {
    return Fail(Bad(StrCat(Printable(script, 200), " would be the job, and not harrow ", asked->command.front(),
                           ": before -- stand options of sbatch alone")));
  }
  if (array && asked->command.front() == "array") {
    return Fail(Bad(StrCat(given.Has("array", 'a') ? "--array before --" : "SBATCH_ARRAY_INX",
                           " would make many jobs, each of which runs all elements; write --array behind -- array")));
  }
  if (options.then_resume && (given.heterogeneous() || array || given.Has("quiet", 'Q'))) {
    return Fail(
        Bad("--then-resume is for one job whose number sbatch tells; leave out --array, --quiet and :"));
  }
  const bool waited = given.Has("wait", 'W') || !Variable("SBATCH_WAIT").empty();
  StoredInput input;
  CheckedRun checked;
  checked.for_sbatch = given.words();
  if (const int code = Check(given, &asked->command, &input, &checked); code != kExitDone) return code;

  const Result<NodeShape> shape =
      ShapeOfPartition(given.Value("partition", 'p').value_or(Variable("SBATCH_PARTITION")));
  if (!FitsIntoJob(given, shape, asked->command.front(), checked)) return kExitUsage;

  batch::SbatchDefaults defaults{.job_name = Printable(checked.name, 60), .nodes = 0};
  Proposal proposal;
  if (!given.says_nodes()) {
    proposal = ProposeFor(shape, asked->command.front(), &checked);
    WidenFor(shape, checked, &proposal);
    defaults.nodes = proposal.nodes;
  }
  if (asked->command.front() == "array") TakeScriptAlong(&asked->command, &checked);
  std::vector<std::string> words =
      batch::AddedToSbatch(given, batch::ParseEnvironment(Environment()), defaults);
  if (!given.Has("quiet", 'Q')) {
    if (!words.empty()) std::cerr << "harrow: added for sbatch: " << Joined(words) << "\n";
    if (!proposal.why.empty()) {
      std::cerr << "harrow: " << proposal.nodes << (proposal.nodes == 1 ? " node, " : " nodes, ")
                << proposal.why << "; -N says another count\n";
    }
  }
  words.insert(words.end(), given.words().begin(), given.words().end());
  int code = kExitDone;
  if (options.then_resume) {
    const FollowOn chain{.directory = RealPath(given.Value("chdir", 'D').value_or(".")),
                         .run_dir = checked.run_dir,
                         .sbatch = words};
    std::vector<std::string> first = LinkCommand(chain, "");
    first.push_back("--");
    const auto says_run_dir = [](const std::string& word) {
      return word == "--run-dir" || word.starts_with("--run-dir=");
    };
    if (!checked.run_dir.empty() &&
        std::none_of(asked->command.begin(), asked->command.end(), says_run_dir)) {
      asked->command.insert(asked->command.begin() + 1, {"--run-dir", checked.run_dir});
    }
    first.insert(first.end(), asked->command.begin(), asked->command.end());
    std::string heard;
    bool followed = given.Has("test-only");
    const auto hear = [&](std::string_view said) {
      heard += said;
      if (followed || heard.find('\n') == std::string::npos) return;
      if (const auto job = batch::SubmittedJob(heard.substr(0, heard.rfind('\n')))) {
        followed = true;
        FollowOn next = chain;
        if (next.run_dir.empty()) next.run_dir = StrCat(chain.directory, "/harrow-", *job);
        SubmitFollowOn(next, *job);
      }
    };
    code = CallSbatch(words, batch::SbatchScript(first, line, checked.script), hear);
  } else {
    asked->command.insert(asked->command.begin(), ThisProgram());
    code = CallSbatch(words, batch::SbatchScript(asked->command, line, checked.script));
  }
  if ((code == 0 || waited) && !given.Has("test-only")) input.Keep();
  return code;
}

const Registered kSbatch({.name = "sbatch",
                          .summary = "Submit a job that runs a flow",
                          .example = "harrow sbatch -N4 -t 2:00:00 -- run flow.toml",
                          .usage = "[sbatch's options] -- run [options] FILE...",
                          .order = 2,
                          .foreign = true,
                          .setup = [](CLI::App& app) -> std::function<int()> {
                            auto options = std::make_shared<SbatchOptions>();
                            app.add_flag("--then-resume", options->then_resume,
                                         "A follow-on job goes on when the time limit ends it");
                            return [options] { return Sbatch(*options); };
                          }});

}  // namespace
}  // namespace harrow::launcher
