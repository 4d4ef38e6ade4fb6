#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "run_dir/names.h"
#include "run_dir/run_dir.h"

namespace harrow::run_dir {

/// What one allocation does of a run: its owner, its server, its journal, its tasks' output. A run's first allocation has the
/// part kFirstPart, and so has every one that resumes it; one that joins a run while it goes on gets a part of its own.
struct Part {
  std::shared_ptr<RunDir> run;
  std::shared_ptr<RunDir> dir;  // RUN/NAME; RUN itself in what a release without parts left (LookAtPart)
  uint32_t number = 0;

  bool is_first() const { return number == 0; }
};

/// A part that is there. kNotFound; kInvalid: a release without parts made the run, or as RunDir::Open.
Result<Part> OpenPart(std::shared_ptr<RunDir> run, const std::string& name = kFirstPart);
/// The same, or a new one. The caller becomes its owner before it writes anything else (owner.h).
Result<Part> MakePart(std::shared_ptr<RunDir> run, const std::string& name = kFirstPart);
/// How a process of a part is told which one it is for: RUN for the first part, RUN/NAME for others. And the way back.
std::string PartArgument(const Part& part);
Result<Part> OpenArgument(const std::string& argument);
/// The numbers of all parts that are there, ascending.
Result<std::vector<uint32_t>> PartNumbers(RunDir& run);
/// To be shown. A run that has no parts, because a release without them made it or because it is a copy of a journal, is
/// its own part: what lies in one has not changed.
Result<Part> LookAtPart(std::shared_ptr<RunDir> run);

}  // namespace harrow::run_dir
