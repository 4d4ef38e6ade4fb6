// What lies in a run directory says what is run: RUN/flow has the commands, PART/server the address and the
// key, the journal what is done. Run directories have names that can be guessed and lie where other users may
// write
// (/tmp, /scratch), so whoever makes harrow-1234 first, or swaps it for his own, must not be believed.
//
// The directory is opened once, without following a link, and looked at through that descriptor: it has to
// belong to this user, and neither group nor others may write it. (An access list that lets somebody write
// shows as write permission of the group.) From then on nobody else can put anything into it, and everything
// below is reached through the descriptor, so that it does not matter what its name leads to later. What was
// put there while others could is still looked at: each directory, and each file that is read or written in
// place, is opened without following links and must be of the same owner, writable by nobody else. A file
// written in place must have no second name, which may be that of quite another file.
//
// The directories above are not asked: those of projects are writable by a group everywhere. Who can write
// there can rename a run's directory, and gets it refused or not found; he cannot get anything run.
#include "run_dir/run_dir.h"

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <utility>
#include <vector>

#include "base/text.h"
#include "os/log.h"
#include "os/process.h"
#include "run_dir/names.h"

namespace harrow::run_dir {
namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

std::string UserText(uid_t uid) {
  const std::string name = os::UserName(uid);
  return name.empty() ? StrCat("uid ", uid) : StrCat(name, " (uid ", uid, ")");
}

std::string ModeText(mode_t mode) {
  std::array<char, 16> text{};
  snprintf(text.data(), text.size(), "%o", mode & 07777);
  return text.data();
}

Status Foreign(const std::string& path, const struct stat& st) {
  return {Code::kInvalid, StrCat(Printable(path), " belongs to ", UserText(st.st_uid),
                                 ", not to you: nothing in "
                                 "it is used; name a directory of your own with --run-dir")};
}

Status OpenToOthers(const std::string& path, const struct stat& st) {
  return {Code::kInvalid,
          StrCat(Printable(path), " can be written by others (mode ", ModeText(st.st_mode),
                 "), who could change what is run; if you trust what is there: chmod -R go-w ",
                 ShellQuote(path))};
}

/// What a path that is no directory is.
Status NoDirectory(const std::string& path) {
  const int error = errno;
  struct stat st {};
  if ((error == ELOOP || error == ENOTDIR) && lstat(path.c_str(), &st) == 0) {
    if (!S_ISLNK(st.st_mode)) return {Code::kInvalid, StrCat(Printable(path), " is not a directory")};
    std::array<char, PATH_MAX> target{};
    const ssize_t length = readlink(path.c_str(), target.data(), target.size() - 1);
    return {Code::kInvalid, StrCat(Printable(path),
                                   " is a symbolic link, which is not followed; name the "
                                   "directory itself",
                                   length > 0 ? StrCat(": ", Printable(target.data())) : "")};
  }
  if (error == EACCES && lstat(path.c_str(), &st) == 0 && st.st_uid != geteuid()) return Foreign(path, st);
  const Code code = error == ENOENT || error == ENOTDIR ? Code::kNotFound
                    : error == EACCES || error == EPERM ? Code::kPermission
                                                        : Code::kUnavailable;
  return {code, StrCat("cannot open ", Printable(path), ": ", strerror(error))};
}

/// Opens a directory that is not a link, and tells what it is.
Result<os::Fd> OpenDirectory(const std::string& path, struct stat* st) {
  os::Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.ok() || fstat(fd.get(), st) != 0) return NoDirectory(path);
  return fd;
}

std::string WithoutSlashes(std::string path) {
  // "run/" would follow a link.
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Result<bool> IsEmpty(int directory, const std::string& path) {
  const int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* dir = fd >= 0 ? fdopendir(fd) : nullptr;
  if (dir == nullptr) return NoDirectory(path);
  bool empty = true;
  while (const dirent* entry = readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") empty = false;
  }
  closedir(dir);
  return empty;
}

}  // namespace

