#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/command_form.h"
#include "formats/load.h"
#include "formats/output_check.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "launcher/resume_place.h"
#include "launcher/run_access.h"
#include "os/clock.h"
#include "run/flow_store.h"
#include "run/profile.h"
#include "run_dir/rendezvous.h"

// Tasks for a run that goes on. They go in requests of so many tasks, prerequisites first; one that no answer
// came to is sent again with the same id, to the server that has taken the place of the one that died.

namespace harrow::launcher {
namespace {

constexpr uint32_t kTasksInRequest = 8192;
constexpr size_t kBytesInRequest = 8u << 20;  // a message holds 64 MiB
constexpr Duration kPatience = std::chrono::seconds(30);  // for a server that is started again
constexpr Duration kPause = std::chrono::milliseconds(200);

struct SubmitOptions {
  std::string run_dir, name;
  FlowArguments flow;
  std::vector<std::string> after, after_any;
};

/// The only task of a graph, from the command line's words.
Status AddCommand(const SubmitOptions& options, const std::vector<std::string>& words, const std::string& cwd,
                  graph::Graph* graph) {
  formats::TaskAttributes attributes;
  HARROW_RETURN_IF_ERROR(SetDefaults(options.flow.defaults, &attributes));
  attributes.profile.cwd = cwd;
  constexpr auto kForm = graph::CommandForm::kArgv;
  const std::string command = formats::ArgumentsOf(words);
  if (const Status size = formats::CheckCommandSize(command, kForm); !size.ok())
    return Status(size.code(), StrCat("harrow: ", size.message()));
  graph::TaskSpec task;
  task.name = options.name;
  task.command = command;
  task.form = kForm;
  task.profile = graph->AddProfile(attributes.Resolved());
  task.kind = graph->AddKind(formats::KindName(command, kForm));
  graph->AddTask(task);
  return graph->Seal();
}

Status ReadTasks(const SubmitOptions& options, const run::RunSettings& settings,
                 const std::string& run_dir, graph::Graph* graph) {
  const std::vector<std::string>& words = ForeignWords();
  const bool files = !options.flow.Inputs().empty();
  if (files != words.empty()) {
    return Status(Code::kInvalid, files ? "harrow: give a command, or --file, not both"
                                        : "harrow: no command; name one (harrow submit ./program input), or --file");
  }
  if (!files) {
    const std::string here = RealPath(".");
    const bool elsewhere = here != settings.submit_dir && settings.files != config::Files::kLocal;
    return AddCommand(options, words, elsewhere ? here : "", graph);
  }
  if (!options.name.empty()) return Status(Code::kInvalid, "harrow: --name is of one command, not of --file");
  formats::LoadOptions load;
  load.directory = settings.submit_dir;
  load.need_commands = load.check_outputs = true;
  load.shell = settings.shell;
  HARROW_RETURN_IF_ERROR(SetDefaults(options.flow.defaults, &load.defaults));
  std::vector<formats::Input> inputs = options.flow.Inputs();
  for (formats::Input& input : inputs) {
    if (input.path != "-") input.path = RealPath(input.path);
  }
  formats::Flow flow;
  HARROW_RETURN_IF_ERROR(formats::Load(os::RealFileSystem(), inputs, load, graph, &flow));
  for (const std::string& notice : flow.notices) std::cerr << notice << "\n";
  HARROW_RETURN_IF_ERROR(formats::CheckRunDirectory(os::RealFileSystem(), *graph, settings.submit_dir, run_dir));
  if (!flow.settings.empty()) {
    std::cerr << flow.settings.front().place
              << ": settings of [flow] are those of the run, and have no effect on what is submitted to it\n";
  }
  return {};
}

class Requests {
 public:
  Requests(const graph::Graph& graph, const SubmitOptions& options)
      : graph_(graph),
        options_(options),
        order_(graph::PrerequisitesFirst(graph)),
        ids_(graph.task_count(), kNowhere) {}

