// A copy of database and WAL taken while the server writes is whole if the WAL did not begin anew in between:
// until then the WAL holds every page that a checkpoint brings into the database, and SQLite ignores an
// unfinished commit at its end. A WAL that begins anew has another salt in its header. The mark of what was
// acknowledged is copied first, so that the copy can hold only more. Whatever else could go wrong does not
// verify, and the copy is taken again.
#include "journal/snapshot.h"

#include "base/text.h"
#include "journal/copy.h"
#include "run_dir/names.h"

namespace harrow::journal {
namespace {

constexpr int kTries = 5;
constexpr uint64_t kWalHeader = 32;

/// Empty where there is none.
std::string WalHeader(run_dir::RunDir& dir) {
  Result<std::string> header = dir.ReadRange(run_dir::JournalWalPath(dir.path()), 0, kWalHeader);
  return header.ok() ? *std::move(header) : "";
}

}  // namespace

Result<History> ReadSnapshot(std::shared_ptr<run_dir::RunDir> dir) {
  const auto written = [&dir] {
    return dir->Stat(run_dir::ServerPath(dir->path())).ok() || dir->Stat(run_dir::JournalWalPath(dir->path())).ok();
  };
  if (!written()) {
    Result<History> at_rest = ReadHistory(dir);
    // A server may have begun to write meanwhile.
    if (at_rest.ok() || at_rest.status().code() != Code::kDamaged || !written()) return at_rest;
  }
  JournalCopy copy;
  HARROW_RETURN_IF_ERROR(copy.Make());
  Result<History> history =
      Status(Code::kUnavailable, StrCat("the journal of ", dir->path(), " changes too fast to be read"));
  for (int i = 0; i < kTries; ++i) {
    const std::string before = WalHeader(*dir);
    HARROW_RETURN_IF_ERROR(copy.Take(*dir));
    if (WalHeader(*dir) != before) continue;  // it was being changed
    history = ReadHistory(copy.dir());
    if (history.ok() || history.status().code() != Code::kDamaged) break;
  }
  return copy.Named(*dir, std::move(history));
}

}  // namespace harrow::journal
