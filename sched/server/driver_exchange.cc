// Files on the nodes' own disks (--files local), and several allocations. Agents reach the stores of their own allocation, and no other. So
// what a task of another server reads, and only nodes here hold, is put into the run's exchange (exchange.h): before such a task is offered to
// another server, and before others are told that a task is done whose outputs theirs read. Where that fails they are told all the same, and
// make the file again, like any that is lost; so they do when it cannot be read there.
//
// What lies there is told with the tasks: with an offer of what these read, with the end of a task of what it made. Who follows a server, and
// who hears that another's allocation is over, looks there. The submit directory has no part in it, as anybody may write there; results, which
// go there anyway, are read from it.

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "os/log.h"
#include "server/driver.h"

namespace harrow::server {
namespace {

constexpr Duration kPutAgain = std::chrono::seconds(30);  // where it could not be
constexpr size_t kFewInputs = 64;

}  // namespace

/// False: it is on its way to the exchange.
bool RunDriver::Put(const Moment& moment, FileId file) {
  if (options_.exchange.empty()) return true;
  if (putting_.contains(file)) return false;
  if (!graph_.producer(file) || !catalogue_.IsKept(file) || exchanged_.contains(file)) return true;
  if (catalogue_.absent(file)) {
    ExchangeAbsent(file);
    return true;
  }
  if (scheduler_.IsShared(file)) return true;  // a result
  const auto failed = not_put_.find(file);
  if (failed != not_put_.end() && moment.now < failed->second) return true;
  not_put_.erase(file);
  putting_[file];
  GoOnPutting(moment, file);
  return !putting_.contains(file);
}

/// Who follows this server has nobody else to ask.
void RunDriver::ExchangeAbsent(FileId file) {
  if (options_.exchange.empty()) return;
  const Exchanged absent{.file = file};
  if (exchanged_.insert_or_assign(file, absent).second && hooks_.exchange_absent) hooks_.exchange_absent(absent, true);
}

/// By the next of its holders. One that is away for a moment may come back; one that does not is lost.
void RunDriver::GoOnPutting(const Moment& moment, FileId file) {
  Saving& putting = putting_.at(file);
  putting.node = {};
  bool away = false;
  for (const NodeId holder : scheduler_.HoldersOf(file)) {
    Node* const node = nodes_.Find(holder);
    if (node == nullptr || putting.failed.contains(holder)) continue;
    away |= node->channel == nullptr;
    if (node->channel == nullptr) continue;
    putting.node = holder;
    return AskToPut(file, *node);
  }
  if (away && !interrupted_) return;
  EndPutting(file);
  not_put_[file] = moment.now + kPutAgain;
}

void RunDriver::AskToPut(FileId file, Node& node) {
  const FileCatalogue::Object* const object = catalogue_.Find(file);
  if (object == nullptr) return;  // that it holds the file, and what it is, is told at once
  pb::PutFile* const put = nodes_.Outbox(node).add_put();
  put->set_file(file.value);
  put->set_object(std::string(object->id()));
  put->set_name(Exchanged{file, std::string(object->id()), object->bytes()}.Name());
}

void RunDriver::EndPutting(FileId file) {
  putting_.erase(file);
  ++exchange_changes_;
}

void RunDriver::TakePut(const Moment& moment, const Node& node, const pb::FileNote& note) {
  const FileId file(note.file());
  const auto putting = putting_.find(file);
  if (putting == putting_.end() || putting->second.node != node.id) return;
  const FileCatalogue::Object* const object = catalogue_.Find(file);
  // Else it was made anew meanwhile.
  if (object != nullptr && note.what() == pb::FileNote::PUT && note.object() == object->id()) {
    exchanged_.insert_or_assign(file, Exchanged{file, note.object(), object->bytes()});
    EndPutting(file);
    events_.push_back(core::FileShared{file});
    return;
  }
  const std::vector<NodeId> holders = scheduler_.HoldersOf(file);
  // Else nobody reads it any more, and it was dropped before the node came to it.
  const bool held = std::find(holders.begin(), holders.end(), node.id) != holders.end();
  if (held && note.what() == pb::FileNote::NOT_PUT)
    TellProblem(node, StrCat(Printable(graph_.file_name(file), 100), ", which a task of another allocation reads, could not be copied to the run's directory: ",
                             Printable(note.why(), 200)));
  if (note.what() == pb::FileNote::NOT_PUT) putting->second.failed.insert(node.id);
  GoOnPutting(moment, file);
}

/// Of nodes that are gone, or have come.
void RunDriver::GoOnPutting(const Moment& moment) {
  std::vector<FileId> anew;
  for (const auto& [file, putting] : putting_) {
    const Node* const node = nodes_.Find(putting.node);
    if (node == nullptr || node->channel == nullptr || interrupted_) anew.push_back(file);
  }
  for (const FileId file : anew) GoOnPutting(moment, file);
}

/// It cannot be read from there, or is something else by now.
void RunDriver::ForgetExchanged(FileId file) {
  const auto found = exchanged_.find(file);
  if (found == exchanged_.end()) return;
  if (found->second.absent() && hooks_.exchange_absent) hooks_.exchange_absent(found->second, false);
  exchanged_.erase(found);
  events_.push_back(core::FileLost{file, NodeId()});
  Wake();
}

bool RunDriver::PutInputs(const Moment& moment, TaskId task) {
  if (!local_files()) return true;
  if (phase_ != Phase::kRunning) return false;
  bool all = true;
  for (const FileId input : graph_.inputs(task)) {
    const FileId file = scheduler_.HeldAs(input);
    const TaskId producer = graph_.producer(file);
    if (producer && scheduler_.state(producer) == core::TaskState::kDone) all &= Put(moment, file);
  }
  return all;
}

bool RunDriver::PutOutputs(const Moment& moment, TaskId task) {
  if (!local_files()) return true;
  if (phase_ != Phase::kRunning) return false;
  const auto outputs = graph_.outputs(task);
  std::vector<FileId> read;
  const auto add = [&](FileId file) {
    if (std::find(read.begin(), read.end(), file) == read.end()) read.push_back(file);
  };
  for (const TaskId reader : graph_.successors(task)) {
    if (read.size() == outputs.size()) break;
    if (scheduler_.state(reader) != core::TaskState::kElsewhere || graph_.OnlyWaits(task, reader)) continue;
    const auto inputs = graph_.inputs(reader);
    if (outputs.size() == 1 || inputs.size() > kFewInputs) {
      // One of them at least. Who reads of many tasks would be looked through for each of these.
      read.assign(outputs.begin(), outputs.end());
      break;
    }
    for (const FileId input : inputs) {
      const FileId file = scheduler_.HeldAs(input);
      if (graph_.producer(file) == task) add(file);
    }
  }
  bool all = true;
  for (const FileId file : read) all &= Put(moment, file);
  return all;
}

RunDriver::FilesOut RunDriver::OutputsOut(TaskId task) const {
  FilesOut files;
  if (!local_files()) return files;
  for (const FileId output : graph_.outputs(task)) AddOut(output, &files);
  return files;
}

RunDriver::FilesOut RunDriver::InputsOut(TaskId task) const {
  FilesOut files;
  if (!local_files()) return files;
  for (const FileId input : graph_.inputs(task)) {
    const FileId file = scheduler_.HeldAs(input);
    if (graph_.producer(file)) AddOut(file, &files);
  }
  return files;
}

void RunDriver::AddOut(FileId file, FilesOut* files) const {
  if (!catalogue_.IsKept(file)) return;
  if (const auto found = exchanged_.find(file); found != exchanged_.end()) {
    files->exchanged.push_back(found->second);
  } else if (catalogue_.absent(file)) {
    files->exchanged.push_back({.file = file});
  } else if (scheduler_.IsShared(file)) {
    files->shared.push_back(file);
  }
}

void RunDriver::NoteOut(const FilesOut& files) {
  if (!local_files()) return;
  const auto is_made = [&](FileId file) { return file.value < graph_.file_count() && graph_.producer(file) && catalogue_.IsKept(file); };
  for (const FileId file : files.shared) {
    if (is_made(file)) events_.push_back(core::FileShared{file});
  }
  for (const Exchanged& each : files.exchanged) {
    const FileId file = each.file;
    if (!is_made(file)) continue;
    const FileCatalogue::Object* const known = catalogue_.Find(file);
    if (each.absent()) {
      if (known != nullptr || catalogue_.absent(file)) continue;
      exchanged_.emplace(file, each);
      catalogue_.SetAbsent(file, true);
      events_.push_back(core::FileAbsent{file});
    } else if (known != nullptr && known->id() != each.object && !scheduler_.HoldersOf(file).empty()) {
      // It was made again, maybe here, and what is there of it is of that.
    } else {
      exchanged_.insert_or_assign(file, each);
      catalogue_.SetAbsent(file, false);
      SetObject(file, each.object, each.bytes);
      events_.push_back(core::FileShared{file});
    }
  }
  if (!events_.empty()) Wake();
}

}  // namespace harrow::server
