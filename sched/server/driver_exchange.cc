// Files on the nodes' own disks (--files local), and several allocations. Agents reach the stores of their own allocation, and no other. So
// files go from one allocation to another through the run's exchange, a directory that all of them see, when somebody asks for them: before the
// scheduler makes again what is lost here (AskOthers), which is all that other servers' tasks have made, what lies in the exchange is looked at, and
// the other servers are asked (file_search.h). Who has it lets its nodes copy it there, then a list of it, and tells the list; who was the task's owner and
// has lost it makes it again first. A file gets its name when it is whole, its list when all of it is there.
//
// A list has files of one execution of a task, and is taken whole: what nodes hold of another execution is dropped. So no task reads files of two
// executions, though a task may make something else each time. Results are read from the submit directory, where they lie anyway. What is read has to be the
// object that the list names. What cannot be read is asked for once more, and after some times is made here. Of results alone, of a task that a server before, or
// one that is over, has seen done, the objects need not be known.
//
// A server that leaves while others go on puts there what open tasks read (BeginSaving). Lists stay for who follows: a server that begins, or hears that an
// allocation is over, looks at their names, and reads one when it is asked for that task.

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "os/log.h"
#include "server/driver.h"

namespace harrow::server {
namespace {

constexpr size_t kFewInputs = 64;
constexpr Duration kPutAgain = std::chrono::seconds(1);  // where it could not be; each time twice as long
constexpr uint32_t kMostPuts = 4;
constexpr uint32_t kMostReadings = 3;  // of a task's files that could not be read, one after the other
constexpr int64_t kMostBytes = int64_t{1} << 50;  // of a file; who tells of more is wrong
constexpr uint32_t kMostReadingsWhereNoNodeFits = 12;

}  // namespace

// --- what others have

void RunDriver::NoteLeft(const std::vector<std::string>& names, const std::vector<std::string>& results) {
  lists_.clear();
  for (const std::string& name : names) {
    const auto task = TaskOfList(name);
    if (!task) continue;
    lists_[*task].push_back(name);
    if (name.starts_with(ListName(*task, StrCat(options_.part, "-")))) own_lists_[*task].insert(name);
  }
  for (const std::string& path : results) {
    if (const auto file = graph_.FindFile(path)) left_results_.insert(*file);
  }
}

bool RunDriver::Covers(const MadeFiles& made, const std::vector<FileId>& files) {
  return std::all_of(files.begin(), files.end(), [&](FileId file) { return made.Find(file) != nullptr; });
}

/// What tasks read of it that are open, here or elsewhere.
std::vector<FileId> RunDriver::OpenOutputs(TaskId task) const {
  std::vector<FileId> open;
  for (const FileId output : graph_.outputs(task)) {
    if (catalogue_.IsKept(output) && scheduler_.IsWanted(output)) open.push_back(output);
  }
  return open;
}

/// What tasks read of it that are here and open, and who has asked for it. Where they read many files it may be more.
std::vector<FileId> RunDriver::WantedOf(TaskId task) const {
  const auto outputs = graph_.outputs(task);
  std::set<FileId> wanted;
  if (const auto publication = publications_.find(task); publication != publications_.end()) wanted = publication->second.wanted;
  for (const TaskId reader : graph_.successors(task)) {
    if (wanted.size() == outputs.size()) break;
    const core::TaskState state = scheduler_.state(reader);
    if (core::IsSettled(state) || state == core::TaskState::kElsewhere || scheduler_.IsAsking(reader)) continue;
    const auto inputs = graph_.inputs(reader);
    if (inputs.size() > kFewInputs) {
      // It would be looked through for each of many tasks.
      const std::vector<FileId> open = OpenOutputs(task);
      wanted.insert(open.begin(), open.end());
      break;
    }
    for (const FileId input : inputs) {
      const FileId file = scheduler_.HeldAs(input);
      if (graph_.producer(file) == task) wanted.insert(file);
    }
  }
  std::erase_if(wanted, [this](FileId file) { return !catalogue_.IsKept(file); });
  return {wanted.begin(), wanted.end()};
}

void RunDriver::Act(const core::AskOthers& ask) {
  const TaskId task = ask.task;
  complete_ = false;
  const std::vector<FileId> wanted = WantedOf(task);
  const auto publication = publications_.find(task);
  const bool for_another = publication != publications_.end() && publication->second.make;  // who has asked everybody
  const auto unreadable = unreadable_.find(task);
  const uint32_t readings = unreadable == unreadable_.end() ? 0 : unreadable->second;
  const bool in_vain = readings >= (scheduler_.CanRun(task) ? kMostReadings : kMostReadingsWhereNoNodeFits);
  if (for_another || options_.exchange.empty() || in_vain) return NobodyHas(task);
  if (const auto known = exchanged_.find(task); known != exchanged_.end() && Covers(known->second, wanted)) return UseMade(MadeFiles(known->second));
  if (auto left = FindLeft(task, wanted)) return UseMade(*std::move(left));
  if (!hooks_.ask_others) return NobodyHas(task);
  hooks_.ask_others(task, wanted, readings > 0 || distrusted_.contains(task));
}

/// By a server that need not be there any more.
std::optional<MadeFiles> RunDriver::FindLeft(TaskId task, const std::vector<FileId>& wanted) const {
  if (auto listed = ReadList(task, wanted)) return listed;
  MadeFiles results{.task = task, .files = {}};
  for (const FileId file : wanted) {
    if (!left_results_.contains(file) || !hooks_.modified || !hooks_.modified(StrCat(flow_.settings.submit_dir, "/", graph_.file_name(file)))) return {};
    results.files.push_back({.file = file, .in_submit_dir = true});
  }
  return results.files.empty() ? std::nullopt : std::optional(std::move(results));
}

/// In the exchange.
std::optional<MadeFiles> RunDriver::ReadList(TaskId task, const std::vector<FileId>& wanted) const {
  const auto names = lists_.find(task);
  if (names == lists_.end() || !hooks_.read_list) return {};
  for (const std::string& name : names->second) {
    Result<MadeFiles> made = hooks_.read_list(name);
    if (!made.ok()) {
      os::LogWarning(StrCat("a list of what other allocations have left: ", made.status().message()));
    } else if (made->task == task && Covers(*made, wanted)) {
      return *std::move(made);
    }
  }
  return {};
}

void RunDriver::NobodyElsewhereHas(TaskId task) {
  if (!scheduler_.IsAsking(task)) return;
  // Who had it may have left it there meanwhile.
  if (auto left = FindLeft(task, WantedOf(task))) return UseMade(*std::move(left));
  NobodyHas(task);
}

void RunDriver::NobodyHas(TaskId task) {
  answered_ = true;
  events_.push_back(core::FilesNotFound{task});
  Wake();
}

void RunDriver::TakeMade(MadeFiles made) {
  if (!scheduler_.IsAsking(made.task)) return;
  // Meanwhile somebody reads more of it.
  if (!Covers(made, WantedOf(made.task))) return Act(core::AskOthers{made.task});
  UseMade(std::move(made));
}

/// Of a task that asks: it has all that is wanted.
void RunDriver::UseMade(MadeFiles made) {
  const TaskId task = made.task;
  if (publications_.contains(task)) due_.insert(task);
  core::FilesFound found{.task = task, .shared = {}, .absent = {}, .same = {}};
  for (const OutFile& each : made.files) {
    const FileId file = each.file;
    if (file.value >= graph_.file_count() || graph_.producer(file) != task || !catalogue_.IsKept(file)) continue;
    const FileCatalogue::Object* const known = catalogue_.Find(file);
    if (known != nullptr && !each.object.empty() && known->id() == each.object) found.same.push_back(file);
    (each.absent() ? found.absent : found.shared).push_back(file);
    catalogue_.SetAbsent(file, each.absent());
    if (!each.object.empty()) SetObject(file, each.object, each.bytes);
  }
  exchanged_.insert_or_assign(task, std::move(made));
  answered_ = true;
  events_.push_back(std::move(found));
  Wake();
}

/// What its task's list says of it; null: nothing.
const OutFile* RunDriver::OutOf(FileId file) const {
  const TaskId task = graph_.producer(file);
  const auto made = task ? exchanged_.find(task) : exchanged_.end();
  return made == exchanged_.end() ? nullptr : made->second.Find(file);
}

const OutFile* RunDriver::InExchange(FileId file) const {
  const OutFile* const out = OutOf(file);
  return out != nullptr && out->in_exchange() ? out : nullptr;
}

/// What the task reads that lies on nodes of this allocation alone.
std::vector<ToCopy> RunDriver::FilesToCopy(TaskId task) const {
  std::vector<ToCopy> files;
  for (const FileId input : graph_.inputs(task)) {
    const FileId file = scheduler_.HeldAs(input);
    const TaskId producer = graph_.producer(file);
    if (!producer || scheduler_.IsShared(file) || InExchange(file) != nullptr) continue;
    if (!exchanged_.contains(producer) && lists_.contains(producer)) continue;  // a server before this one has put it there
    const FileCatalogue::Object* const object = catalogue_.Find(file);
    const std::vector<NodeId> holders = scheduler_.HoldersOf(file);
    if (object == nullptr || holders.empty()) continue;
    const auto is_file = [file](const ToCopy& each) { return each.file == file; };
    if (file != input && std::any_of(files.begin(), files.end(), is_file)) continue;  // of the same directory
    files.push_back({file, holders.front(), std::clamp<int64_t>(object->bytes(), 0, kMostBytes)});
  }
  return files;
}

/// It could not be read there.
void RunDriver::LoseExchanged(const OutFile& out, bool damaged, const std::string& why) {
  const TaskId task = graph_.producer(out.file);
  ++unreadable_[task];
  os::LogWarning(StrCat(Printable(graph_.file_name(out.file), 100), " cannot be read where another allocation has left it, and is asked for again: ", Printable(why, 200)));
  // Or it would be taken for what its name says.
  if (damaged && out.in_exchange() && hooks_.remove_exchanged) hooks_.remove_exchanged(out.Name());
  ForgetExchanged(task, true);
}

/// `with_results`: nor are these to be read.
void RunDriver::ForgetExchanged(TaskId task, bool with_results) {
  lists_.erase(task);
  for (const FileId output : left_results_.empty() ? std::span<const FileId>() : graph_.outputs(task)) left_results_.erase(output);
  const auto made = exchanged_.extract(task);
  if (made.empty()) return;
  core::FilesForgotten forgotten;
  for (const OutFile& out : made.mapped().files) {
    if (out.in_exchange() || with_results) forgotten.files.push_back(out.file);
  }
  events_.push_back(std::move(forgotten));
  Wake();
}

/// An attempt here has made these: what others had of the task is of another execution, unless it is the same.
void RunDriver::MakeAnew(TaskId task, const pb::Attempt& attempt) {
  const auto known = exchanged_.find(task);
  if (known == exchanged_.end()) return;
  size_t same = 0;
  for (const pb::MadeFile& made : attempt.made_file()) {
    const OutFile* const out = known->second.Find(FileId(made.file()));
    same += out != nullptr && out->object == made.object() ? 1 : 0;
  }
  if (same < known->second.files.size()) ForgetExchanged(task);
}

// --- what is put there for others

void RunDriver::Publish(TaskId task, const std::vector<FileId>& files, bool make, bool again) {
  if (again) {
    ForgetExchanged(task, true);
    distrusted_.insert(task);
  }
  Publication& publication = publications_[task];
  for (const FileId file : files) {
    if (file.value < graph_.file_count() && graph_.producer(file) == task) publication.wanted.insert(file);
  }
  publication.make |= make;
  publication.again |= again;
  due_.insert(task);
  Wake();
}

/// After all that has happened is known to the scheduler.
void RunDriver::GoOnPublishing(const Moment& moment) {
  if (phase_ != Phase::kRunning || !events_.empty()) return;
  for (const TaskId task : std::exchange(due_, {})) {
    if (publications_.contains(task)) GoOnPublishing(moment, task);
  }
  for (const TaskId reader : std::exchange(ended_, {})) Unput(reader);
}

void RunDriver::GoOnPublishing(const Moment& moment, TaskId task) {
  Publication& publication = publications_.at(task);
  if (task.value >= scheduler_.counts().total) return EndPublication(task, false);
  const core::TaskState state = scheduler_.state(task);
  const bool own = recorder_.fate(task) == journal::TaskFate::kDone;
  const std::vector<FileId> wanted(publication.wanted.begin(), publication.wanted.end());
  const auto known = exchanged_.find(task);
  if (known != exchanged_.end() && Covers(known->second, wanted)) return EndPublication(task, true);
  if (state != core::TaskState::kDone) {
    const bool makes = scheduler_.IsRemaking(task) && !core::IsSettled(state);
    if (!makes) return EndPublication(task, false);
    // Who waits for each other's answer: this one can make it.
    if (scheduler_.IsAsking(task) && publication.make && scheduler_.CanRun(task)) return NobodyHas(task);
    if (scheduler_.IsAsking(task) && !own) return EndPublication(task, false);
    return;  // Settled or FilesFound makes it due
  }
  std::optional<MadeFiles> made = WhatIsHere(task, wanted, publication.again);
  if (!made) {
    const bool may_make = own || (publication.make && scheduler_.CanRun(task));
    if (!may_make || std::exchange(publication.wants, true)) return EndPublication(task, false);
    publication.told = true;
    events_.push_back(core::FilesWanted{task, wanted});
    due_.insert(task);
    return Wake();
  }
  publication.wants = false;
  if (*made != publication.made) {
    publication.made = *std::move(made);
    publication.there.clear();
    ForgetPuts(&publication);
  }
  PutAll(moment, task);
}

/// None: some of it nobody here has. `not_from_results`: they could not be read.
std::optional<MadeFiles> RunDriver::WhatIsHere(TaskId task, const std::vector<FileId>& wanted, bool not_from_results) const {
  MadeFiles made{.task = task, .files = {}};
  size_t unknown = 0;
  for (const FileId file : wanted) {
    OutFile out{.file = file};
    const FileCatalogue::Object* const object = catalogue_.Find(file);
    const bool is_held = InExchange(file) != nullptr || !scheduler_.HoldersOf(file).empty();
    out.in_submit_dir = InExchange(file) == nullptr && scheduler_.IsShared(file) && !(not_from_results && is_held);
    if (!out.in_submit_dir && !catalogue_.absent(file) && (object == nullptr || !is_held)) return {};
    if (object != nullptr && !catalogue_.absent(file)) {
      out.object = object->id();
      out.bytes = object->bytes();
    }
    unknown += out.in_submit_dir && out.object.empty() ? 1 : 0;
    made.files.push_back(std::move(out));
  }
  // Of those of which nothing is known none may be of another execution.
  if (unknown > 0 && unknown < made.files.size()) return {};
  return made;
}

void RunDriver::PutAll(const Moment& moment, TaskId task) {
  Publication& publication = publications_.at(task);
  bool all = true, can = true;
  for (const OutFile& out : publication.made.files) {
    if (!out.in_exchange() || publication.there.contains(out.file)) continue;
    if (const OutFile* const known = InExchange(out.file); known != nullptr && *known == out) continue;
    all = false;
    can &= publication.under_way.contains(out.file) || AskOneOf(moment, task, out.file, scheduler_.HoldersOf(out.file));
  }
  if (all && !publication.under_way.contains(FileId())) {
    std::vector<NodeId> any;
    for (const auto& node : nodes_.all()) {
      if (node->joined) any.push_back(node->id);
    }
    can = AskOneOf(moment, task, FileId(), any);
  }
  if (!can) EndPublication(task, false);
}

/// To put it there; no file: the list. True, too: one may be asked later. False: none can.
bool RunDriver::AskOneOf(const Moment& moment, TaskId task, FileId file, const std::vector<NodeId>& nodes) {
  Publication& publication = publications_.at(task);
  bool later = false;
  for (const NodeId id : nodes) {
    Node* const node = nodes_.Find(id);
    if (node == nullptr) continue;
    const auto failed = publication.failed.find({file, id});
    const bool some = failed != publication.failed.end();
    if (some && (saves_ || failed->second.times >= kMostPuts)) continue;  // who leaves does not wait
    if (node->channel == nullptr || (some && moment.now < failed->second.again)) {
      later |= node->channel != nullptr || !saves_;
      continue;
    }
    puts_[++last_put_] = {.task = task, .file = file, .node = id, .asked = moment.now};
    publication.under_way[file] = last_put_;
    Send(last_put_, puts_[last_put_], *node);
    return true;
  }
  return later;
}

void RunDriver::Send(uint64_t number, const Put& put, Node& node) {
  const MadeFiles& made = publications_.at(put.task).made;
  pb::PutFile* const message = nodes_.Outbox(node).add_put();
  message->set_number(number);
  if (!put.file) {
    pb::MadeFiles list;
    made.Write(&list);
    message->set_content(list.SerializeAsString());
    message->set_name(NameOfList(put.task, number));
    return;
  }
  const OutFile& out = *made.Find(put.file);
  message->set_file(put.file.value);
  message->set_object(out.object);
  message->set_name(out.Name());
}

/// No other server has ever put one of that name.
std::string RunDriver::NameOfList(TaskId task, uint64_t number) const {
  return ListName(task, StrCat(options_.part, "-", options_.epoch, "-", number));
}

void RunDriver::TakePut(const Moment& moment, const Node& node, const pb::FileNote& note) {
  const auto at = puts_.find(note.put());
  if (at == puts_.end() || at->second.node != node.id || (at->second.file && at->second.file.value != note.file())) return;
  const Put put = at->second;
  puts_.erase(at);
  Publication& publication = publications_.at(put.task);
  publication.under_way.erase(put.file);
  due_.insert(put.task);
  if (note.what() != pb::FileNote::PUT) {
    const std::vector<NodeId> holders = put.file ? scheduler_.HoldersOf(put.file) : std::vector<NodeId>{node.id};
    // Else it was dropped before the node came to it.
    if (std::find(holders.begin(), holders.end(), node.id) != holders.end())
      TellProblem(node, StrCat(put.file ? Printable(graph_.file_name(put.file), 100) : "the list of what a task made",
                               ", which another allocation reads, could not be copied to the run's directory: ", Printable(note.why(), 200)));
    const OutFile* const out = put.file ? publication.made.Find(put.file) : nullptr;
    if (out != nullptr && note.object() != out->object) {
      events_.push_back(core::FileLost{put.file, node.id});  // it is not held there
    } else {
      Publication::Failure& failure = publication.failed[{put.file, node.id}];
      failure.again = moment.now + kPutAgain * (1 << failure.times++);
    }
    return;
  }
  if (put.file) {
    publication.there.insert(put.file);
    if (const OutFile* const out = publication.made.Find(put.file); out != nullptr)
      copy_speed_.Add(moment.now, std::min(out->bytes, kMostBytes), std::min(Duration(note.took_ns()), moment.now - put.asked));
    CountCopy({.path = {}, .task = {}, .from = node.id, .to = {}, .bytes = note.bytes(), .end_ns = moment.wall_ns()});
    return;
  }
  own_lists_[put.task].insert(NameOfList(put.task, note.put()));
  // What was told before is of the same execution, or it would have been forgotten.
  distrusted_.erase(put.task);
  MadeFiles all = publication.made;
  if (const auto before = exchanged_.find(put.task); before != exchanged_.end()) all.Add(before->second);
  exchanged_.insert_or_assign(put.task, std::move(all));
}

void RunDriver::ForgetPuts(Publication* publication) {
  for (const auto& [file, number] : publication->under_way) puts_.erase(number);
  publication->under_way.clear();
}

void RunDriver::EndPublication(TaskId task, bool published) {
  auto publication = publications_.extract(task);
  ForgetPuts(&publication.mapped());
  if (publication.mapped().told) {
    events_.push_back(core::FilesWanted{task, {}});
    Wake();
  }
  const auto made = exchanged_.find(task);
  if (hooks_.published) hooks_.published(task, published && made != exchanged_.end() ? &made->second : nullptr);
}

/// Its agent is there again, and may not have heard.
void RunDriver::PutAgain(Node& node) {
  for (const auto& [number, put] : puts_) {
    if (put.node == node.id) Send(number, put, node);
  }
}

/// Nodes may have gone, or come.
void RunDriver::LookAtPuts() {
  std::erase_if(puts_, [&](const auto& each) {
    const Put& put = each.second;
    const Node* const node = nodes_.Find(put.node);
    const bool gone = node == nullptr || (node->channel == nullptr && (!node->joined || saves_));
    if (gone) publications_.at(put.task).under_way.erase(put.file);
    return gone;
  });
  for (const auto& [task, publication] : publications_) {
    if (publication.under_way.empty() || !publication.failed.empty()) due_.insert(task);
  }
  if (!due_.empty()) Wake();
}

/// Here or elsewhere.
void RunDriver::NoteEnded(TaskId task) {
  if (publications_.contains(task)) due_.insert(task);
  if (!own_lists_.empty()) ended_.push_back(task);
}

/// The task, here or elsewhere, has ended: what it was the last to read need not lie there any more.
void RunDriver::Unput(TaskId reader) {
  if (own_lists_.empty()) return;
  for (const FileId input : graph_.inputs(reader)) {
    const TaskId task = graph_.producer(scheduler_.HeldAs(input));
    const auto lists = task ? own_lists_.find(task) : own_lists_.end();
    if (lists == own_lists_.end() || publications_.contains(task)) continue;
    const auto outputs = graph_.outputs(task);
    if (std::any_of(outputs.begin(), outputs.end(), [this](FileId output) { return scheduler_.IsWanted(output); })) continue;
    std::set<std::string> names;
    const auto add = [&](const MadeFiles& made) {
      for (const OutFile& out : made.files) {
        if (out.in_exchange()) names.insert(out.Name());
      }
    };
    if (const auto made = exchanged_.find(task); made != exchanged_.end()) add(made->second);
    // Of a server before, too.
    for (const std::string& name : lists->second) {
      const Result<MadeFiles> made = hooks_.read_list ? hooks_.read_list(name) : Status(Code::kNotFound, name);
      if (made.ok()) add(*made);
    }
    for (const auto& node : nodes_.all()) {
      if (!node->joined || node->channel == nullptr) continue;
      // The lists first: who finds one believes it.
      for (const std::string& name : lists->second) nodes_.Outbox(*node).add_unput(name);
      for (const std::string& name : names) nodes_.Outbox(*node).add_unput(name);
      break;
    }
    own_lists_.erase(lists);
    ForgetExchanged(task);
  }
}

}  // namespace harrow::server
