#pragma once

#include <algorithm>
#include <deque>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "server/other_servers.h"
#include "support/fake_channel.h"
#include "support/fake_event_loop.h"
#include "support/trail.h"
#include "unit/run/test_flow.h"
#include "unit/server/fake_journal.h"
#include "wire/attempt_id.h"
#include "wire/decode.h"
#include "wire/version.h"

namespace harrow::server {

using test::FakeChannel;
using test::FakeJournal;
using test::TinyFlow;
using test::TinyTask;

/// The servers of a run with an agent each, and the messages between them, which the test carries. What is recorded is
/// on disk when the test says so; it is never lost. With local files the agents hold what their tasks make and read, as agents do.
class Several {
 public:
  Several(std::vector<TinyTask> tasks, std::vector<uint32_t> slots, bool via_supervisor = false, bool local_files = false, std::vector<uint64_t> memory = {},
          bool others_alive = false)
      : flow_(TinyFlow(std::move(tasks))), via_supervisor_(via_supervisor), others_alive_(others_alive) {
    if (local_files) flow_.settings.files = config::Files::kLocal;
    for (const uint32_t each : slots) {
      parts_.push_back(std::make_unique<One>());
      parts_.back()->slots = each;
      if (!memory.empty()) parts_.back()->memory = memory[parts_.size() - 1];
      Start(static_cast<uint32_t>(parts_.size()) - 1);
    }
  }

  struct One {
    uint32_t slots = 1;
    uint64_t memory = 0;
    bool gone = false;
    FakeJournal journal;
    DriverOptions options;
    std::unique_ptr<RunDriver> driver;
    std::unique_ptr<OtherServers> others;
    std::shared_ptr<FakeChannel> channel;
    NodeId node;
    uint64_t sequence = 0, told = 0;  // the agent's, and what was told of the journal
    std::map<uint32_t, uint32_t> runs;  // task, attempt: at the agent
    std::set<uint32_t> begun;           // of them: they have what they read, whatever is dropped
    std::map<uint32_t, std::vector<std::string>> to;
    std::map<uint32_t, int32_t> ended_elsewhere;  // with which code
    made::Attempts made;  // what its agent wrote down of its tasks' outputs
    std::vector<std::string> submissions;  // what others pass on, and what they answered
    size_t connections_changed = 0;
    bool woken = false;  // the driver is to be flushed
    std::set<uint32_t> offered_to, passed_for;  // offers to these, and what others pass on to these
    std::map<uint32_t, std::string> held;       // files in its agent's store, and what they are there
    std::deque<pb::PutFile> puts;               // what the agent is to put into the exchange, and has not
    std::map<uint32_t, std::set<uint32_t>> results;  // of what runs: files that come to the submit directory by themselves
  };
  std::map<uint32_t, std::string> submit_dir;  // files that tasks make and that lie there
  std::map<std::string, std::string> exchange;  // by name: what object is there, or which list
  std::set<uint32_t> not_made;     // files that tasks do not make, though they are done
  int64_t bytes_of_files = 10;
  Duration put_takes{0};           // by the agent's clock
  bool differ = false;             // what a task makes is something else each time
  size_t lists_read = 0;           // by servers
  std::vector<std::string> wrong;  // what agents were asked for that could not be
  One& operator[](uint32_t part) { return *parts_[part]; }
  /// What is on record at the end, to the trail.
  void SayRecords() {
    for (const auto& part : parts_) {
      for (const journal::AttemptRecord& record : part->journal.history.attempts) {
        test::Trail::Say([&] {
          return StrCat(record.task.value, "/", record.attempt, "@", record.node.value, " ", static_cast<int>(record.end), " ", record.code, " ",
                        record.message);
        });
      }
      for (const journal::FateRecord& record : part->journal.history.fates)
        test::Trail::Say([&] { return StrCat(record.task.value, " ", static_cast<int>(record.fate), " ", record.because.value); });
    }
  }
  size_t size() const { return parts_.size(); }
  const graph::Graph& graph() const { return flow_.graph; }

