#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "journal/journal.h"
#include "run_dir/part.h"

namespace harrow::journal {

/// How the journal of a directory is read: ReadHistory, or ReadSnapshot.
using ReadJournal = std::function<Result<History>(std::shared_ptr<run_dir::RunDir>)>;

/// What all parts of a run have recorded, as if one server had: the first part's history, with the attempts, nodes,
/// copies and moves of the others, and the tasks that only they know. Nodes of other parts have numbers after those of the first, and
/// output files of other parts have the part's number with theirs (output::FileNumber). What other parts decided about tasks
/// counts as long as the session lasts in which they did: a resume writes what stays done into the first part's journal. A
/// part that cannot be read is left out, and `trouble`, if not null, says why. Errors: those of reading the first part.
Result<History> ReadRun(const run_dir::Part& first, const ReadJournal& read, std::vector<Status>* trouble = nullptr);

/// The fates and attempts of the parts that took part in the run's last session, beside the first: by part. For a resume,
/// which takes over what they have done.
std::vector<History> ReadOthersOfSession(const run_dir::Part& first, const History& of_first, const ReadJournal& read,
                                         std::vector<Status>* trouble = nullptr);

}  // namespace harrow::journal
