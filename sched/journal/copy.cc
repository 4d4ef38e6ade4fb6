#include "journal/copy.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "run_dir/names.h"

namespace harrow::journal {

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

Result<bool> JournalCopy::Take(run_dir::RunDir& from) {
  const auto sources = run_dir::JournalFiles(from.path()), copies = run_dir::JournalFiles(dir_->path());
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string& to = copies[i];
    (void)dir_->Remove(to);
    Result<os::Fd> fd = from.OpenFile(sources[i], O_RDONLY);
    if (fd.status().code() == Code::kNotFound) continue;
    if (!fd.ok()) return fd.status();
    std::error_code error;
    std::filesystem::copy_file(StrCat("/proc/self/fd/", fd->get()), to, error);
    if (error == std::errc::no_such_file_or_directory) return false;
    if (error == std::errc::no_space_on_device) {
      return Status(Code::kExhausted, StrCat("no room in ", dir_->path(),
                                             " for a copy of the journal; TMPDIR names another place"));
    }
    if (error) {
      return Status(Code::kUnavailable,
                    StrCat("cannot copy ", sources[i], " to ", dir_->path(), ": ", error.message()));
    }
  }
  return true;
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