  /// A server begins, or one after it was killed; its agent comes to it. Its connections are gone.
  void Start(uint32_t part) {
    One& one = *parts_[part];
    one.options.nodes_expected = 1;
    one.options.exchange = "/run/exchange";
    one.options.part = part;
    one.options.restarted = one.driver != nullptr;
    if (one.driver) ++one.options.epoch;
    for (uint32_t other = 0; other < parts_.size(); ++other) Cut(part, other);
    const journal::History history = one.journal.history;
    RunDriver::Hooks hooks;
    hooks.wake = [&one] { one.woken = true; };
    hooks.drop_agent = [](const wire::Channel*) {};
    hooks.made_of = [&one](uint32_t) { return one.made; };
    hooks.modified = [this](const std::string& path) -> std::optional<WallTime> {
      const auto file = graph().FindFile(path.substr(flow_.settings.submit_dir.size() + 1));
      return file && submit_dir.contains(file->value) ? std::optional(Now().wall) : std::nullopt;
    };
    hooks.ask_others = [&one](TaskId task, const std::vector<FileId>& files, bool again) { one.others->Search(task, files, again); };
    hooks.published = [&one](TaskId task, const MadeFiles* made) { one.others->Published(task, made); };
    hooks.read_list = [this](const std::string& name) -> Result<MadeFiles> {
      ++lists_read;
      return exchange.contains(name) ? MadeFiles::Parse(exchange[name]) : Status(Code::kNotFound, name);
    };
    hooks.remove_exchanged = [this](const std::string& name) { exchange.erase(name); };
    one.puts.clear();
    hooks.attempt_ended = [&one](const journal::AttemptRecord& record) { one.others->AttemptEnded(record); };
    hooks.decided = [&one](TaskId task, journal::TaskFate fate) {
      one.others->Decided(task, fate, one.driver->recorder().added());
    };
    one.driver = std::make_unique<RunDriver>(flow_, one.options, &one.journal, std::move(hooks));
    ASSERT_TRUE(one.driver->Restore(history).ok());
    Result<Holdings> holdings = HoldingsOf(part, graph().task_count(), history.moves);
    ASSERT_TRUE(holdings.ok()) << holdings.status().message();
    one.driver->SetOwn(holdings->own, holdings->tried, history);
    one.others = std::make_unique<OtherServers>(
        graph(), OtherServers::Options{.part = part, .epoch = one.options.epoch, .via_supervisor = via_supervisor_}, one.driver.get(),
        OtherServers::Hooks{.send = [&one, part](uint32_t to, const pb::BetweenServers& message) {
                              if (message.offered_size() > 0) one.offered_to.insert(to);
                              if (message.has_passed() && message.passed().from() == part) one.passed_for.insert(message.passed().to());
                              one.to[to].push_back(message.SerializeAsString());
                              test::Trail::Say([&] { return one.to[to].back(); });
                            },
                            .now = [this] { return Now(); },
                            .record = [&one](journal::MoveRecord record) {
                              return one.driver->recorder().Move(std::move(record));
                            },
                            .ending = [&one](TaskId task) -> std::optional<TaskEnding> {
                              for (auto at = one.journal.history.attempts.rbegin(); at != one.journal.history.attempts.rend(); ++at) {
                                if (at->task == task) return TaskEnding{task, at->end, at->code};
                              }
                              return {};
                            },
                            .ended = [&one](const TaskEnding& ending) { one.ended_elsewhere[ending.task.value] = ending.code; },
                            .submit =
                                [&one](uint32_t from, const pb::PassedSubmission& passed) {
                                  one.submissions.push_back(std::to_string(from) + ":" + passed.request().id());
                                },
                            .submitted = [&one](const pb::SubmissionAnswered& answer) { one.submissions.push_back("answered:" + answer.id()); },
                            .connections_changed = [&one] { ++one.connections_changed; }});
    one.others->Restore(*std::move(holdings));
    if (others_alive_) one.others->SetAlive(true);
    one.driver->Begin(Now());
    one.driver->NoteLeft(ExchangedNow(), {});
    for (auto& [over, what] : overs_) {
      OverPart again = what;
      again.lists = ExchangedNow();
      one.others->PartOver(over, again);
    }
    AgentComes(part);
  }
  /// The agent, which has run all the time, and tells this besides.
  void AgentComes(uint32_t part, pb::FromAgent hello = {}) {
    One& one = *parts_[part];
    one.channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
    hello.mutable_hello()->set_version(wire::kProtocolVersion);
    hello.mutable_hello()->set_run_id("run");
    hello.mutable_hello()->set_incarnation(part + 1);
    hello.mutable_hello()->mutable_node()->set_name("n" + std::to_string(part));
    hello.mutable_hello()->mutable_node()->set_slots(one.slots);
    if (one.memory > 0) hello.mutable_hello()->mutable_node()->set_memory(one.memory);
    for (const auto& [task, attempt] : one.runs) {
      if (flow_.settings.files == config::Files::kLocal && !HasInputs(part, task)) {
        auto* const queued = hello.mutable_hello()->add_queued();
        queued->set_task(task);
        queued->set_number(attempt);
        continue;
      }
      one.begun.insert(task);
      pb::Attempt* running = hello.mutable_hello()->add_running();
      running->set_task(task);
      running->set_attempt(attempt);
      running->set_start_ns(1000);
    }
    for (const auto& [file, object] : one.held) {
      pb::HeldFile* const held = hello.mutable_hello()->add_held();
      held->set_file(file);
      held->set_object(object);
      held->set_bytes(bytes_of_files);
    }
    const Result<NodeId> joined = one.driver->Join(Now(), one.channel, hello);
    ASSERT_TRUE(joined.ok()) << joined.status().message();
    one.node = *joined;
    one.driver->Committed(one.journal.sequence);
    Turn(part);
  }
  /// Nothing is heard of the agent, until what it has is believed to be lost.
  void LoseAgent(uint32_t part) {
    parts_[part]->held.clear();
    for (int times = 0; times < 3; ++times) Pass(part, std::chrono::hours(1), false);
  }
  /// So much later, at one of them.
  void Pass(uint32_t part, Duration time, bool agent_is_there = true) {
    time_ += time;
    if (agent_is_there) parts_[part]->driver->Handle(Now(), parts_[part]->node, pb::FromAgent());
    parts_[part]->driver->FindSilent(Now());
    Turn(part);
  }
  void Cut(uint32_t a, uint32_t b) {
    if (a == b || !linked_.erase({std::min(a, b), std::max(a, b)})) return;
    for (const auto& [from, to] : {std::pair(a, b), {b, a}}) {
      parts_[from]->to.erase(to);
      parts_[from]->others->Disconnected(to);
    }
  }
  void Connect(uint32_t a, uint32_t b) {
    if (a == b || parts_[a]->gone || parts_[b]->gone || !linked_.insert({std::min(a, b), std::max(a, b)}).second) return;
    parts_[a]->others->Connected(b, parts_[b]->options.epoch);
    parts_[b]->others->Connected(a, parts_[a]->options.epoch);
  }
  void ConnectAll() {
    for (uint32_t a = 0; a < parts_.size(); ++a) {
      for (uint32_t b = 0; b < a; ++b) Connect(a, b);
    }
  }
  void Turn(uint32_t part) {
    One& one = *parts_[part];
    if (one.gone) return;
    do {
      one.woken = false;
      one.driver->Flush(Now());
    } while (one.woken);
    for (const std::string& bytes : one.channel->TakeSent()) {
      test::Trail::Say([&] { return bytes; });
      pb::ToAgent message;
      ASSERT_TRUE(message.ParseFromString(bytes));
      pb::FromAgent answer;
      for (const pb::AttemptId& back : message.take_back()) {
        if (one.runs.erase(back.task())) *answer.mutable_returned()->add_attempt() = back;
      }
      for (const pb::Task& task : message.start()) {
        one.runs[task.id()] = task.attempt();
        one.begun.erase(task.id());
        one.results[task.id()].clear();
        for (int i = 0; i < task.output_file_size(); ++i) {
          if (task.output_result(i)) one.results[task.id()].insert(task.output_file(i));
        }
      }
      for (const pb::PutFile& put : message.put()) {
        const bool at_it = std::any_of(one.puts.begin(), one.puts.end(), [&](const pb::PutFile& each) { return each.number() == put.number(); });
        if (!at_it) one.puts.push_back(put);
      }
      for (const std::string& name : message.unput()) exchange.erase(name);
      for (const uint32_t file : message.drop()) one.held.erase(file);
      for (const pb::CopyFile& copy : message.copy()) {
        if (copy.from() != 0) wrong.push_back("from a node: " + copy.path());
        std::string& object = one.held[copy.file()];
        pb::FileNote::What why = pb::FileNote::ABSENT;
        if (!copy.exchange().empty()) {
          const auto there = exchange.find(copy.exchange());
          object = there != exchange.end() && there->second == copy.object() ? copy.object() : "";
          if (there != exchange.end()) why = pb::FileNote::DAMAGED;
        } else if (graph().producer(FileId(copy.file()))) {
          const bool is_there = submit_dir.contains(copy.file());
          if (!is_there && !copy.listed()) wrong.push_back("it is not there: " + copy.path());
          object = is_there && (!copy.listed() || submit_dir[copy.file()] == copy.object()) ? submit_dir[copy.file()] : "";
          if (is_there) why = pb::FileNote::DAMAGED;
        } else {
          object = ObjectOf(copy.file());
        }
        Note(copy.file(), object, object.empty() ? why : pb::FileNote::STORED, answer.add_file());
        if (object.empty()) answer.mutable_file()->rbegin()->set_object(copy.object());
        if (object.empty()) one.held.erase(copy.file());
      }
      if (answer.has_returned() || answer.file_size() > 0) one.driver->Handle(Now(), one.node, answer);
      if (answer.file_size() > 0) one.driver->Flush(Now());
    }
  }
  /// What a server finds that looks there.
  std::vector<std::string> ExchangedNow() const {
    std::vector<std::string> names;
    for (const auto& [name, content] : exchange) names.push_back(name);
    return names;
  }
  /// The agent has done the first of what it was asked for, or has tried to.
  void Put(uint32_t part, bool can = true) {
    One& one = *parts_[part];
    const pb::PutFile put = one.puts.front();
    one.puts.pop_front();
    const auto held = one.held.find(put.file());
    const bool is_here = put.object().empty() || (held != one.held.end() && held->second == put.object());
    if (can && is_here) exchange[put.name()] = put.object().empty() ? put.content() : put.object();
    pb::FromAgent answer;
    pb::FileNote* const note = answer.add_file();
    Note(put.file(), put.object().empty() || !is_here ? "" : put.object(), can && is_here ? pb::FileNote::PUT : pb::FileNote::NOT_PUT, note);
    note->set_put(put.number());
    one.driver->Handle(Now(), one.node, answer);
    Turn(part);
  }
  void PutAll(uint32_t part) {
    while (!parts_[part]->puts.empty()) Put(part);
  }
  void SettlePuts(uint32_t part) {
    PutAll(part);
    Settle();
  }
  /// Somebody has moved the task there, and all is settled.
  void Move(uint32_t task, uint32_t to, uint32_t from = 0) {
    ASSERT_TRUE(parts_[from]->others->MoveTo(TaskId(task), to).ok());
    Turn(from);
    Settle();
  }
  /// The agent says that it holds the file no more.
  void LoseFile(uint32_t part, std::string_view name) {
    One& one = *parts_[part];
    one.held.clear();
    pb::FromAgent gone;
    pb::FileNote* const note = gone.add_file();
    note->set_file(graph().FindFile(name)->value);
    note->set_what(pb::FileNote::GONE);
    one.driver->Handle(Now(), one.node, gone);
    Turn(part);
  }
  /// Its node is lost, of two servers, and comes back with nothing.
  void LoseNode(uint32_t part) {
    One& one = *parts_[part];
    one.held.clear();
    one.runs.clear();
    one.driver->Disconnected(Now(), one.node, one.channel.get());
    for (int times = 0; times < 3; ++times) {
      Pass(1 - part, std::chrono::minutes(4));
      Pass(part, Duration(0), false);
    }
    AgentComes(part);
    Settle();
  }
  /// What runs there and has what it reads ends.
  void EndAll(uint32_t part) {
    std::set<uint32_t> all;
    for (const auto& [task, attempt] : parts_[part]->runs) all.insert(task);
    for (const uint32_t task : all) {
      if (parts_[part]->runs.contains(task) && HasInputs(part, task)) End(part, task);
    }
  }
  /// An attempt at the agent ends with a checkpoint.
  void Leave(uint32_t part, uint32_t task) {
    End(part, task, 85, pb::Attempt::CHECKPOINTED);
    parts_[part]->others->GoOnMoving();
  }
  /// The agent has all that it reads: else it waits there.
  bool HasInputs(uint32_t part, uint32_t task) const {
    if (parts_[part]->begun.contains(task)) return true;
    const auto inputs = graph().inputs(TaskId(task));
    return std::all_of(inputs.begin(), inputs.end(), [&](FileId input) { return not_made.contains(Held(input)) || parts_[part]->held.contains(Held(input)); });
  }
  uint32_t Held(FileId file) const {
    for (const auto& one : parts_) {
      if (one->driver && one->driver->scheduler().counts().total > 0) return one->driver->scheduler().HeldAs(file).value;
    }
    return file.value;
  }
  /// Its server and its nodes are gone for good; the first of the others has what is open.
  void Over(uint32_t part) {
    for (uint32_t other = 0; other < parts_.size(); ++other) Cut(part, other);
    One& one = *parts_[part];
    one.gone = true;
    one.held.clear(), one.runs.clear(), one.puts.clear();
    uint32_t sealer = 0;
    while (parts_[sealer]->gone) ++sealer;
    Holdings holdings = *HoldingsOf(part, graph().task_count(), one.journal.history.moves);
    OverPart over;
    std::set<uint32_t> decided;
    for (const journal::FateRecord& fate : one.journal.history.fates) {
      over.fates.emplace_back(fate.task, fate.fate);
      decided.insert(fate.task.value);
    }
    TaskOffer offer = {{part, holdings.last_number + 1}, sealer, {}, {}};
    for (uint32_t i = 0; i < graph().task_count(); ++i) {
      if (!holdings.own[i] || decided.contains(i)) continue;
      offer.tasks.emplace_back(i);
      holdings.own[i] = false;
    }
    if (!offer.tasks.empty()) holdings.pending[offer.id.number] = offer, ++holdings.last_number;
    over.holdings = holdings;
    overs_.emplace_back(part, over);
    for (uint32_t other = 0; other < parts_.size(); ++other) {
      if (parts_[other]->gone) continue;
      over.lists = ExchangedNow();
      parts_[other]->others->PartOver(part, over);
      Turn(other);
    }
  }
  /// The agent says that it has begun.
  void Begins(uint32_t part, uint32_t task) {
    One& one = *parts_[part];
    pb::FromAgent message;
    wire::SetId({TaskId(task), one.runs.at(task)}, message.mutable_started()->add_attempt());
    message.mutable_started()->add_start_ns(Now().wall_ns());
    one.driver->Handle(Now(), one.node, message);
    Turn(part);
  }
  /// An attempt at the agent ends.
  void End(uint32_t part, uint32_t task, int code = 0, pb::Attempt::End how = pb::Attempt::EXITED) {
    One& one = *parts_[part];
    pb::FromAgent message;
    pb::TasksEnded* ended = message.add_ended();
    ended->set_sequence(++one.sequence);
    pb::Attempt* attempt = ended->add_attempt();
    attempt->set_task(task);
    attempt->set_attempt(one.runs.at(task));
    attempt->set_end(how);
    attempt->set_code(code);
    attempt->set_start_ns(Now().wall_ns() - 1'000'000);
    attempt->set_end_ns(Now().wall_ns());
    one.runs.erase(task);
    if (how == pb::Attempt::EXITED && code == 0 && flow_.settings.files == config::Files::kLocal) HoldFilesOf(part, task, attempt);
    one.driver->Handle(Now(), one.node, message);
    Turn(part);
  }
  void Commit(uint32_t part) {
    One& one = *parts_[part];
    if (one.gone) return;
    one.driver->Committed(one.journal.sequence);
    one.others->Committed(one.journal.sequence);
    Turn(part);
  }
  /// The next message on its way.
  bool Carry(uint32_t from, uint32_t to) {
    auto& queue = parts_[from]->to[to];
    if (queue.empty()) return false;
    const std::string bytes = queue.front();
    queue.erase(queue.begin());
    pb::BetweenServers message;
    const Status decoded = wire::Decode(bytes, &message);
    EXPECT_TRUE(decoded.ok()) << decoded.message();
    const Status taken = parts_[to]->others->Take(from, message);
    EXPECT_TRUE(taken.ok()) << taken.message();
    Turn(to);
    return true;
  }
  void Report() {
    time_ += std::chrono::milliseconds(100);
    for (uint32_t part = 0; part < parts_.size(); ++part) {
      if (parts_[part]->gone) continue;
      parts_[part]->others->Tick();
      Turn(part);
    }
  }
  /// All is carried and on disk.
  void Settle() {
    for (bool more = true; more;) {
      more = false;
      for (uint32_t from = 0; from < parts_.size(); ++from) {
        for (uint32_t to = 0; to < parts_.size(); ++to) more |= Carry(from, to);
      }
      for (uint32_t part = 0; part < parts_.size(); ++part) {
        const uint64_t before = parts_[part]->told;
        parts_[part]->told = parts_[part]->journal.sequence;
        Commit(part);
        more |= parts_[part]->told != before;
      }
    }
  }
  Moment Now() const { return {Time(time_), WallTime(time_ + std::chrono::hours(1))}; }
  bool AllComplete() const {
    return std::all_of(parts_.begin(), parts_.end(), [](const auto& one) { return one->gone || one->driver->complete(); });
  }
  /// How often each task succeeded, by all journals.
  std::map<uint32_t, int> Successes() const {
    std::map<uint32_t, int> successes;
    for (const auto& one : parts_) {
      for (const journal::AttemptRecord& record : one->journal.history.attempts) {
        if (record.end == journal::End::kExited && record.code == 0) ++successes[record.task.value];
      }
    }
    return successes;
  }
  std::set<std::pair<uint32_t, uint32_t>> linked() const { return linked_; }

