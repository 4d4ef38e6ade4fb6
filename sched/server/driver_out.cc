// Files on the nodes' own disks (--files local), and several allocations. Agents reach the stores of their own allocation, and no other. So
// what a task of another server reads, and only nodes here hold, is copied to the submit directory, as by --save: before such a task is
// offered to another server, and before others are told that a task is done whose outputs theirs read. Where that fails they are told all the
// same, and make the file again, like any that is lost.
//
// What lies there is told with the tasks: with an offer of what these read, with the end of a task of what it made. Of a part that is over its
// journal tells (CopyRecord).

#include <algorithm>

#include "base/text.h"
#include "server/driver.h"

namespace harrow::server {
namespace {

constexpr Duration kOutAgain = std::chrono::seconds(30);  // where it could not be copied
constexpr size_t kFewInputs = 64;

}  // namespace

/// False: it is on its way to the submit directory.
bool RunDriver::BringOut(const Moment& moment, FileId file) {
  if (going_out_.contains(file)) return false;
  if (!graph_.producer(file) || !catalogue_.IsKept(file) || catalogue_.absent(file) || LiesOut(file)) return true;
  const auto failed = not_out_.find(file);
  if (failed != not_out_.end() && moment.now < failed->second) return true;
  not_out_.erase(file);
  going_out_[file];
  GoOnBringingOut(moment, file);
  return !going_out_.contains(file);
}

/// By the next of its holders; they may be away for a moment, or it may be made again.
void RunDriver::GoOnBringingOut(const Moment& moment, FileId file) {
  Saving& out = going_out_.at(file);
  if (AskToSave(file, &out)) return;
  const std::vector<NodeId> holders = scheduler_.HoldersOf(file);
  const bool comes = !core::IsSettled(scheduler_.state(graph_.producer(file))) ||
                     std::any_of(holders.begin(), holders.end(), [&](NodeId holder) { return !out.failed.contains(holder); });
  if (comes && !interrupted_) return;
  EndBringingOut(file);
  not_out_[file] = moment.now + kOutAgain;
}

void RunDriver::EndBringingOut(FileId file) {
  going_out_.erase(file);
  ++out_changes_;
}

bool RunDriver::LiesOut(FileId file) const {
  return out_.contains(file.value) || scheduler_.IsShared(file);
}

bool RunDriver::BringInputsOut(const Moment& moment, TaskId task) {
  if (!local_files()) return true;
  if (phase_ != Phase::kRunning) return false;
  bool all = true;
  for (const FileId input : graph_.inputs(task)) {
    const FileId file = scheduler_.HeldAs(input);
    const TaskId producer = graph_.producer(file);
    if (producer && scheduler_.state(producer) == core::TaskState::kDone) all &= BringOut(moment, file);
  }
  return all;
}

bool RunDriver::BringOutputsOut(const Moment& moment, TaskId task) {
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
  for (const FileId file : read) all &= BringOut(moment, file);
  return all;
}

RunDriver::OutFiles RunDriver::OutputsOut(TaskId task) const {
  OutFiles files;
  if (!local_files()) return files;
  for (const FileId output : graph_.outputs(task)) AddOut(output, &files);
  return files;
}

RunDriver::OutFiles RunDriver::InputsOut(TaskId task) const {
  OutFiles files;
  if (!local_files()) return files;
  for (const FileId input : graph_.inputs(task)) {
    const FileId file = scheduler_.HeldAs(input);
    if (graph_.producer(file)) AddOut(file, &files);
  }
  return files;
}

void RunDriver::AddOut(FileId file, OutFiles* files) const {
  if (!catalogue_.IsKept(file)) return;
  if (catalogue_.absent(file)) {
    files->absent.push_back(file);
  } else if (LiesOut(file)) {
    files->shared.push_back(file);
  }
}

void RunDriver::NoteOut(const OutFiles& files) {
  if (!local_files()) return;
  for (const FileId file : files.shared) {
    if (file.value >= graph_.file_count() || !out_.insert(file.value).second) continue;
    events_.push_back(core::FileShared{file});
  }
  for (const FileId file : files.absent) {
    if (file.value >= graph_.file_count() || catalogue_.absent(file)) continue;
    catalogue_.SetAbsent(file, true);
    events_.push_back(core::FileAbsent{file});
  }
  if (!events_.empty()) Wake();
}

/// False: nobody was asked to bring it out, or another node.
bool RunDriver::NoteBroughtOut(const Moment& moment, const Node& node, const pb::FileNote& note) {
  const FileId file(note.file());
  const auto going = going_out_.find(file);
  if (going == going_out_.end() || going->second.node != node.id) return false;
  if (note.what() == pb::FileNote::SAVED) {
    NoteSaved(moment, node, note);
    EndBringingOut(file);
    out_.insert(file.value);
    events_.push_back(core::FileShared{file});
    return true;
  }
  const std::vector<NodeId> holders = scheduler_.HoldersOf(file);
  // Else nobody reads it any more, and it was dropped before the node came to it.
  const bool held = std::find(holders.begin(), holders.end(), node.id) != holders.end();
  if (held) TellProblem(node, StrCat(Printable(graph_.file_name(file), 100), ", which a task of another allocation reads, could not be copied to the submit directory: ",
                           Printable(note.why(), 200)));
  going->second.failed.insert(node.id);
  GoOnBringingOut(moment, file);
  return true;
}

/// Of nodes that are gone.
void RunDriver::GoOnBringingOut(const Moment& moment) {
  std::vector<FileId> anew;
  for (const auto& [file, going] : going_out_) {
    if (HasLeft(going)) anew.push_back(file);
  }
  for (const FileId file : anew) GoOnBringingOut(moment, file);
}

}  // namespace harrow::server