  bool Next(pb::SubmitRequest* request) {
    first_ = end_;
    if (first_ == order_.size()) return false;
    size_t bytes = 0;
    for (end_ = first_; end_ < order_.size() && end_ - first_ < kTasksInRequest && bytes < kBytesInRequest; ++end_)
      bytes += BytesOf(order_[end_]);
    request->Clear();
    request->set_id(run_dir::NewKey());
    places_.assign(order_.size(), kNowhere);
    for (size_t at = first_; at < end_; ++at)
      places_[order_[at].value] = static_cast<uint32_t>(at - first_);
    profiles_.assign(graph_.profile_count(), kNowhere);
    for (size_t at = first_; at < end_; ++at) Add(order_[at], request);
    return true;
  }
  void Answered(const pb::Submitted& answer) {
    for (size_t at = first_; at < end_; ++at) ids_[order_[at].value] = answer.task(static_cast<int>(at - first_));
  }
  /// Tasks of the requests before this one.
  size_t before() const { return first_; }
  /// What the tasks that were taken are called in the run, in the order of the graph.
  std::string Names() const {
    std::string text;
    for (uint32_t i = 0; i < ids_.size(); ++i) {
      if (ids_[i] == kNowhere) continue;
      const std::string_view name = graph_.given_name(TaskId(i));
      text += name.empty() ? StrCat("#", ids_[i] + 1, "\n") : StrCat(name, "\n");
    }
    return text;
  }

 private:
  static constexpr uint32_t kNowhere = UINT32_MAX;

  size_t BytesOf(TaskId id) const {
    size_t bytes = graph_.command(id).size() + graph_.given_name(id).size();
    for (const auto& files : {graph_.inputs(id), graph_.outputs(id)}) {
      for (const FileId file : files) bytes += graph_.file_name(file).size();
    }
    return bytes;
  }

  void Add(TaskId id, pb::SubmitRequest* request) {
    uint32_t& profile = profiles_[graph_.profile_id(id).value];
    if (profile == kNowhere) {
      profile = static_cast<uint32_t>(request->profile_size());
      run::ProfileToProto(graph_.profile(id), profile, request->add_profile());
    }
    pb::SubmittedTask& task = *request->add_task();
    task.set_name(std::string(graph_.given_name(id)));
    task.set_command(std::string(graph_.command(id)));
    task.set_form(static_cast<uint32_t>(graph_.form(id)));
    task.set_profile(profile);
    if (graph_.kind(id)) task.set_kind(std::string(graph_.kind_name(graph_.kind(id))));
    for (const FileId file : graph_.inputs(id)) task.add_in(std::string(graph_.file_name(file)));
    for (const FileId file : graph_.outputs(id)) task.add_out(std::string(graph_.file_name(file)));
    const auto before = graph_.predecessors(id);
    for (const TaskId earlier : before) {
      const bool only_waits = graph_.OnlyWaits(earlier, id);
      if (!only_waits && graph_.Reads(id, earlier)) continue;
      if (const uint32_t place = places_[earlier.value]; place != kNowhere) {
        only_waits ? task.add_after_any_new(place) : task.add_after_new(place);
      } else {
        (only_waits ? task.add_after_any() : task.add_after())->assign(StrCat("#", ids_[earlier.value] + 1));
      }
    }
    if (!before.empty()) return;
    for (const std::string& name : options_.after) task.add_after(name);
    for (const std::string& name : options_.after_any) task.add_after_any(name);
  }

