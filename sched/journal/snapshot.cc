// A copy of database and WAL taken while the server writes is whole if the WAL did not begin anew in between:
// until then the WAL holds every page that a checkpoint brings into the database, and SQLite ignores an
// unfinished commit at its end. A WAL that begins anew has another salt in its header. The mark of what was
// acknowledged is copied first, so that the copy can hold only more. Whatever else could go wrong does not
// verify, and the copy is taken again.
#include "journal/snapshot.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "base/text.h"

namespace harrow::journal {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 5;

std::string WalHeader(const std::string& run_dir) {
  std::string header(32, '\0');
  std::ifstream wal(run_dir + "/journal.db-wal", std::ios::binary);
  wal.read(header.data(), static_cast<std::streamsize>(header.size()));
  header.resize(static_cast<size_t>(wal.gcount()));
  return header;
}

/// False: the journal was being changed; again.
Result<bool> Copy(const std::string& run_dir, const std::string& copy) {
  const std::string before = WalHeader(run_dir);
  for (const char* name :
       {"/journal.acknowledged", "/journal.db", "/journal.db-wal", "/journal.db-journal"}) {
    std::error_code error;
    fs::remove(copy + name, error);
    if (!fs::exists(run_dir + name, error)) continue;
    fs::copy_file(run_dir + name, copy + name, error);
    if (error == std::errc::no_such_file_or_directory) return false;  // it has just been closed
    if (error == std::errc::no_space_on_device) {
      return Status(Code::kExhausted,
                    StrCat("no room in ", copy, " for a copy of the journal; TMPDIR names another place"));
    }
    if (error)
      return Status(Code::kUnavailable,
                    StrCat("cannot copy ", run_dir, name, " to ", copy, ": ", error.message()));
  }
  return WalHeader(run_dir) == before;
}

}  // namespace

Result<History> ReadSnapshot(const std::string& run_dir) {
  std::error_code error;
  const bool written =
      fs::exists(run_dir + "/server", error) || fs::exists(run_dir + "/journal.db-wal", error);
  if (!written) return ReadHistory(run_dir);
  std::string copy = StrCat(fs::temp_directory_path(error).string(), "/harrow-journal-XXXXXX");
  if (error || mkdtemp(copy.data()) == nullptr) {
    return Status(Code::kUnavailable,
                  "cannot make a temporary directory to read the journal in; TMPDIR names another place");
  }
  Result<History> history =
      Status(Code::kUnavailable, StrCat("the journal of ", run_dir, " changes too fast to be read"));
  for (int i = 0; i < kTries; ++i) {
    auto copied = Copy(run_dir, copy);
    if (!copied.ok()) {
      history = copied.status();
      break;
    }
    if (!*copied) continue;
    history = ReadHistory(copy);
    if (history.ok() || history.status().code() != Code::kDamaged) break;
  }
  fs::remove_all(copy, error);
  if (history.ok()) return history;
  std::string message = history.status().message();  // names the copy, which nobody has seen
  for (size_t at; (at = message.find(copy)) != std::string::npos;) message.replace(at, copy.size(), run_dir);
  return Status(history.status().code(), message);
}

}  // namespace harrow::journal
