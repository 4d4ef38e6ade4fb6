// Whether a task left something: a directory's modification time changes with each name made or removed in
// it, so one fstat tells that nothing did. The kernel's file times are coarse (a tick of some ms): a time
// that is not clearly older than the task proves nothing, and then the directory is listed.
#include "agent/slot_tmp.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "os/file_system.h"

namespace harrow::agent {
namespace {

constexpr auto kCoarse = std::chrono::milliseconds(20);

WallTime ChangeTime(const struct stat& st) {
  return WallTime(std::chrono::seconds(st.st_mtim.tv_sec) + std::chrono::nanoseconds(st.st_mtim.tv_nsec));
}

}  // namespace

SlotTmp::SlotTmp(std::string root, uint32_t slot) : path_(StrCat(root, "/", slot)) {}

SlotTmp::~SlotTmp() {
  if (fd_ >= 0) close(fd_);
}

Result<std::string> SlotTmp::Prepare(WallTime now) {
  task_start_ = now;
  if (fd_ >= 0) return path_;
  if (mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST)
    return Status(Code::kExhausted,
                  StrCat("cannot make the temporary directory ", path_, ": ", strerror(errno)));
  fd_ = open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0)
    return Status(Code::kExhausted,
                  StrCat("cannot open the temporary directory ", path_, ": ", strerror(errno)));
  return path_;
}

void SlotTmp::CleanAfterTask() {
  struct stat st {};
  if (fd_ < 0) return;
  if (fstat(fd_, &st) != 0 || st.st_nlink == 0) {  // the task removed it
    close(fd_);
    fd_ = -1;
    return;
  }
  if (ChangeTime(st) == known_empty_ && known_empty_ + kCoarse < task_start_) return;
  os::FileSystem& fs = os::RealFileSystem();
  const Result<std::vector<std::string>> names = fs.List(path_);
  bool empty = names.ok();
  if (names.ok()) {
    for (const std::string& name : *names) empty = fs.RemoveTree(StrCat(path_, "/", name)).ok() && empty;
  }
  if (empty && fstat(fd_, &st) == 0) known_empty_ = ChangeTime(st);
}

}  // namespace harrow::agent
