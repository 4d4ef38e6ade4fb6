#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/records.h"
#include "base/text.h"
#include "client/session.h"
#include "formats/command_form.h"
#include "formats/load.h"
#include "formats/output_check.h"
#include "journal/journal.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "launcher/resume_place.h"
#include "launcher/run_access.h"
#include "os/event_loop.h"
#include "run/flow_store.h"
#include "run/profile.h"
#include "run_dir/rendezvous.h"

// Tasks for a run that goes on, prerequisites first (client/session.h).

namespace harrow::launcher {
namespace {

struct SubmitOptions {
  std::string run_dir, name;
  FlowArguments flow;
  std::vector<std::string> after, after_any;
  // Streams of the command, by what the options are called.
  std::vector<std::string> from, to, open;
  std::string share = "all", records = "lines";
  // Streams alone.
  std::string open_stream, close_stream;
  bool wait = false;
};

/// What the options say of the command's streams.
Status ConnectStreams(const SubmitOptions& options, TaskId task, graph::Graph* graph) {
  const Result<bool> split = ParseShare(options.share);
  if (!split.ok()) return Status(split.status().code(), StrCat("harrow: --", split.status().message()));
  const Result<Records> records = ParseRecords(options.records);
  if (!records.ok()) return Status(records.status().code(), StrCat("harrow: --", records.status().message()));
  if (*split && options.from.empty()) return Status(Code::kInvalid, "harrow: --share is of the streams of --from; leave it out");
  if (*records != kLines && options.to.empty()) return Status(Code::kInvalid, "harrow: --records is of the streams of --to; leave it out");
  for (const std::string& name : options.from) {
    const StreamId stream = graph->AddStream(name);
    if (*split) graph->SetSplit(stream);
    graph->AddReader(stream, task);
  }
  for (const std::string& name : options.to) {
    const StreamId stream = graph->AddStream(name);
    graph->SetRecords(stream, *records);
    graph->AddWriter(stream, task);
  }
  for (const std::string& name : options.open) graph->HoldStream(graph->AddStream(name), {"", task});
  return {};
}

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
  task.bound = attributes.bound;
  task.profile = graph->AddProfile(attributes.Resolved());
  task.kind = graph->AddKind(formats::KindName(command, kForm));
  HARROW_RETURN_IF_ERROR(ConnectStreams(options, graph->AddTask(task), graph));
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
  if (!options.from.empty() || !options.to.empty() || !options.open.empty())
    return Status(Code::kInvalid, "harrow: --from, --to and --open are of one command; a file says so with its tasks (harrow help flow)");
  formats::LoadOptions load;
  load.directory = settings.submit_dir;
  load.need_commands = load.check_outputs = load.part_of_run = true;
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

/// The task of the run that this is in; empty: none.
std::string OwnTask(const run_dir::Part& part) {
  const std::string number = Variable("HARROW_TASK_ID"), of = Variable("HARROW_RUN");
  return number.empty() || of.empty() || RealPath(of) != RealPath(part.run->path()) ? std::string() : StrCat("#", number);
}

/// Opens or closes a stream, with no tasks.
Status ChangeStream(const SubmitOptions& options, const run_dir::Part& part) {
  const bool opens = !options.open_stream.empty();
  pb::StreamRequest asked;
  asked.set_name(opens ? options.open_stream : options.close_stream);
  asked.set_what(opens ? pb::StreamRequest::OPEN : pb::StreamRequest::CLOSE);
  if (opens) asked.set_task(OwnTask(part));
  const std::unique_ptr<os::EventLoop> loop = os::MakeEventLoop();
  std::optional<Status> answer;
  client::Session session(loop.get(), part, {},
                          {.greeted = [](const auto&) {},
                           .taken = [](uint64_t, uint32_t) {},
                           .refused = [](uint64_t, const Status&) {},
                           .settled = [](uint64_t, const pb::SettledTask&) {},
                           .stream = [&](uint64_t, const Status& how) { answer = how, loop->Stop(); },
                           .over = [&](const Status& why) { answer = answer.value_or(why), loop->Stop(); }});
  session.Start();
  session.AskStreams({asked});
  while (!answer) loop->Run();
  return *answer;
}

/// The graph's tasks on their way into the run, and what becomes of them there.
class Submission {
 public:
  Submission(const graph::Graph& graph, const SubmitOptions& options, const run_dir::Part& part)
      : graph_(graph),
        options_(options),
        part_(part),
        order_(graph::PrerequisitesFirst(graph)),
        handles_(graph.task_count()),
        ids_(graph.task_count(), kNowhere),
        loop_(os::MakeEventLoop()),
        session_(loop_.get(), part, Setup(),
                 {.greeted = [](const auto&) {},
                  .taken = [this](uint64_t handle, uint32_t id) { Taken(handle, id); },
                  .refused = [this](uint64_t, const Status& why) { Refused(why); },
                  .settled = [this](uint64_t handle, const pb::SettledTask& task) { Settled(handle, task); },
                  .stream = [this](uint64_t, const Status& how) { StreamAnswered(how); },
                  .over = [this](const Status& why) { Over(why); }}) {
    for (uint32_t i = 0; i < graph.profile_count(); ++i) {
      auto message = std::make_shared<pb::Profile>();
      run::ProfileToProto(graph.profile(ProfileId(i)), 0, message.get());
      profiles_.push_back(std::move(message));
    }
  }

