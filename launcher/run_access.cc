#include "launcher/run_access.h"

#include <algorithm>
#include <cstdlib>
#include <errno.h>
#include <iostream>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "formats/batch_script.h"
#include "journal/snapshot.h"
#include "journal/whole_run.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "launcher/live_parts.h"
#include "os/file_system.h"
#include "report/aggregate.h"
#include "run/flow_store.h"
#include "run_dir/find.h"
#include "run_dir/names.h"
#include "run_dir/owner.h"

namespace harrow::launcher {
namespace {

int write_error = 0;

/// Is the keeper, without whom no server lives long, known to be gone? Only on its own machine can that be
/// said.
bool KeeperIsGone(run_dir::RunDir& dir) {
  const run_dir::OwnerIs owner = run_dir::LookAtOwner(dir, dir.path(), run_dir::ThisProcess(""), {});
  return owner == run_dir::OwnerIs::kNobody || owner == run_dir::OwnerIs::kGone;
}

bool IsOfArray(const std::string& run) {
  return access(run_dir::ScriptPath(run).c_str(), F_OK) == 0;
}

/// The newest run here that is called by a job; empty: there is none.
std::string RunOfJob(const std::string& job) {
  os::FileSystem& fs = os::RealFileSystem();
  std::string newest;
  for (int number = 1;; ++number) {
    const std::string path = run_dir::NameOfRun(job, number);
    if (run_dir::IsRun(fs, path)) {
      newest = path;
    } else if (number > 1) {
      return newest;
    }
  }
}

/// The run that these elements are of, where they are all of one job's; empty: the newest one is meant.
std::string RunOfElements(const std::vector<std::string>& elements) {
  if (elements.empty() || !Variable("HARROW_RUN_DIR").empty()) return {};
  const std::string job = elements.front().substr(0, elements.front().find('_'));
  const auto is_of_job = [&job](const std::string& name) {
    return formats::IsElementName(name) && name.substr(0, name.find('_')) == job;
  };
  const bool whole = elements.size() == 1 && elements.front() == job;
  if (!IsDigits(job) || (!whole && !std::all_of(elements.begin(), elements.end(), is_of_job))) return {};
  const auto newest = run_dir::FindRun(os::RealFileSystem(), "", "", run_dir::Purpose::kLook);
  const std::string own = run_dir::NameOfRun(job);
  if (newest.ok() && (*newest == own || newest->starts_with(own + "-"))) return {};
  const std::string run = RunOfJob(job);
  return run.empty() || (whole && !IsOfArray(run)) ? "" : run;
}

}  // namespace

size_t TableWidth() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void AddRunDir(CLI::App& app, std::string* run_dir, bool named) {
  if (named) app.add_option("RUN", *run_dir, "The same as --run-dir RUN");
  app.add_option("--run-dir", *run_dir, "The run (default: the newest here)")->type_name("D");
}

void AddTaskNames(CLI::App& app, std::vector<std::string>* tasks, const std::string& help, bool required) {
  app.add_option_function<std::vector<std::string>>(
      "TASK", [tasks](const std::vector<std::string>& names) { *tasks = formats::ExpandElementNames(names); }, help)
      ->required(required);
}

Result<run_dir::Part> OpenRun(const std::string& given) {
  const std::string of_job = IsDigits(given) && !run_dir::IsRun(os::RealFileSystem(), given) ? RunOfJob(given) : "";
  const auto path =
      run_dir::FindRun(os::RealFileSystem(), of_job.empty() ? given : of_job, Variable("HARROW_RUN_DIR"), run_dir::Purpose::kLook);
  if (!path.ok()) return path.status();
  auto run = run_dir::RunDir::Open(*path, run_dir::Purpose::kLook);
  if (!run.ok()) return run.status();
  return run_dir::LookAtPart(*std::move(run));
}

RunAccess::RunAccess(run_dir::Part part)
    : part_(std::move(part)), loop_(os::MakeEventLoop()) {}

Result<std::unique_ptr<RunAccess>> RunAccess::Open(const std::string& run_dir, const std::vector<std::string>& elements) {
  auto part = OpenRun(run_dir.empty() ? RunOfElements(elements) : run_dir);
  if (!part.ok()) return part.status();
  std::unique_ptr<RunAccess> access(new RunAccess(*std::move(part)));
  access->Reconnect();
  return access;
}

bool RunAccess::IsWhole(const std::vector<std::string>& tasks) const {
  if (tasks.size() != 1 || !IsDigits(tasks.front()) || !IsOfArray(part_.run->path())) return false;
  const auto settings = run::ReadSettings(part_);
  return settings.ok() && settings->job_id == tasks.front();
}

void AddCommands(const run_dir::Part& part, std::vector<report::Failure>* failures) {
  std::vector<TaskId> tasks;
  for (const report::Failure& failure : *failures) tasks.push_back(failure.id);
  const auto texts = run::ReadTaskTexts(part, tasks);
  if (!texts.ok()) return;
  for (report::Failure& failure : *failures) {
    if (const auto at = texts->find(failure.id.value); at != texts->end())
      failure.command = at->second.command;
  }
}

void RunAccess::Reconnect() {
  client_.reset();
  client::Options options;
  if (KeeperIsGone(*part_.dir)) options.patience = Duration(0);
  auto client = client::Client::Connect(loop_.get(), *part_.dir, part_.dir->path(), options);
  server_status_ = client.status();
  if (client.ok()) client_ = *std::move(client);
  if (client_ || part_.run == part_.dir) return;
  // Every server of the run knows how far it is.
  const auto settings = run::ReadSettings(part_);
  if (!settings.ok()) return;
  options.patience = Duration(0);
  for (const OwnedPart& other : OwnedParts(part_.run, settings->session_start())) {
    if (other.owner != run_dir::OwnerIs::kThere || other.part.number == part_.number) continue;
    auto of_other = client::Client::Connect(loop_.get(), *other.part.dir, other.part.dir->path(), options);
    if (!of_other.ok()) continue;
    client_ = *std::move(of_other);
    server_status_ = Status();
    return;
  }
}

Result<std::unique_ptr<output::Reader>> RunAccess::OpenOutput() const {
  std::vector<output::Reader::Place> places = {{0, part_.dir.get(), part_.dir->path()}};
  const auto numbers = part_.run == part_.dir ? std::vector<uint32_t>() : run_dir::PartNumbers(*part_.run);
  for (const uint32_t number : numbers.ok() ? *numbers : std::vector<uint32_t>()) {
    if (number == part_.number) continue;
    auto other = run_dir::OpenPart(part_.run, StrCat(number));
    if (!other.ok()) continue;
    others_.push_back(*std::move(other));
    places.push_back({number, others_.back().dir.get(), others_.back().dir->path()});
  }
  return output::Reader::OpenAll(std::move(places));
}

bool RunAccess::goes_on_elsewhere() const {
  if (part_.run == part_.dir) return false;
  const auto settings = run::ReadSettings(part_);
  return settings.ok() && GoesOnElsewhere(part_, settings->session_start());
}

std::vector<RunAccess::OneAllocation> RunAccess::Allocations(const pb::Progress& asked) {
  std::vector<OneAllocation> all;
  const auto numbers = part_.run == part_.dir ? std::vector<uint32_t>() : run_dir::PartNumbers(*part_.run);
  if (!numbers.ok() || numbers->size() < 2) return all;
  const auto first = run::ReadSettings(part_);
  if (!first.ok()) return all;
  for (const uint32_t number : *numbers) {
    auto part = run_dir::OpenPart(part_.run, StrCat(number));
    if (!part.ok()) continue;
    OneAllocation one{.part = *std::move(part), .job = {}, .partition = {}, .over = false, .progress = {}};
    const auto settings = run::ReadSettings(one.part);
    if (settings.ok() && settings->session_start() != first->session_start()) continue;
    one.progress = number == asked.allocation().part() ? asked : AskOther(one.part);
    // Who answers is there; of others the batch system may have to be asked.
    if (!one.progress) {
      const run_dir::OwnerIs owner = OwnerOf(one.part);
      one.over = owner == run_dir::OwnerIs::kNobody || owner == run_dir::OwnerIs::kOver;
    }
    if (!settings.ok() && one.over) continue;  // nobody has begun it
    if (settings.ok()) {
      one.job = settings->job_id;
      one.partition = settings->partition;
    }
    all.push_back(std::move(one));
  }
  return all;
}

Result<client::Client*> RunAccess::Connected(const run_dir::Part& part) {
  std::unique_ptr<client::Client>& client = other_clients_[part.number];
  if (client == nullptr) {
    client::Options options;
    options.patience = Duration(0);
    auto connected = client::Client::Connect(loop_.get(), *part.dir, part.dir->path(), options);
    if (!connected.ok()) return connected.status();
    client = *std::move(connected);
  }
  return client.get();
}

std::optional<pb::Progress> RunAccess::AskOther(const run_dir::Part& part) {
  for (int tries = 0; tries < 2; ++tries) {  // its server may have been replaced
    const Result<client::Client*> client = Connected(part);
    if (!client.ok()) return {};
    if (auto progress = (*client)->Progress(true); progress.ok()) return *std::move(progress);
    other_clients_.erase(part.number);
  }
  return {};
}

Result<pb::Answer> RunAccess::Drain(const run_dir::Part& part, const std::string& node) {
  const Result<client::Client*> client = Connected(part);
  if (!client.ok()) return client.status();
  return (*client)->Drain(node);
}

Result<pb::Answer> RunAccess::Move(const run_dir::Part& part, const pb::MoveTask& request) {
  const Result<client::Client*> client = Connected(part);
  if (!client.ok()) return client.status();
  return (*client)->Move(request);
}

void RunAccess::Wait(Duration d) {
  bool over = false;
  loop_->After(d, [&] {
    over = true;
    loop_->Stop();
  });
  while (!over) loop_->Run();
}

Result<journal::History> RunAccess::ReadHistory() {
  auto history = journal::ReadRun(part_, journal::ReadSnapshot);
  if (!history.ok() && history.status().code() == Code::kNotFound) {
    return Status(Code::kUnavailable, StrCat("the run in ", dir(), " has recorded nothing yet"));
  }
  return history;
}

std::string RunAccess::Note() const {
  if (client_ || server_status_.code() == Code::kNotFound || KeeperIsGone(*part_.dir)) return "";
  return StrCat(server_status_.message(), "; what follows is from the journal");
}

std::string RunAccess::State(const Figures& view) const {
  if (view.complete && view.open() == 0) return "ended";
  if (client_ && !view.complete) return "running";
  if (goes_on_elsewhere()) return "running";
  // Who was killed when all was done has not written that the run ended.
  const bool nothing_left = view.total > 0 && view.open() == 0;
  if (view.complete || KeeperIsGone(*part_.dir)) return nothing_left ? "ended" : "stopped";
  return server_status_.code() == Code::kNotFound ? "starting" : "unreachable";
}

bool HasNode(const pb::Progress& progress, const std::string& node) {
  return std::any_of(progress.node().begin(), progress.node().end(),
                     [&](const pb::NodeStatus& status) { return status.name() == node; });
}

const RunAccess::OneAllocation* AllocationWithNode(const std::vector<RunAccess::OneAllocation>& allocations, const std::string& node) {
  for (const RunAccess::OneAllocation& one : allocations) {
    if (one.progress && HasNode(*one.progress, node)) return &one;
  }
  return nullptr;
}

std::vector<report::NodeView> NodesOf(const pb::Progress& progress) {
  std::vector<report::NodeView> nodes;
  for (const pb::NodeStatus& node : progress.node()) {
    nodes.push_back(
        {node.name(), node.slots(), node.running(), node.ended(), node.state(), node.incarnations()});
  }
  return nodes;
}

std::vector<report::NodeView> NodesOf(const report::RunView& run) {
  std::vector<size_t> all(run.task_count());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  std::vector<report::NodeView> nodes;
  for (const report::NodeRow& row : report::NodeRows(run, all)) {
    nodes.push_back({row.node, row.slots, 0, row.attempts, row.gone ? "lost" : "left", row.incarnations});
  }
  std::string_view absent = run.Fact("nodes_absent").value_or("");
  while (!absent.empty()) {
    const std::string_view name = absent.substr(0, absent.find(','));
    absent.remove_prefix(std::min(absent.size(), name.size() + 1));
    nodes.push_back({std::string(name), 0, 0, 0, "absent", 0});
  }
  return nodes;
}

Result<std::vector<size_t>> FindTasks(const report::RunView& run, const std::vector<std::string>& names) {
  constexpr size_t kMostCompared = 20'000;
  std::vector<size_t> found;
  std::unordered_set<size_t> known_already;
  for (const std::string& name : names) {
    if (const auto at = run.FindTask(name)) {
      if (known_already.insert(*at).second) found.push_back(*at);
      continue;
    }
    std::vector<std::string_view> known;
    for (size_t i = 0; i < run.task_count() && i < kMostCompared; ++i) {
      if (!run.task(i).name.starts_with('#')) known.push_back(run.task(i).name);
    }
    const auto near = Suggest(name, known);
    return Status(Code::kInvalid,
                  StrCat("no task '", Printable(name), "' in this run",
                         near ? StrCat("; did you mean '", Printable(*near), "'?")
                              : StrCat("; tasks are called by name, or #1 to #", run.task_count())));
  }
  return found;
}

bool WriteTo(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = TEMP_FAILURE_RETRY(write(fd, text.data(), text.size()));
    if (n < 0) {
      write_error = errno;
      return false;
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

int OutputDone() {
  if (write_error == 0 || write_error == EPIPE) return kExitDone;
  return Fail(Status(Code::kExhausted, StrCat("cannot write the output: ", strerror(write_error))));
}

}  // namespace harrow::launcher
