#pragma once

#include <memory>
#include <string>
#include <sys/types.h>

#include "base/status.h"
#include "os/posix_files.h"

namespace harrow::run_dir {

/// What a run directory is opened for.
enum class Purpose {
  kRun,   // to run, to go on, to be written: it must be this user's
  kLook,  // to be shown: root may look at another user's, as long as all of it is that user's
};

/// A run directory that has been opened, once, and found to be ours: its owner's, whom nobody else can write
/// for. As a FileSystem it is what lies below it: paths begin with path(), no link is followed, and what is read
/// or written in place must be a plain file of the same owner (why: run_dir.cc). kInvalid: something is not so.
/// Any thread.
class RunDir final : public os::PosixFiles {
 public:
  /// kNotFound, kInvalid (another's, a link, open to others), kPermission.
  static Result<std::shared_ptr<RunDir>> Open(const std::string& path, Purpose purpose = Purpose::kRun);
  /// A new one, its parents too, or an empty directory of ours, from which write permission of group and others
  /// is taken. As Open; kExists: there is something that is not ours.
  static Result<std::shared_ptr<RunDir>> Make(const std::string& path);

  /// As it was named: for people, and the beginning of all paths.
  const std::string& path() const { return path_; }
  /// Is it this user's, not one that root looks at?
  bool ours() const;

  /// A directory directly below it, held to the same rules, whose paths begin with path()/NAME. kNotFound, kInvalid.
  Result<std::shared_ptr<RunDir>> OpenBelow(const std::string& name) const;
  /// The path of something directly below it that does not depend on what becomes of path() (/proc/self/fd/...): for
  /// libraries that open by name. Nothing is checked: CheckFile does.
  std::string LastingPath(const std::string& name) const;
  /// Ok when there is nothing of that name, too.
  Status CheckFile(const std::string& path, bool to_write);
  /// A descriptor (close-on-exec) of a file below it. `flags` as of open(2).
  Result<os::Fd> OpenFile(const std::string& path, int flags, uint32_t mode = 0600);

 protected:
  Result<Place> Find(const std::string& path) override;
  Status Check(const struct stat& info, const std::string& path, Use use) override;
  Status CheckPrivate(const struct stat& info, const std::string& path) override;
  int OpenFlags() const override;
  size_t Rooted() const override { return path_.size(); }

 private:
  /// A directory in an open one; `path`: for people.
  Result<os::Fd> Enter(int directory, const std::string& name, const std::string& path) const;
  Status Admit(const struct stat& info, const std::string& path, Use use) const;

  RunDir(os::Fd fd, std::string path, uid_t owner) : fd_(std::move(fd)), path_(std::move(path)), owner_(owner) {}

  const os::Fd fd_;
  const std::string path_;
  const uid_t owner_;
};

/// This process logs to log/NAME of a part from now on.
Status LogTo(RunDir& dir, const std::string& name);

/// What a directory is to us, for those who look for runs.
struct Standing {
  bool ours = false;  // it belongs to this user, usable or not
  Status usable;      // as Open
};
Standing Judge(const std::string& path, Purpose purpose);

}  // namespace harrow::run_dir