  /// Until all are taken, or one is not: why.
  Status Submit() {
    session_.Start();
    HARROW_RETURN_IF_ERROR(OpenStreams());
    Feed();
    while (taken_ < order_.size() && refused_.ok()) loop_->Run();
    if (!kept_as_.empty()) {
      const Status ended = ReleaseStreams();
      if (refused_.ok()) refused_ = ended;
    }
    if (refused_.ok() || taken_ == 0) return refused_;
    return Status(refused_.code(),
                  StrCat(taken_, " of ", order_.size(), " tasks were taken, then: ", refused_.message()));
  }
  /// What the tasks that were taken are called in the run, in the order of the graph.
  std::string Names() const {
    std::string text;
    for (uint32_t i = 0; i < ids_.size(); ++i) {
      if (ids_[i] != kNowhere) text += NameOf(TaskId(i)) + "\n";
    }
    return text;
  }
  /// Until all have settled.
  Status Wait() {
    session_.AwaitAll();
    while (settled_ < taken_ && over_.ok()) loop_->Run();
    if (settled_ == taken_) return {};
    if (over_.code() != Code::kNotFound) return over_;
    return Status(over_.code(), StrCat("the run in ", part_.run->path(), " has ended, and ", taken_ - settled_,
                                       " of the tasks have not; harrow run --resume goes on with them"));
  }
  /// Of those that are not done; after Wait.
  std::string Failures() const {
    std::string text;
    for (const auto& [task, how] : failures_) text += StrCat("harrow: task ", Printable(NameOf(task)), " ", how, "\n");
    if (failed_ > failures_.size()) text += StrCat("harrow: ", failed_ - failures_.size(), " more are not done\n");
    return text;
  }
  bool all_done() const { return failed_ == 0; }

 private:
  static constexpr uint32_t kNowhere = UINT32_MAX;
  static constexpr uint64_t kMostOnTheirWay = 32'768;
  static constexpr size_t kMostShown = 10;

  static client::Session::Setup Setup() {
    client::Session::Setup setup;
    setup.alone = false;
    setup.limits.in_flight = 1;  // what is taken is the first of them
    return setup;
  }
  std::string NameOf(TaskId task) const {
    const std::string_view name = graph_.given_name(task);
    return name.empty() ? StrCat("#", ids_[task.value] + 1) : std::string(name);
  }

