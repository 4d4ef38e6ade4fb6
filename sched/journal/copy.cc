#include "journal/copy.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "run_dir/names.h"

namespace harrow::journal {
namespace {

constexpr size_t kPiece = 1 << 20;

Status NoRoom(const Status& why) {
  return Status(why.code(), StrCat("no copy of the journal can be made to read it in (", why.message(),
                                   "); TMPDIR names another place"));
}

}  // namespace

JournalCopy::~JournalCopy() {
  if (dir_) (void)os::RealFileSystem().RemoveTree(dir_->path());
}

Status JournalCopy::Make() {
  std::error_code error;
  std::string path = StrCat(std::filesystem::temp_directory_path(error).string(), "/harrow-journal-XXXXXX");
  if (error || mkdtemp(path.data()) == nullptr) {
    return Status(Code::kUnavailable,
                  "cannot make a temporary directory to read the journal in; TMPDIR names another place");
  }
  auto dir = run_dir::RunDir::Open(path);
  if (!dir.ok()) return dir.status();
  dir_ = *std::move(dir);
  return {};
}

Status JournalCopy::Take(run_dir::RunDir& from) {
  const auto sources = run_dir::JournalFiles(from.path()), copies = run_dir::JournalFiles(dir_->path());
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string& to = copies[i];
    (void)dir_->Remove(to);
    Result<os::Fd> fd = from.OpenFile(sources[i], O_RDONLY);
    if (fd.status().code() == Code::kNotFound) continue;
    if (!fd.ok()) return fd.status();
    auto copy = dir_->OpenAppend(to);
    if (!copy.ok()) return NoRoom(copy.status());
    std::string piece(kPiece, '\0');
    for (ssize_t n; (n = read(fd->get(), piece.data(), piece.size())) != 0;) {
      if (n < 0) return Status(Code::kUnavailable, StrCat("cannot read ", sources[i], ": ", strerror(errno)));
      const Status written = (*copy)->Append(std::string_view(piece).substr(0, static_cast<size_t>(n)));
      if (!written.ok()) return NoRoom(written);
    }
  }
  return {};
}

Result<History> JournalCopy::Named(const run_dir::RunDir& from, Result<History> read) const {
  if (read.ok()) return read;
  std::string message = read.status().message();
  const std::string& copy = dir_->path();
  for (size_t at; (at = message.find(copy)) != std::string::npos;)
    message.replace(at, copy.size(), from.path());
  return Status(read.status().code(), message);
}

}  // namespace harrow::journal
