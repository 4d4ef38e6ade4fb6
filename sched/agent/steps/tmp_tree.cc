// A warden that is killed cannot remove its directory. So it writes beforehand, into the run directory, which
// is ours alone, what it made: path, device and inode (log/agent-NODE.tmp). Who finds that later (the node's
// next warden, the keeper at the end) removes the directory if it still is the one that was made, and is
// ours; a path alone may lead to anything by then.
//
// What tasks leave is removed from below a descriptor, each step by openat without following links. A
// directory that its maker has closed to himself (mode 500, 0) is opened for him; that is done by
// /proc/thread-self/fd, because a slot's thread has a descriptor table of its own, and /proc/self shows the
// one of the process's first thread.
#include "agent/steps/tmp_tree.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/text.h"
#include "os/file_system.h"
#include "os/log.h"
#include "run_dir/names.h"

namespace harrow::agent {
namespace {

constexpr int kFlags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/// The directory `fd` (O_PATH will do), for reading; -1: it is not ours.
int OpenForReading(int fd) {
  const int readable = openat(fd, ".", O_RDONLY | kFlags);
  if (readable >= 0 || errno != EACCES) return readable;
  OpenToUs(fd);
  return openat(fd, ".", O_RDONLY | kFlags);
}

/// The directory `name` in `parent`, for reading; -1: it is none, or not ours.
int OpenDirectory(int parent, const char* name) {
  const os::Fd found(openat(parent, name, O_PATH | kFlags));
  return found.ok() ? OpenForReading(found.get()) : -1;
}

/// Takes the descriptor.
bool EmptyAndClose(int fd, std::string_view keep = {}) {
  DIR* entries = fdopendir(fd);
  if (entries == nullptr) {
    close(fd);
    return false;
  }
  std::vector<std::string> names;
  while (const dirent* entry = readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && name != keep) names.emplace_back(name);
  }
  bool empty = true, opened = false;
  for (const std::string& name : names) {
    int gone = unlinkat(fd, name.c_str(), 0);
    if (gone != 0 && errno == EACCES && !std::exchange(opened, true)) {
      OpenToUs(fd);
      gone = unlinkat(fd, name.c_str(), 0);
    }
    if (gone != 0 && (errno == EISDIR || errno == EPERM)) {
      const int below = OpenDirectory(fd, name.c_str());
      if (below >= 0 && EmptyAndClose(below)) gone = unlinkat(fd, name.c_str(), AT_REMOVEDIR);
    }
    empty = empty && (gone == 0 || errno == ENOENT);
  }
  closedir(entries);
  return empty;
}

std::string Describe(const struct stat& st, const std::string& path) {
  return StrCat(static_cast<uint64_t>(st.st_dev), " ", static_cast<uint64_t>(st.st_ino), " ", path, "\n");
}

constexpr std::string_view kSharedMemory = "/dev/shm";

/// Never the path of a temporary directory, which may lie there as well: their names begin otherwise.
std::string SharedMemoryPath(const std::string& root) {
  return StrCat(kSharedMemory, "/ranks-", root.substr(root.rfind('/') + 1));
}

/// Of the temporary directory that lies at `root`. Its name tells that it is ours, or nobody's.
void RemoveSharedMemory(const std::string& root) {
  const std::string path = SharedMemoryPath(root);
  const os::Fd fd(open(path.c_str(), O_PATH | kFlags));
  struct stat st {};
  if (fstat(fd.get(), &st) == 0 && st.st_uid == geteuid() && EmptyDirectory(fd.get())) (void)rmdir(path.c_str());
}

/// If it is here, and still the one that was recorded; another node's record stays.
void RemoveRecorded(run_dir::RunDir& dir, const std::string& record) {
  const Result<std::string> text = dir.ReadPrivate(record, 65536);
  if (!text.ok() || text->empty() || text->back() != '\n') return;
  const size_t first = text->find(' ');
  const size_t second = first == std::string::npos ? first : text->find(' ', first + 1);
  if (second == std::string::npos) return;
  const std::string path = text->substr(second + 1, text->size() - second - 2);
  const os::Fd fd(open(path.c_str(), O_PATH | kFlags));
  struct stat st {};
  if (fstat(fd.get(), &st) == 0 && st.st_uid == geteuid() && *text == Describe(st, path)) {
    RemoveSharedMemory(path);
    if (EmptyDirectory(fd.get()) && rmdir(path.c_str()) == 0) {
      (void)dir.Remove(record);
    } else {
      os::LogWarning(StrCat("the temporary directory ", path, " cannot be removed whole"));
    }
  }
}

}  // namespace

