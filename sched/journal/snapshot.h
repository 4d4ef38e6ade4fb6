#pragma once

#include <memory>

#include "base/status.h"
#include "journal/journal.h"

namespace harrow::journal {

/// ReadHistory for a run whose server may be writing at this moment: reads and verifies a copy in the
/// temporary directory. What it holds is some tenths of a second old. Errors as ReadHistory; kExhausted: no
/// room for the copy.
Result<History> ReadSnapshot(std::shared_ptr<run_dir::RunDir> dir);

}  // namespace harrow::journal