 private:
  static std::string ObjectOf(uint32_t file) { return std::string(17, static_cast<char>('a' + file % 26)); }
  void Note(uint32_t file, const std::string& object, pb::FileNote::What what, pb::FileNote* note) {
    note->set_file(file);
    note->set_what(what);
    note->set_object(object);
    note->set_bytes(bytes_of_files);
    if (what == pb::FileNote::STORED) note->set_moved(bytes_of_files);
    if (what == pb::FileNote::PUT) note->set_took_ns(put_takes.count());
  }
  void HoldFilesOf(uint32_t part, uint32_t task, pb::Attempt* attempt) {
    One& one = *parts_[part];
    std::map<uint32_t, std::pair<uint32_t, std::string>> read;
    for (const FileId input : one.begun.contains(task) ? std::span<const FileId>() : graph().inputs(TaskId(task))) {
      const uint32_t held = Held(input);
      if (not_made.contains(held)) continue;
      if (!one.held.contains(held)) {
        wrong.push_back("it has run without " + std::string(graph().file_name(input)));
        continue;
      }
      const TaskId producer = graph().producer(FileId(held));
      if (!differ || !producer) continue;
      const auto [at, first] = read.try_emplace(producer.value, held, one.held[held].substr(5, 2));
      if (!first && at->second.second != one.held[held].substr(5, 2)) wrong.push_back("it has read files of two executions");
    }
    ++executions_[task];
    for (const FileId output : graph().outputs(TaskId(task))) {
      if (not_made.contains(output.value)) {
        attempt->add_made_file()->set_file(output.value);
        continue;
      }
      std::string& object = one.held[output.value] = ObjectOf(output.value);
      if (differ) object[5] = static_cast<char>(executions_[task]), object[6] = static_cast<char>(executions_[task] >> 8);
      pb::MadeFile* const made = attempt->add_made_file();
      made->set_file(output.value);
      made->set_object(object);
      made->set_bytes(bytes_of_files);
      made->set_shared(one.results[task].contains(output.value));
      if (made->shared()) submit_dir[output.value] = object;
    }
  }

