// Whether a task left something: a directory's change time changes with each name made or removed in it, and
// when it is renamed or removed itself, so one fstat tells that nothing did. The kernel's file times are coarse
// (a tick of some ms): one that is not clearly older than a task proves nothing of it, and then the directory
// is looked up and listed; as it is once a second in any case, for what was mounted on it.
//
// A task may do with its directory what it likes: move it to where it keeps results, put a link to its home
// in its place. So what is emptied is the directory that we made and hold open, and only while it still has
// its name; what else bears the name is removed, a link as a link. Where others can write further up they may
// put another directory, or a link, in place of the one that holds ours, so that is reached by a descriptor
// too.
#include "agent/steps/slot_tmp.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/steps/tmp_tree.h"
#include "base/text.h"

namespace harrow::agent {
namespace {

constexpr auto kCoarse = std::chrono::milliseconds(20);
constexpr auto kLookUpAgain = std::chrono::seconds(1);

WallTime ChangeTime(const struct stat& st) {
  return WallTime(std::chrono::seconds(st.st_ctim.tv_sec) + std::chrono::nanoseconds(st.st_ctim.tv_nsec));
}

}  // namespace

SlotTmp::SlotTmp(const TmpRoot& root, uint32_t slot)
    : root_(root), name_(StrCat(slot)), path_(StrCat(root.path, "/", slot)) {}

bool SlotTmp::Remove() {
  if (unlinkat(root_fd_.get(), name_.c_str(), 0) == 0 || errno == ENOENT) return true;
  const os::Fd fd(openat(root_fd_.get(), name_.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return fd.ok() && EmptyDirectory(fd.get()) && unlinkat(root_fd_.get(), name_.c_str(), AT_REMOVEDIR) == 0;
}

Status SlotTmp::Prepare(Launch* launch, TaskResult*) {
  if (root_.empty()) return {};
  task_start_ = launch->start;
  HARROW_RETURN_IF_ERROR(Make());
  launch->variables.tmp_dir = path_;
  return {};
}

Status SlotTmp::Make() {
  if (fd_.ok()) return {};
  if (!root_fd_.ok()) root_fd_ = OpenTmpRoot(root_);
  if (!root_fd_.ok())
    return Status(Code::kExhausted, StrCat("the temporary directory ", root_.path, " is gone"));
  // What is there already was left by another agent.
  const auto make = [this] { return mkdirat(root_fd_.get(), name_.c_str(), 0700) == 0; };
  if (!make() && !(errno == EEXIST && Remove() && make()))
    return Status(Code::kExhausted,
                  StrCat("cannot make the temporary directory ", path_, ": ", strerror(errno)));
  fd_ = os::Fd(openat(root_fd_.get(), name_.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat st {};
  if (!fd_.ok() || fstat(fd_.get(), &st) != 0)
    return Status(Code::kExhausted,
                  StrCat("cannot open the temporary directory ", path_, ": ", strerror(errno)));
  device_ = st.st_dev;
  inode_ = st.st_ino;
  known_empty_ = {};
  return {};
}

void SlotTmp::Settle(const LocalTask&, TaskResult*) {
  struct stat st {};
  if (!fd_.ok()) return;
  const bool seen = fstat(fd_.get(), &st) == 0;
  const WallTime changed = ChangeTime(st);
  if (seen && changed == known_empty_ && task_start_ - looked_up_ < kLookUpAgain) return;
  if (fstatat(root_fd_.get(), name_.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0 || st.st_dev != device_ ||
      st.st_ino != inode_) {
    fd_ = os::Fd();
    (void)Remove();
    return;
  }
  looked_up_ = task_start_;
  if ((st.st_mode & 0777) != 0700) OpenToUs(fd_.get());
  // Whatever later tasks do to it has another time.
  if (EmptyDirectory(fd_.get()) && seen && changed + kCoarse < task_start_) known_empty_ = changed;
}

}  // namespace harrow::agent
