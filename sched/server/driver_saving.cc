// Before a run stops with tasks open, what these read and only nodes hold is copied to the submit directory
// (--save): the nodes' disks are emptied when the agents leave. It begins when nothing runs any more, each
// file from one of its holders, from another where that fails, and ends in time for the job's own end. The
// next session finds the files by their names and times (LookForShared) and makes the rest again. Where other allocations go on
// with what is open, they find it in the run's exchange instead.

#include "base/text.h"
#include "server/driver.h"

namespace harrow::server {
namespace {

constexpr Duration kForTheEnd = std::chrono::seconds(5);  // of the job's time, for agents to leave

}  // namespace

/// False: there is nothing to be saved.
bool RunDriver::BeginSaving() {
  if (!local_files() || stages() || !fatal_.empty()) return false;
  if (others_ && !options_.exchange.empty()) return BeginLeaving();
  if (!flow_.settings.save) return false;
  std::vector<bool> looked(graph_.file_count());
  for (uint32_t n = 0; n < graph_.task_count(); ++n) {
    if (recorder_.fate(TaskId(n)) != journal::TaskFate::kOpen || IsUnwanted(TaskId(n))) continue;
    for (const FileId input : graph_.inputs(TaskId(n))) {
      const FileId file = scheduler_.HeldAs(input);
      if (looked[file.value]) continue;
      looked[file.value] = true;
      const TaskId producer = graph_.producer(file);
      if (!producer || recorder_.fate(producer) != journal::TaskFate::kDone || !catalogue_.IsKept(file) ||
          catalogue_.absent(file) || scheduler_.IsShared(file))
        continue;
      Save(file);
    }
  }
  return !saving_.empty();
}

/// To other servers. One that has only nothing to do stays.
bool RunDriver::BeginLeaving() {
  if (!interrupted_ && !out_of_time_ && !draining_) return false;
  for (uint32_t n = 0; n < graph_.task_count(); ++n) {
    const TaskId task(n);
    if (recorder_.fate(task) != journal::TaskFate::kDone) continue;
    if (const std::vector<FileId> open = OpenOutputs(task); !open.empty()) Publish(task, open, false, false);
  }
  return !publications_.empty();
}

/// By the next of its holders.
void RunDriver::Save(FileId file) {
  Saving& saving = saving_[file];
  for (const NodeId holder : scheduler_.HoldersOf(file)) {
    Node* const node = nodes_.Find(holder);
    if (node == nullptr || node->channel == nullptr || saving.failed.contains(holder)) continue;
    saving.node = holder;
    return AskToSave(file, *node);
  }
  saving_.erase(file);
  ++unsaved_;
}

void RunDriver::AskToSave(FileId file, Node& node) {
  pb::SaveFile* const save = nodes_.Outbox(node).add_save();
  save->set_file(file.value);
  const std::string_view path = graph_.file_name(file);
  save->set_path(path.data(), path.size());
}

void RunDriver::TakeSaved(const Moment& moment, const Node& node, const pb::FileNote& note) {
  const auto saving = saving_.find(FileId(note.file()));
  if (saving == saving_.end() || saving->second.node != node.id) return;
  if (note.what() == pb::FileNote::SAVED) {
    NoteCopied({.path = std::string(graph_.file_name(FileId(note.file()))),
                .task = {},
                .from = node.id,
                .to = {},
                .bytes = note.bytes(),
                .end_ns = moment.wall_ns()});
    ++saved_;
    saved_bytes_ += note.bytes();
    saving_.erase(saving);
  } else {
    if (unsaved_why_.empty()) unsaved_why_ = note.why();
    saving->second.failed.insert(node.id);
    Save(FileId(note.file()));
  }
}

/// Nodes that are gone, and the time.
void RunDriver::GoOnSaving(const Moment& moment) {
  if (!saves_) return;
  std::vector<FileId> anew;
  for (const auto& [file, saving] : saving_) {
    const Node* const node = nodes_.Find(saving.node);
    if (node == nullptr || node->channel == nullptr) anew.push_back(file);
  }
  for (const FileId file : anew) {
    saving_[file].failed.insert(saving_[file].node);
    Save(file);
  }
  if (end_time_ && moment.wall + kForTheEnd >= *end_time_) {
    unsaved_ += saving_.size();
    saving_.clear();
    while (!publications_.empty()) EndPublication(publications_.begin()->first, false);
  }
  if (!saving_.empty() || !publications_.empty()) return;
  saves_ = false;
  complete_ = true;
  if (saved_ + unsaved_ == 0) return Wake();
  const std::string why = unsaved_why_.empty() ? "" : StrCat(" (", Printable(unsaved_why_, 200), ")");
  Tell(StrCat("saved ", saved_, saved_ == 1 ? " file (" : " files (",
              FormatBytes(static_cast<uint64_t>(saved_bytes_)), ") that open tasks read",
              unsaved_ == 0 ? "" : StrCat("; ", unsaved_, " could not be", why, " and will be made again")));
  Wake();
}

}  // namespace harrow::server
