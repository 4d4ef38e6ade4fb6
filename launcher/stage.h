#pragma once

#include <string>

#include "run/flow_store.h"
#include "wire/harrow.pb.h"

namespace harrow::launcher {

/// What a run that only stages has come to so far, in a line for its user.
std::string StagingLine(const pb::Staged& staged);
/// Its end: a line for people, or with `json` a document, on standard output.
void ShowStaged(const pb::Progress& last, run::Stage stage, bool json);

}  // namespace harrow::launcher