bool IsSafeBase(const std::string& base) {
  struct stat st {};
  if (!base.starts_with('/') || stat(base.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) return false;
  const bool trusted = st.st_uid == 0 || st.st_uid == geteuid();
  if (trusted && ((st.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (st.st_mode & S_ISVTX) != 0)) return true;
  os::LogWarning(
      StrCat("temporary files do not go into ", Printable(base),
             ": others could replace what is in it (it belongs to another user, or its group or all "
             "may write there and it has no sticky bit)"));
  return false;
}

void OpenToUs(int fd) {
  chmod(StrCat("/proc/thread-self/fd/", fd).c_str(), 0700);
}

bool EmptyDirectory(int fd, std::string_view keep) {
  const int readable = OpenForReading(fd);
  return readable >= 0 && EmptyAndClose(readable, keep);
}

TmpRoot TmpRootAt(const std::string& path) {
  struct stat st {};
  if (lstat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid()) return {};
  return {.path = path, .device = st.st_dev, .inode = st.st_ino};
}

os::Fd OpenTmpRoot(const TmpRoot& root) {
  os::Fd fd(open(root.path.c_str(), O_PATH | kFlags));
  struct stat st {};
  if (fd.ok() && fstat(fd.get(), &st) == 0 && st.st_dev == root.device && st.st_ino == root.inode) return fd;
  return os::Fd();
}

std::string MakeLinesFile(const TmpRoot& root, const std::string& name, std::string_view line,
                          uint32_t times) {
  std::string text;
  for (uint32_t i = 0; i < times; ++i) text.append(line).append(1, '\n');
  return MakeTextFile(root, name, text);
}

std::string MakeTextFile(const TmpRoot& root, const std::string& name, std::string_view text) {
  const os::Fd directory = OpenTmpRoot(root);
  if (!directory.ok()) return {};
  const os::Fd file(openat(directory.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const ssize_t written = file.ok() ? write(file.get(), text.data(), text.size()) : -1;
  const int error = written < 0 ? errno : ENOSPC;
  const bool whole = written == static_cast<ssize_t>(text.size());
  if (file.ok() && !whole) unlinkat(directory.get(), name.c_str(), 0);
  errno = error;
  return whole ? StrCat(root.path, "/", name) : std::string();
}

bool EmptyTmpRoot(const TmpRoot& root, std::string_view keep) {
  return EmptyDirectory(OpenTmpRoot(root).get(), keep);
}

TmpRoot MakeTmpRoot(run_dir::RunDir& dir, const std::string& node, const TmpBases& bases) {
  const std::string record = run_dir::TmpRecordPath(dir.path(), node);
  RemoveRecorded(dir, record);
  const char* inherited = getenv("TMPDIR");
  std::vector<std::string> tried = {bases.job, inherited != nullptr ? inherited : "", "/tmp"};
  if (!bases.asked.empty()) tried = {bases.asked};
  for (const std::string& base : tried) {
    if (base.empty() || !IsSafeBase(base)) continue;
    std::string path = StrCat(base, "/harrow-XXXXXX");
    if (mkdtemp(path.data()) == nullptr) continue;
    struct stat st {};
    if (lstat(path.c_str(), &st) != 0) continue;
    const Status recorded = dir.WriteWhole(record, Describe(st, path), 0600);
    if (!recorded.ok()) os::LogWarning(recorded.message());
    return {.path = path, .device = st.st_dev, .inode = st.st_ino};
  }
  return {};
}

TmpRoot MakeSharedMemoryRoot(const TmpRoot& root) {
  if (root.empty()) return {};
  RemoveSharedMemory(root.path);
  const std::string path = SharedMemoryPath(root.path);
  if (!IsSafeBase(std::string(kSharedMemory)) || mkdir(path.c_str(), 0700) != 0) return root;
  return TmpRootAt(path);
}

void RemoveTmpRoot(run_dir::RunDir& dir, const std::string& node, const TmpRoot& root) {
  RemoveSharedMemory(root.path);
  if (EmptyTmpRoot(root) && rmdir(root.path.c_str()) == 0) {
    (void)dir.Remove(run_dir::TmpRecordPath(dir.path(), node));
  } else {
    os::LogWarning(StrCat("the temporary directory ", root.path, " cannot be removed whole"));
  }
}

void RemoveLeftTmpRoots(run_dir::RunDir& dir) {
  const Result<std::vector<std::string>> names = dir.List(run_dir::LogDirectory(dir.path()));
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (run_dir::IsTmpRecord(name)) RemoveRecorded(dir, run_dir::LogPath(dir.path(), name));
  }
}

}  // namespace harrow::agent
