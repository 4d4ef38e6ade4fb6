#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "run/flow_store.h"
#include "wire/harrow.pb.h"

namespace harrow::run {

/// kInvalid: a setting that is not known here, or not as it can be.
Status SettingsFromProto(const pb::RunSettings& p, RunSettings* s);

/// Puts a flow together from its chunks, and adds more to it while it is in use. Every index is checked: a
/// damaged file must not become a wrong graph.
class FlowBuilder {
 public:
  /// `flow`: has nothing yet, and outlives this.
  explicit FlowBuilder(StoredFlow* flow) : flow_(*flow) {}

  /// `part`: whose its tasks are at first. kInvalid: settings that are not known here; kDamaged. After an error the flow is
  /// of no more use.
  Status AddChunk(const pb::FlowChunk& chunk, uint32_t part = 0);
  /// The same of what was submitted; the groups are counted.
  Status AddGroup(const pb::AddedGroup& group) {
    ++groups_;
    return AddChunk(group.chunk(), group.part());
  }
  /// Links what was added and seals the graph.
  Status Seal();

  /// How many are stored: the numbers by which chunks speak of them go on from there. Equal ones that came in several
  /// chunks have several numbers and one id; tasks' numbers are their ids.
  uint32_t profiles() const { return static_cast<uint32_t>(profiles_.size()); }
  uint32_t kinds() const { return static_cast<uint32_t>(kinds_.size()); }
  uint32_t files() const { return static_cast<uint32_t>(files_.size()); }
  uint32_t tasks() const { return count_; }
  uint32_t groups() const { return groups_; }

 private:
  struct Later {
    TaskId before, after;
    graph::WaitsFor what;
  };

  bool AddTask(const pb::StoredTask& task);
  bool AddStream(const pb::StoredStream& stored);
  bool Files(const google::protobuf::RepeatedField<uint32_t>& from, std::vector<FileId>* to) const;
  void Follow(const google::protobuf::RepeatedField<uint32_t>& from, graph::WaitsFor what,
              std::vector<TaskId>* to);

  StoredFlow& flow_;
  std::vector<ProfileId> profiles_;
  std::vector<KindId> kinds_;
  std::vector<FileId> files_, in_, out_;
  std::vector<TaskId> after_, after_any_;
  std::vector<Later> later_;
  uint32_t count_ = 0;
  uint32_t groups_ = 0;
};

}  // namespace harrow::run
