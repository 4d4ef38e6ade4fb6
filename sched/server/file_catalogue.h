#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "graph/graph.h"

namespace harrow::server {

/// The files of a flow that lie on nodes: which object of their stores each is, how tasks name them, and the
/// copies that nodes were asked to make and have not answered for.
class FileCatalogue {
 public:
  struct Object {
    std::string id{};  // bytes of a store::ObjectId
    int64_t bytes = 0;
  };
  struct Copy {
    NodeId from{};      // none: the submit directory
    bool sent = false;  // else: it waits until somebody has told what the file is
    TaskId reader{};    // the first that it comes for
  };
  using Place = std::pair<FileId, NodeId>;  // a file, and the node that is to have it

  explicit FileCatalogue(const graph::Graph& graph) : graph_(graph) {}

  /// Null: nobody has told.
  const Object* Find(FileId file) const;
  void Set(FileId file, Object object) { objects_[file] = std::move(object); }

  /// Whether nodes hold it and bring it to others: not what lies outside of the submit directory, which is
  /// used where it is.
  bool IsKept(FileId file) const;
  void SetAbsent(FileId file, bool absent);
  bool absent(FileId file) const { return absent_.contains(file) && absent_.at(file); }
  /// Whether some task reads it that is to run. `held_as`: core::Scheduler::HeldAs.
  template <class HeldAs, class IsUnwanted>
  bool IsRead(FileId file, const HeldAs& held_as, const IsUnwanted& is_unwanted) {
    for (; known_tasks_ < graph_.task_count(); ++known_tasks_) {
      const TaskId task(static_cast<uint32_t>(known_tasks_));
      read_.resize(graph_.file_count());
      if (is_unwanted(task)) continue;
      for (const FileId input : graph_.inputs(task)) read_[held_as(input).value] = true;
    }
    return file.value < read_.size() && read_[file.value];
  }

  void Ask(FileId file, NodeId to, Copy copy) {
    copies_[{file, to}] = copy;
    refused_.erase({file, to});
  }
  /// There is no room for it there, and it is not asked for again.
  void Refuse(FileId file, NodeId to) {
    copies_.erase({file, to});
    refused_.insert({file, to});
  }
  std::vector<FileId> RefusedAt(NodeId node) const;
  /// The first task that it comes for; none: it does not come, as far as is known.
  TaskId ReaderOf(FileId file, NodeId to) const;
  /// The copy is not waited for any more. None: there was none.
  std::optional<Copy> Answered(FileId file, NodeId to);
  /// Of a node that is gone.
  void ForgetNode(NodeId node);
  std::vector<std::pair<FileId, Copy>> CopiesTo(NodeId node) const;
  /// Those that wait to be told what the file is.
  std::vector<NodeId> Waiting(FileId file) const;

 private:
  const graph::Graph& graph_;
  std::unordered_map<FileId, Object> objects_;
  std::unordered_map<FileId, bool> absent_;
  std::map<Place, Copy> copies_;
  std::set<Place> refused_;
  std::vector<bool> read_;
  size_t known_tasks_ = 0;  // in read_
};

}  // namespace harrow::server
