#include "made/copies.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "run_dir/names.h"

namespace harrow::made {
namespace {

constexpr size_t kNewest = 20'000;

/// Nothing else is ever removed, whatever a list says.
bool IsCopy(std::string_view path) {
  if (!path.starts_with('/')) return false;
  std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.starts_with(".harrow-") || !name.ends_with(".tmp")) return false;
  name.remove_prefix(8);
  name.remove_suffix(4);
  return IsDigits(name);
}

}  // namespace

Copies::~Copies() {
  if (fd_ >= 0) close(fd_);
}

void Copies::Set(std::string path) {
  const std::lock_guard lock(mutex_);
  path_ = std::move(path);
}

void Copies::Add(const std::string& temporary) {
  const std::lock_guard lock(mutex_);
  if (fd_ < 0 && !path_.empty())
    fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd_ >= 0) (void)!write(fd_, temporary.c_str(), temporary.size() + 1);
}

void Copies::Remove() {
  const std::lock_guard lock(mutex_);
  if (fd_ < 0) return;
  close(std::exchange(fd_, -1));
  unlink(path_.c_str());
}

void RemoveLeftCopies(os::FileSystem& fs, const std::string& part) {
  const std::string directory = run_dir::OutputDirectory(part);
  const Result<std::vector<std::string>> names = fs.List(directory);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!run_dir::IsCopies(name)) continue;
    const std::string list = StrCat(directory, "/", name);
    const Result<std::string> paths = fs.Read(list);
    if (!paths.ok()) continue;
    std::string_view rest = *paths;
    // Most of a long list have had their names for long, and each costs a call to the storage.
    size_t entries = static_cast<size_t>(std::count(rest.begin(), rest.end(), '\0'));
    for (; entries > kNewest; --entries) rest.remove_prefix(rest.find('\0') + 1);
    for (size_t end; (end = rest.find('\0')) != rest.npos; rest.remove_prefix(end + 1)) {
      if (const std::string path(rest.substr(0, end)); IsCopy(path)) unlink(path.c_str());
    }
    (void)fs.Remove(list);
  }
}

}  // namespace harrow::made