  std::vector<std::pair<uint32_t, OverPart>> overs_;
  std::map<uint32_t, int> executions_;  // by task
  run::StoredFlow flow_;
  const bool via_supervisor_, others_alive_;  // other servers are there by the run directory, from the beginning on
  test::FakeEventLoop loop_;
  Duration time_{std::chrono::seconds(1)};
  std::vector<std::unique_ptr<One>> parts_;
  std::set<std::pair<uint32_t, uint32_t>> linked_;
};

inline core::TaskState StateOf(Several& run, uint32_t part, uint32_t task) {
  return run[part].driver->scheduler().state(TaskId(task));
}

/// What is open, for who has to find out why.
inline std::string Standing(Several& run) {
  std::string text;
  for (uint32_t part = 0; part < run.size(); ++part) {
    text += "part " + std::to_string(part) + (run[part].others->idle() ? "" : ", not idle") + ":";
    for (uint32_t task = 0; task < run.graph().task_count(); ++task) {
      const core::TaskState state = StateOf(run, part, task);
      if (core::IsSettled(state)) continue;
      text += " " + std::to_string(task) + "/" + std::to_string(static_cast<int>(state));
      if (run[part].runs.contains(task)) text += run.HasInputs(part, task) ? "+" : "-";
    }
    text += "; held:";
    for (const auto& [file, object] : run[part].held) text += " " + std::string(run.graph().file_name(FileId(file)));
    text += "\n";
    for (uint32_t task = 0; task < run.graph().task_count(); ++task) {
      if (!core::IsSettled(StateOf(run, part, task))) text += "  " + std::to_string(task) + ": " + run[part].driver->Explain(TaskId(task)) + "\n";
    }
  }
  for (const auto& [name, content] : run.exchange) text += " " + name;
  return text;
}

/// Of a task that asks for so much.
inline graph::Profile Cores(uint32_t cores, uint64_t memory = 0) {
  graph::Profile profile;
  profile.shape.cores = cores;
  profile.shape.memory = memory;
  return profile;
}

}  // namespace harrow::server
