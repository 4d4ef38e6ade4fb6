#pragma once

#include <optional>

#include "agent/steps/step.h"
#include "base/time.h"
#include "made/record.h"

namespace harrow::agent {

/// The outputs that a task declares: what an earlier attempt made of them is removed, what is there is
/// recorded (made/record.cc), their directories are made, a success that left one out is a failure, and their
/// sizes are told where they are wanted. Not of a task in a sandbox; of one of several nodes by the lead node
/// alone.
class DeclaredOutputs : public Step {
 public:
  explicit DeclaredOutputs(made::Record& record) : writer_(record) {}

  Status Prepare(Launch* launch, TaskResult* result) override;
  void Settle(const LocalTask& task, TaskResult* result) override;

  /// How often Beat is to be called while the process runs; none: never.
  std::optional<Duration> beat_every() const;
  void Beat() { writer_.Beat(); }

 private:
  static void LookForMissing(const LocalTask& task, TaskResult* result);

  made::Writer writer_;
  std::optional<made::Attempt> looked_;  // as the attempt found its outputs; none: not recorded
};

}  // namespace harrow::agent
