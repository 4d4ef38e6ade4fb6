#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "graph/graph.h"

namespace harrow::server {

/// The files of a flow that lie on nodes: which object of their stores each is, how tasks name them, and the
/// copies that nodes were asked to make and have not answered for.
class FileCatalogue {
 public:
  /// What nodes have told of a file. Each file of the flow has one: 32 bytes.
  class Object {
   public:
    /// Bytes of a store::ObjectId.
    std::string_view id() const { return {id_.data(), id_.size()}; }
    int64_t bytes() const { return bytes_; }

   private:
    friend class FileCatalogue;
    int64_t bytes_ = 0;
    std::array<char, 17> id_{};
    bool known_ = false;
    bool absent_ = false;  // its task did not make it
  };
  struct Copy {
    NodeId from{};      // none: the submit directory
    bool sent = false;  // else: it waits until somebody has told what the file is
    TaskId reader{};    // the first that it comes for
  };

  explicit FileCatalogue(const graph::Graph& graph) : graph_(graph) {}

  /// Null: nobody has told.
  const Object* Find(FileId file) const;
  void Set(FileId file, std::string_view id, int64_t bytes);
  /// Other files of the same content. Looks at all.
  std::vector<FileId> SameAs(FileId file) const;

  /// Whether nodes hold it and bring it to others: not what lies outside of the submit directory, which is
  /// used where it is.
  bool IsKept(FileId file) const;
  void SetAbsent(FileId file, bool absent);
  bool absent(FileId file) const { return file.value < objects_.size() && objects_[file.value].absent_; }
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

  void Ask(FileId file, NodeId to, Copy copy);
  /// There is no room for it there, and it is not asked for again.
  void Refuse(FileId file, NodeId to);
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
  struct Node {
    std::map<FileId, Copy> copies{};  // as many as are on their way at one time
    std::set<FileId> refused{};
  };
  Object& At(FileId file);
  Node& At(NodeId node) {
    if (node.value >= nodes_.size()) nodes_.resize(node.value + 1);
    return nodes_[node.value];
  }

  const graph::Graph& graph_;
  // By their files' numbers; of files after the end nobody has told anything.
  std::vector<Object> objects_;
  std::vector<Node> nodes_;
  // Copies that are not sent yet.
  std::set<std::pair<FileId, NodeId>> waiting_;
  std::vector<bool> read_;
  size_t known_tasks_ = 0;  // in read_
};

}  // namespace harrow::server