  const graph::Graph& graph_;
  const SubmitOptions& options_;
  std::vector<TaskId> order_;
  std::vector<uint32_t> ids_;  // in the run
  std::vector<uint32_t> places_, profiles_;
  size_t first_ = 0, end_ = 0;
};

/// `begun`: when the run's session did. Another one does not know the ids of requests.
Result<pb::Submitted> Send(RunAccess* run, WallTime begun, const pb::SubmitRequest& request) {
  const Duration give_up = os::RealClock().Steady() + kPatience;
  for (;;) {
    Status went = run->server_status();
    if (run->server() != nullptr) {
      Result<pb::Submitted> answer = run->server()->Submit(request);
      if (answer.ok() || answer.status().code() != Code::kUnavailable) return answer;
      went = answer.status();
    } else if (went.code() == Code::kNotFound) {
      return Status(Code::kInvalid, StrCat("the run in ", run->dir(), " is over, and takes no more tasks"));
    }
    if (os::RealClock().Steady() >= give_up) return went;
    run->Wait(kPause);
    run->Reconnect();
    // After that: who has connected to a server of another session finds its settings.
    const Result<run::RunSettings> now = run::ReadSettings(run->part());
    if (now.ok() && now->started != begun) {
      return Status(Code::kUnavailable,
                    StrCat(went.message(), "; the run has been resumed since, and it is not known whether the tasks were taken"));
    }
  }
}

int RunSubmit(const SubmitOptions& options) {
  std::string given = options.run_dir;
  if (given.empty()) given = Variable("HARROW_RUN");  // of the task that this is in
  auto run = RunAccess::Open(given);
  if (!run.ok()) return Fail(run.status());
  const Result<run::RunSettings> settings = run::ReadSettings((*run)->part());
  if (!settings.ok()) return Fail(settings.status());
  graph::Graph graph;
  if (const Status read = ReadTasks(options, *settings, (*run)->dir(), &graph); !read.ok()) return FailInput(read);
  if (graph.task_count() == 0) return Fail(Bad("there is no task in what was given"));
  Requests requests(graph, options);
  pb::SubmitRequest request;
  while (requests.Next(&request)) {
    Result<pb::Submitted> answer = Send(run->get(), settings->started, request);
    if (answer.ok() && answer->task_size() != request.task_size())
      answer = Status(Code::kRefused, "the server answers for other tasks; use the harrow that runs the flow");
    if (!answer.ok()) {
      WriteTo(STDOUT_FILENO, requests.Names());
      if (requests.before() == 0) return Fail(answer.status());
      return Fail(Status(answer.status().code(), StrCat(requests.before(), " of ", graph.task_count(),
                                                        " tasks were taken, then: ", answer.status().message())));
    }
    requests.Answered(*answer);
  }
  WriteTo(STDOUT_FILENO, requests.Names());
  return OutputDone();
}

const Registered kSubmit(
    {.name = "submit",
     .summary = "Add tasks to a run that goes on, from within a task or outside",
     .example = "harrow submit --after prepare ./solve case-7\n         harrow submit --file more.txt",
     .usage = "[options] COMMAND [ARGS...] | --file FILE",
     .order = 42,
     .options_first = true,
     .setup = [](CLI::App& app) -> std::function<int()> {
       auto options = std::make_shared<SubmitOptions>();
       AddRunDir(app, &options->run_dir);
       app.add_option("-f,--file", options->flow.files, "Line file (.txt; - is stdin), flow file or WfFormat")
           ->type_name("FILE")
           ->allow_extra_args(false);
       app.add_option("--lines", options->flow.line_files, "A line file, whatever it is called")
           ->type_name("FILE")
           ->allow_extra_args(false);
       app.add_option("--name", options->name, "What the task is called; default: its number")->type_name("NAME");
       app.add_option("--after", options->after, "Only when these are done")
           ->type_name("TASK,...")
           ->delimiter(',')
           ->allow_extra_args(false);
       app.add_option("--after-any", options->after_any, "Only when these have ended")
           ->type_name("TASK,...")
           ->delimiter(',')
           ->allow_extra_args(false);
       AddTaskDefaults(app, &options->flow);
       return [options] { return RunSubmit(*options); };
     }});

}  // namespace
}  // namespace harrow::launcher