Result<std::shared_ptr<RunDir>> RunDir::Open(const std::string& given, Purpose purpose) {
  const std::string path = WithoutSlashes(given);
  struct stat st {};
  Result<os::Fd> fd = OpenDirectory(path, &st);
  if (!fd.ok()) return fd.status();
  const bool may_look = purpose == Purpose::kLook && geteuid() == 0;
  if (st.st_uid != geteuid() && !may_look) return Foreign(path, st);
  if ((st.st_mode & kOthersWrite) != 0) return OpenToOthers(path, st);
  return std::shared_ptr<RunDir>(new RunDir(*std::move(fd), path, st.st_uid));
}

Result<std::shared_ptr<RunDir>> RunDir::Make(const std::string& given) {
  const std::string path = WithoutSlashes(given);
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0)
    HARROW_RETURN_IF_ERROR(os::RealFileSystem().MakeDirectories(path.substr(0, slash)));
  // 0755 is what a default access list is cut to as well, whatever the umask says.
  const bool made = mkdir(path.c_str(), 0755) == 0;
  if (!made && errno != EEXIST) {
    const Code code = errno == ENOSPC || errno == EDQUOT ? Code::kExhausted : Code::kPermission;
    return Status(code, StrCat("cannot make directory ", Printable(path), ": ", strerror(errno)));
  }
  struct stat st {};
  Result<os::Fd> fd = OpenDirectory(path, &st);
  if (!fd.ok()) return fd.status();
  if (st.st_uid != geteuid()) return Status(Code::kExists, Foreign(path, st).message());
  if ((st.st_mode & kOthersWrite) != 0 && !made) {
    // Empty before, and empty when nobody else can write any more: so nothing was put there.
    Result<bool> empty = IsEmpty(fd->get(), path);
    if (!empty.ok()) return empty.status();
    if (!*empty) return OpenToOthers(path, st);
    (void)fchmod(fd->get(), st.st_mode & 07777 & ~kOthersWrite);
    empty = IsEmpty(fd->get(), path);
    if (!empty.ok()) return empty.status();
    if (!*empty || fstat(fd->get(), &st) != 0) return OpenToOthers(path, st);
  }
  if ((st.st_mode & kOthersWrite) != 0) {
    return Status(
        Code::kInvalid,
        StrCat(Printable(path), " can be written by others (mode ", ModeText(st.st_mode),
               ") whatever is asked for: this file system does not tell users apart; name a directory "
               "elsewhere with --run-dir"));
  }
  return std::shared_ptr<RunDir>(new RunDir(*std::move(fd), path, st.st_uid));
}

bool RunDir::ours() const {
  return owner_ == geteuid();
}

std::string RunDir::LastingPath(const std::string& name) const {
  return StrCat("/proc/self/fd/", fd_.get(), "/", name);
}