  /// Those that a file holds open; and where so much is submitted that writers may have ended before their readers are known, all.
  Status OpenStreams() {
    constexpr size_t kAtOnce = 4096;
    if (graph_.task_count() > kAtOnce) kept_as_ = run_dir::NewKey();
    for (const graph::Stream& stream : graph_.streams()) {
      const bool held = std::any_of(stream.holds.begin(), stream.holds.end(), [](const auto& hold) { return !hold.task; });
      if (held) Ask(stream.name, pb::StreamRequest::OPEN, "");
      if (!kept_as_.empty()) Ask(stream.name, pb::StreamRequest::OPEN, kept_as_);
    }
    return AwaitStreams();
  }
  Status ReleaseStreams() {
    for (const graph::Stream& stream : graph_.streams()) Ask(stream.name, pb::StreamRequest::RELEASE, kept_as_);
    return AwaitStreams();
  }
  void Ask(const std::string& stream, pb::StreamRequest::What what, const std::string& by) {
    pb::StreamRequest asked;
    asked.set_name(stream);
    asked.set_what(what);
    asked.set_by(by);
    if (what == pb::StreamRequest::OPEN && !by.empty()) asked.set_task(OwnTask(part_));
    asked_.push_back(std::move(asked));
  }
  Status AwaitStreams() {
    constexpr size_t kInRequest = 8192;
    for (size_t at = 0; at < asked_.size(); at += kInRequest, ++unanswered_streams_) {
      const auto first = asked_.begin() + static_cast<ptrdiff_t>(at);
      session_.AskStreams({first, first + static_cast<ptrdiff_t>(std::min(kInRequest, asked_.size() - at))});
    }
    asked_.clear();
    while (unanswered_streams_ > 0 && streams_.ok()) loop_->Run();
    return streams_;
  }
  void StreamAnswered(const Status& how) {
    if (streams_.ok()) streams_ = how;
    if (--unanswered_streams_ == 0 || !how.ok()) loop_->Stop();
  }

  void Feed() {
    while (next_ < order_.size() && session_.unanswered() < kMostOnTheirWay && refused_.ok()) {
      const TaskId id = order_[next_++];
      handles_[id.value] = session_.Submit(Make(id));
    }
  }
  client::NewTask Make(TaskId id) const {
    client::NewTask made;
    made.profile = profiles_[graph_.profile_id(id).value];
    pb::SubmittedTask& task = *made.task;
    task.set_name(std::string(graph_.given_name(id)));
    task.set_command(std::string(graph_.command(id)));
    task.set_form(static_cast<uint32_t>(graph_.form(id)));
    if (graph_.bound(id) != graph::kNoBound) task.set_bound(graph_.bound(id));
    if (graph_.kind(id)) task.set_kind(std::string(graph_.kind_name(graph_.kind(id))));
    for (const FileId file : graph_.inputs(id)) task.add_in(std::string(graph_.file_name(file)));
    for (const FileId file : graph_.outputs(id)) task.add_out(std::string(graph_.file_name(file)));
    const auto name_of = [this](const graph::StreamEnd& end) -> const graph::Stream& { return graph_.streams()[end.second.value]; };
    for (const graph::StreamEnd& end : graph_.streams_read(id)) {
      task.add_from(name_of(end).name);
      task.set_split(name_of(end).split);
    }
    for (const graph::StreamEnd& end : graph_.streams_written(id)) {
      task.add_to(name_of(end).name);
      task.set_records(name_of(end).records);
    }
    for (const graph::StreamEnd& end : graph_.streams_held(id)) task.add_open(name_of(end).name);
    const auto before = graph_.predecessors(id);
    for (const TaskId earlier : before) {
      const bool only_waits = graph_.OnlyWaits(earlier, id);
      if (!only_waits && (graph_.Reads(id, earlier) || graph_.StartSuffices(earlier, id))) continue;
      (only_waits ? made.after_any : made.after).push_back(handles_[earlier.value]);
    }
    if (!before.empty()) return made;
    for (const std::string& name : options_.after) task.add_after(name);
    for (const std::string& name : options_.after_any) task.add_after_any(name);
    return made;
  }

  void Taken(uint64_t handle, uint32_t id) {
    ids_[order_[handle].value] = id;
    if (++taken_ == order_.size()) return loop_->Stop();
    if (session_.unanswered() <= kMostOnTheirWay / 2) Feed();
  }
  void Refused(const Status& why) {
    if (refused_.ok()) refused_ = why;
    loop_->Stop();
  }
  void Settled(uint64_t handle, const pb::SettledTask& task) {
    const auto fate = static_cast<journal::TaskFate>(task.fate());
    if (fate != journal::TaskFate::kDone && fate != journal::TaskFate::kPruned && ++failed_ <= kMostShown)
      failures_.emplace_back(order_[handle], HowItEnded(task));
    if (++settled_ == taken_) loop_->Stop();
  }
  void Over(const Status& why) {
    over_ = why;
    loop_->Stop();
  }
  static std::string HowItEnded(const pb::SettledTask& task) {
    switch (static_cast<journal::TaskFate>(task.fate())) {
      case journal::TaskFate::kSkipped:
        return "was skipped";
      case journal::TaskFate::kCancelled:
        return "was cancelled";
      default:
        break;
    }
    if (task.end() == pb::Attempt::EXITED) return StrCat("failed: exit code ", task.code());
    if (task.end() == pb::Attempt::SIGNALED) return StrCat("failed: signal ", task.code());
    return "failed";
  }

