#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "run_dir/owner.h"
#include "run_dir/part.h"

namespace harrow::launcher {

/// A part of a run that somebody owned when it was looked at.
struct OwnedPart {
  run_dir::Part part;
  run_dir::OwnerIs owner = run_dir::OwnerIs::kThere;  // kThere, or kGone
};
/// Asks the batch system about the owner's job where that is another one.
run_dir::OwnerIs OwnerOf(const run_dir::Part& part);
/// The parts of a session of a run that are not over: their owners live, or are gone without anybody having seen to what
/// they left. One whose owner has not written yet which session it is of is among them.
std::vector<OwnedPart> OwnedParts(const std::shared_ptr<run_dir::RunDir>& run, WallTime session);
/// Whether such a part but this one has a living owner.
bool GoesOnElsewhere(const run_dir::Part& part, WallTime session);
/// Before an allocation joins a run, of which it owns a part already: waits for a part with a lower number that is owned and has
/// no server yet (it may be about to resume the run, in a new session). The session to join; none: nobody else is there.
/// kUnavailable: no server has come.
Result<std::optional<WallTime>> AwaitSession(const run_dir::Part& own);

}  // namespace harrow::launcher
