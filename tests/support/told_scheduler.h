#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "core/scheduler.h"

namespace harrow::test {

/// A small flow and its scheduler, told event by event; what it answers is text, an action each:
/// "start A@0", "ahead A@0", "back A@0", "cancel A@0", "cancel A@0 (lost)", "join A@1", "done A", "failed A",
/// "skipped B because A", "pruned A", "aside @1", "ask A@0" (for a checkpoint), "copy f@1 from 0", "copy f@1" (from the submit directory), "drop f@1",
/// "complete". Checks all invariants after each event.
class ToldScheduler {
 public:
  using Words = std::vector<std::string>;

  explicit ToldScheduler(core::Options options = {}) : options_(options) {}

  // --- the flow, before the first event or between
  graph::Profile profile;  // of the tasks that follow
  double bound = graph::kNoBound;
  TaskId Add(std::string_view name, const Words& after = {}, const Words& in = {}, const Words& out = {}) {
    std::vector<TaskId> before;
    for (const std::string& each : after) before.push_back(tasks_.at(each));
    std::vector<FileId> ins, outs;
    for (const std::string& each : in) ins.push_back(graph_.AddFile(each));
    for (const std::string& each : out) outs.push_back(graph_.AddFile(each));
    graph::TaskSpec spec;
    spec.name = name;
    spec.profile = graph_.AddProfile(profile);
    spec.after = before;
    spec.bound = bound;
    spec.in = ins;
    spec.out = outs;
    return tasks_[std::string(name)] = graph_.AddTask(spec);
  }
  /// The task waits for the end of those as well, whatever becomes of them.
  void AfterAny(std::string_view task, const Words& before) {
    for (const std::string& each : before)
      graph_.AddDependency(tasks_.at(each), (*this)[task], graph::WaitsFor::kEnd);
  }
  void Size(const std::string& file, int64_t bytes) { graph_.SetFileSize(graph_.AddFile(file), bytes); }

  // --- events
  std::string Begin(const std::vector<NodeCapacity>& nodes) {
    std::vector<core::Event> events = {Added()};
    for (uint32_t n = 0; n < nodes.size(); ++n) events.push_back(core::NodeJoined{NodeId(n), nodes[n]});
    return TellAll(events);
  }
  core::TasksAdded Added() {
    const auto first = static_cast<uint32_t>(told_);
    if (const Status sealed = graph_.Seal(); !sealed.ok()) throw sealed.message();
    told_ = graph_.task_count();
    return {TaskId(first), static_cast<uint32_t>(told_ - first)};
  }
  std::string Tell(const core::Event& event) { return TellAll({event}); }
  std::string TellAll(const std::vector<core::Event>& events) {
    std::vector<core::Action> actions;
    if (events.size() == 1) {
      scheduler().Handle(now, events[0], &actions);
    } else {
      scheduler().HandleAll(now, events, &actions);
    }
    scheduler().SanityCheck();
    last_ = actions;
    std::string text;
    for (const core::Action& action : actions) {
      const std::string one = std::visit([this](const auto& a) { return Text(a); }, action);
      if (!one.empty()) text += (text.empty() ? "" : ", ") + one;
    }
    return text;
  }
  std::string Started(std::string_view task, uint32_t node) {
    return Tell(core::TaskStarted{Latest(task), NodeId(node)});
  }
  std::string Ended(std::string_view task, uint32_t node, core::Outcome outcome = core::Done{},
                    Duration run_time = std::chrono::seconds(1)) {
    return Tell(core::TaskEnded{Latest(task), NodeId(node), outcome, run_time});
  }
  std::string Returned(std::string_view task, uint32_t node) {
    return Tell(core::TaskReturned{Latest(task), NodeId(node)});
  }

  AttemptId Latest(std::string_view task) { return {(*this)[task], scheduler().attempts((*this)[task])}; }

  TaskId operator[](std::string_view name) const { return tasks_.at(std::string(name)); }
  FileId File(std::string_view name) const { return *graph_.FindFile(name); }
  core::TaskState State(std::string_view name) { return scheduler().state((*this)[name]); }
  core::Scheduler& scheduler() {
    if (!scheduler_) scheduler_ = std::make_unique<core::Scheduler>(graph_, options_);
    return *scheduler_;
  }
  const std::vector<core::Action>& last() const { return last_; }
  Time now{};

 private:
  std::string Name(TaskId task) const { return graph_.TaskName(task); }
  static std::string At(NodeId node) { return StrCat("@", node.value); }
  std::string Text(const core::StartTask& a) const {
    return StrCat(a.ahead ? "ahead " : "start ", Name(a.attempt.task), At(a.node));
  }
  std::string Text(const core::TakeBack& a) const {
    return StrCat("back ", Name(a.attempt.task), At(a.node));
  }
  std::string Text(const core::CancelTask& a) const {
    return StrCat("cancel ", Name(a.attempt.task), At(a.node), a.as_lost ? " (lost)" : "");
  }
  std::string Text(const core::JoinGang& a) const { return StrCat("join ", Name(a.task), At(a.node)); }
  std::string Text(const core::AskCheckpoint& a) const { return StrCat("ask ", Name(a.attempt.task), At(a.node)); }
  std::string Text(const core::NodePutAside& a) const { return StrCat("aside ", At(a.node)); }
  std::string Text(const core::CopyFile& a) const {
    return StrCat("copy ", graph_.file_name(a.file), At(a.to), a.from ? StrCat(" from ", a.from.value) : "");
  }
  std::string Text(const core::AskOthers& a) const { return "others for " + Name(a.task); }
  std::string Text(const core::RefuseFile& a) const {
    return StrCat("refuse ", graph_.file_name(a.file), At(a.node));
  }
  std::string Text(const core::DropFile& a) const {
    return StrCat("drop ", graph_.file_name(a.file), At(a.node));
  }
  std::string Text(const core::ReadFrom& a) const {
    return StrCat(Name(a.reader.task), At(a.at), " reads ", Name(a.writer.task),
                  a.from ? At(a.from) : a.gone ? " gone" : " void");
  }
  std::string Text(const core::StreamOpen& a) const {
    return StrCat(Name(a.reader.task), At(a.at), " reads ", graph_.streams()[a.stream.value].name,
                  a.yield ? " later" : a.open ? " open" : " closed");
  }
  std::string Text(const core::CloseOutput& a) const { return StrCat("close ", Name(a.writer.task), At(a.node)); }
  std::string Text(const core::DropWritten& a) const {
    return StrCat("drop what ", Name(a.writer.task), " wrote", At(a.node));
  }
  std::string Text(const core::WakeAt& wake) const {
    if (wake.time <= now) throw std::string("it asks to be woken at once, for ever");
    return "";
  }
  std::string Text(const core::RunComplete&) const { return "complete"; }
  std::string Text(const core::TaskSettled& a) const {
    static constexpr const char* kStates[] = {"done ", "failed ", "skipped ", "cancelled ", "pruned "};
    static constexpr const char* kReasons[] = {
        "", "", " (stopped)", " (interrupted)", " (no time)", " (fits nowhere)", " (nodes gone)", " (lost)", ""};
    std::string text =
        StrCat(kStates[static_cast<int>(a.state)], Name(a.task), kReasons[static_cast<int>(a.reason)]);
    if (a.because) text += " because " + Name(a.because);
    return text;
  }

  core::Options options_;
  graph::Graph graph_;
  std::map<std::string, TaskId> tasks_;
  size_t told_ = 0;
  std::unique_ptr<core::Scheduler> scheduler_;
  std::vector<core::Action> last_;
};

}  // namespace harrow::test
