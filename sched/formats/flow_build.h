#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "formats/flow_file.h"
#include "formats/load.h"
#include "formats/output_check.h"
#include "formats/problems.h"
#include "formats/streams.h"

namespace harrow::formats {

/// Turns templates into tasks: DeclareOutputs for every flow file first, then AddTasks for each in the order
/// its tasks should have, then Link once every task is known.
class FlowBuilder {
 public:
  FlowBuilder(os::FileSystem& fs, const LoadOptions& options, graph::Graph* graph, Problems* problems);
  ~FlowBuilder();
  void DeclareOutputs(const FlowFile& file);
  void AddTasks(const FlowFile& file);
  void Link();
  const OutputPlaces& places() const;
  /// Of tasks of other formats.
  StreamEnds& streams();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace harrow::formats