Status RunDir::CheckFile(const std::string& path, bool to_write) {
  Result<Place> place = Find(path);
  if (!place.ok()) return place.status();
  struct stat st {};
  if (fstatat(place->directory, place->name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return {};
    return {Code::kUnavailable, StrCat("cannot look at ", path, ": ", strerror(errno))};
  }
  return Check(st, path, to_write ? Use::kWrite : Use::kRead);
}

Result<os::Fd> RunDir::OpenFile(const std::string& path, int flags, uint32_t mode) {
  return PosixFiles::Open(path, flags, mode, (flags & O_ACCMODE) == O_RDONLY ? Use::kRead : Use::kWrite);
}

int RunDir::OpenFlags() const {
  return O_NOFOLLOW | O_NONBLOCK;  // a FIFO must not hold us until we see that it is one
}

Result<os::PosixFiles::Place> RunDir::Find(const std::string& path) {
  if (path == path_) return Place{.directory = fd_.get(), .name = ".", .held = {}};
  if (!path.starts_with(path_) || path[path_.size()] != '/') {
    return Status(Code::kInternal, StrCat(path, " is not in the run directory ", path_));
  }
  Place place{.directory = fd_.get(), .name = {}, .held = {}};
  size_t at = path_.size() + 1;
  for (size_t slash; (slash = path.find('/', at)) != std::string::npos; at = slash + 1) {
    const std::string part = path.substr(at, slash - at);
    if (part.empty() || part == "..") return Status(Code::kInternal, StrCat(path, ": not a path of a run"));
    Result<os::Fd> next = Enter(place.directory, part, path.substr(0, slash));
    if (next.status().code() == Code::kNotFound)
      return Status(Code::kNotFound, StrCat(path, ": No such file or directory"));
    if (!next.ok()) return next.status();
    place.held = *std::move(next);
    place.directory = place.held.get();
  }
  place.name = path.substr(at);
  if (place.name.empty() || place.name == "..")
    return Status(Code::kInternal, StrCat(path, ": not a path of a run"));
  return place;
}

Result<os::Fd> RunDir::Enter(int directory, const std::string& name, const std::string& path) const {
  os::Fd fd(openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat st {};
  if (!fd.ok() && errno == ENOENT) return Status(Code::kNotFound, StrCat(path, ": No such file or directory"));
  if (!fd.ok() || fstat(fd.get(), &st) != 0) {
    const int error = errno;
    if (fstatat(directory, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0)
      HARROW_RETURN_IF_ERROR(Admit(st, path, Use::kEnter));
    return Status(Code::kUnavailable, StrCat("cannot open ", path, ": ", strerror(error)));
  }
  HARROW_RETURN_IF_ERROR(Admit(st, path, Use::kEnter));
  return fd;
}

Result<std::shared_ptr<RunDir>> RunDir::OpenBelow(const std::string& name) const {
  std::string path = StrCat(path_, "/", name);
  Result<os::Fd> fd = Enter(fd_.get(), name, path);
  if (!fd.ok()) return fd.status();
  return std::shared_ptr<RunDir>(new RunDir(*std::move(fd), std::move(path), owner_));
}

Status RunDir::Check(const struct stat& info, const std::string& path, Use use) {
  return Admit(info, path, use);
}

Status RunDir::Admit(const struct stat& info, const std::string& path, Use use) const {
  const bool enter = use == Use::kEnter;
  const char* wanted = enter ? "directory" : "file";
  if (S_ISLNK(info.st_mode)) {
    return {Code::kInvalid,
            StrCat(path, " is a symbolic link, which is not followed in a run directory; put the ", wanted,
                   " itself there")};
  }
  if (enter ? !S_ISDIR(info.st_mode) : !S_ISREG(info.st_mode))
    return {Code::kInvalid, StrCat(path, " is not a plain ", wanted, ": no Harrow made it; remove it")};
  if (info.st_uid != owner_) {
    return {Code::kInvalid, StrCat(path, " belongs to ", UserText(info.st_uid), ", not to ", UserText(owner_),
                                   " as its run directory does: it is not used; remove it")};
  }
  if ((info.st_mode & kOthersWrite) != 0) return OpenToOthers(path, info);
  if (use == Use::kWrite && info.st_nlink > 1) {
    return {Code::kInvalid,
            StrCat(path,
                   " has another name as well (a hard link), and what it names would be changed; make it a "
                   "file of its own: cp -p ",
                   ShellQuote(path), " copy && mv copy ", ShellQuote(path))};
  }
  return {};
}

Status RunDir::CheckPrivate(const struct stat& info, const std::string& path) {
  HARROW_RETURN_IF_ERROR(Check(info, path, Use::kRead));
  if ((info.st_mode & 077) == 0) return {};
  return {Code::kPermission, StrCat(path, " is open to others; it holds a key and must have mode 0600")};
}

Status LogTo(RunDir& dir, const std::string& name) {
  HARROW_RETURN_IF_ERROR(dir.MakeDirectories(LogDirectory(dir.path()), 0755));
  Result<os::Fd> file = dir.OpenFile(LogPath(dir.path(), name), O_WRONLY | O_CREAT | O_APPEND);
  if (!file.ok()) return file.status();
  return os::OpenLog(*std::move(file));
}

Standing Judge(const std::string& path, Purpose purpose) {
  Standing standing;
  struct stat st {};
  standing.ours = lstat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
  standing.usable = RunDir::Open(path, purpose).status();
  return standing;
}

}  // namespace harrow::run_dir
