// A run that only puts files on nodes, or takes from there what such runs left (run::Stage). It has one task,
// which is not run: its inputs are the files. Copies are asked for and answered as in any run; what answers
// mean is decided by Staging instead of the scheduler, which drops what no task needs. That a node's store
// lasts, or is removed, is its agent's business.

#include <algorithm>

#include "base/text.h"
#include "server/driver.h"

namespace harrow::server {

using Why = Staging::Why;

void RunDriver::MakeStaging() {
  if (flow_.settings.stage == run::Stage::kDrop || graph_.task_count() == 0) return;
  std::vector<FileId> files;
  for (const FileId file : graph_.inputs(TaskId(0))) {
    if (catalogue_.IsKept(file)) files.push_back(file);
  }
  const bool everywhere = flow_.settings.stage == run::Stage::kAll;
  staging_ = std::make_unique<Staging>(std::move(files), everywhere, Staging::Limits());
}

/// Nodes take turns by their names, whichever came first: files come to the same nodes when they are staged
/// again. Not before the last one has said what it holds.
void RunDriver::BeginStaging() {
  std::vector<const Node*> fit;
  for (const auto& node : nodes_.all()) {
    if (node->joined && node->unfit.empty()) fit.push_back(node.get());
  }
  std::sort(fit.begin(), fit.end(), [](const Node* a, const Node* b) { return a->name < b->name; });
  std::vector<NodeId> order;
  for (const Node* node : fit) order.push_back(node->id);
  if (!order.empty()) staging_->Begin(order);
}

void RunDriver::NoteNotStaged(FileId file, NodeId to, NodeId from, core::CopyFailed::Why why,
                              const std::string& text) {
  if (!text.empty()) staging_whys_[file] = text;
  using Core = core::CopyFailed::Why;
  staging_->Failed(file, to, from,
                   why == Core::kUnreadable ? Why::kUnreadable
                   : why == Core::kNoRoom   ? Why::kNoRoom
                                            : Why::kNotSent);
  // Who was believed to have it has not, or not as it should be: it gets it anew.
  if ((why != Core::kAbsent && why != Core::kDamaged) || !staging_->Holds(file, from)) return;
  if (Node* const holder = nodes_.Find(from)) {
    pb::ToAgent& message = nodes_.Outbox(*holder);
    why == Core::kDamaged ? message.add_drop_damaged(file.value) : message.add_drop(file.value);
  }
  staging_->Gone(file, from);
}

std::string RunDriver::TroubleText(const Staging::Trouble& trouble) const {
  const std::string file = Printable(graph_.file_name(trouble.file), 200);
  const Node* const node = nodes_.Find(trouble.node);
  const std::string where = node == nullptr ? "" : StrCat("node ", node->name);
  std::string text;
  switch (trouble.why) {
    case Why::kUnreadable:
      text = StrCat(file, " cannot be read");
      break;
    case Why::kNoRoom:
      text =
          node == nullptr ? StrCat("no node has room for ", file) : StrCat(where, " has no room for ", file);
      break;
    case Why::kNotSent:
      text = StrCat(file, " cannot be brought to ", where);
      break;
  }
  const auto why = staging_whys_.find(trouble.file);
  return why == staging_whys_.end() ? text : StrCat(text, ": ", Printable(why->second, 300));
}

void RunDriver::GoOnStaging() {
  if (complete_) return;
  nodes_gone_ |= all_joined_ && std::none_of(nodes_.all().begin(), nodes_.all().end(), [](const auto& node) {
                   return node->joined || (node->incarnation != 0 && !node->given_up);
                 });
  if (staging_ && !interrupted_) {
    if (all_joined_ && !staging_->begun()) BeginStaging();
    for (const Staging::Copy& copy : staging_->TakeCopies())
      SendCopy(copy.file, copy.to, copy.from, TaskId());
    for (const Staging::Trouble& trouble : staging_->TakeTroubles()) Tell(TroubleText(trouble));
  }
  complete_ = interrupted_ || nodes_gone_ || (staging_ ? staging_->complete() : all_joined_);
}

std::optional<run::ServerEnd> RunDriver::StagingEnd() const {
  if (!stages()) return std::nullopt;
  if (!fatal_.empty()) return run::ServerEnd::kCannotGoOn;
  const bool complete = staging_ ? staging_->complete() : all_joined_ && !nodes_gone_;
  if (!complete) return interrupted_ ? run::ServerEnd::kStopped : run::ServerEnd::kCannotGoOn;
  if (staging_) return staging_->failed() > 0 ? run::ServerEnd::kSomeFailed : run::ServerEnd::kAllDone;
  bool all = nodes_.joined_count() >= options_.nodes_expected;
  for (const auto& node : nodes_.all()) all &= node->unfit.empty();
  return all ? run::ServerEnd::kAllDone : run::ServerEnd::kSomeFailed;
}

void RunDriver::SnapshotStaging(pb::Progress* progress) const {
  pb::Staged* const staged = progress->mutable_staged();
  staged->set_nodes(static_cast<uint32_t>(nodes_.joined_count()));
  if (!staging_) return;
  uint64_t files = 0;
  int64_t bytes = 0;
  for (const FileId file : graph_.inputs(TaskId(0))) {
    if (!staging_->IsStaged(file)) continue;
    ++files;
    const FileCatalogue::Object* const object = catalogue_.Find(file);
    bytes += object == nullptr ? 0 : object->bytes();
  }
  staged->set_files(files);
  staged->set_of(staging_->files());
  staged->set_bytes(bytes);
  staged->set_nodes(static_cast<uint32_t>(staging_->nodes()));
}

}  // namespace harrow::server