  const graph::Graph& graph_;
  const SubmitOptions& options_;
  const run_dir::Part& part_;
  const std::vector<TaskId> order_;  // by handle
  std::vector<uint64_t> handles_;
  std::vector<uint32_t> ids_;  // in the run
  std::vector<std::shared_ptr<const pb::Profile>> profiles_;
  size_t next_ = 0, taken_ = 0, settled_ = 0, failed_ = 0;
  std::vector<std::pair<TaskId, std::string>> failures_;
  Status refused_, over_, streams_;
  std::string kept_as_;  // StreamHold.by, while all is submitted
  std::vector<pb::StreamRequest> asked_;
  size_t unanswered_streams_ = 0;
  std::unique_ptr<os::EventLoop> loop_;
  client::Session session_;
};

int RunSubmit(const SubmitOptions& options) {
  std::string given = options.run_dir;
  if (given.empty()) given = Variable("HARROW_RUN");  // of the task that this is in
  const auto part = OpenRun(given);
  if (!part.ok()) return Fail(part.status());
  const Result<run::RunSettings> settings = run::ReadSettings(*part);
  if (!settings.ok()) return Fail(settings.status());
  if (!options.open_stream.empty() || !options.close_stream.empty()) {
    if (!ForeignWords().empty() || !options.flow.Inputs().empty() || (!options.open_stream.empty() && !options.close_stream.empty()))
      return Fail(Bad("--open-stream and --close-stream stand alone; a command has --open, --from and --to"));
    const Status changed = ChangeStream(options, *part);
    return changed.ok() ? kExitDone : Fail(changed);
  }
  graph::Graph graph;
  if (const Status read = ReadTasks(options, *settings, part->run->path(), &graph); !read.ok()) return FailInput(read);
  if (graph.task_count() == 0) return Fail(Bad("there is no task in what was given"));
  Submission submission(graph, options, *part);
  const Status taken = submission.Submit();
  WriteTo(STDOUT_FILENO, submission.Names());
  if (!taken.ok()) return Fail(taken);
  if (const int shown = OutputDone(); shown != kExitDone || !options.wait) return shown;
  const Status ended = submission.Wait();
  std::cerr << submission.Failures();
  if (ended.code() == Code::kNotFound) {
    Fail(ended);
    return kExitStopped;
  }
  if (!ended.ok()) return Fail(ended);
  return submission.all_done() ? kExitDone : kExitTaskFailed;
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
       app.add_option("-f,--file", options->flow.files, "Lines, JSON lines (- is stdin), flow file, WfFormat")
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
       app.add_option_function<std::string>(
              "--bound", [options](const std::string& value) { options->flow.defaults.push_back({"bound", value, "--bound"}); },
              "The best value that may come of it (harrow best)")
           ->type_name("V");
       const auto streams = [&](const char* name, std::vector<std::string>* to, const char* help) {
         app.add_option(name, *to, help)->type_name("STREAM,...")->delimiter(',')->allow_extra_args(false);
       };
       streams("--from", &options->from, "Streams whose lines it reads");
       streams("--to", &options->to, "Streams to which its output goes");
       streams("--open", &options->open, "Streams that do not end before it has");
       app.add_option("--share", options->share, "all (each reader gets all of --from) or split")->type_name("HOW");
       app.add_option("--records", options->records, "Of --to: lines, zero or bytes:N")->type_name("WHAT");
       app.add_option("--open-stream", options->open_stream, "A stream stays open; in a task until that ends")->type_name("STREAM");
       app.add_option("--close-stream", options->close_stream, "It ends with those that write it now")->type_name("STREAM");
       app.add_flag("--wait", options->wait, "Until they have ended; status 1 where one is not done");
       AddTaskDefaults(app, &options->flow);
       return [options] { return RunSubmit(*options); };
     }});

}  // namespace
}  // namespace harrow::launcher
