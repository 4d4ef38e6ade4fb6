// Contents that come from a file system. What is moved in is given the object's time first and hashed then:
// from that moment on every write shows in the time, and if it is still the same after the hash, the hash is
// that of the bytes. A file with a second name is copied, as it could be the inode of another object (an
// input that the task has changed in place and calls its output): that inode's time has to stay what it is.
#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

#include "base/text.h"
#include "store/local_store_internal.h"

namespace harrow::store {
namespace {

constexpr int64_t kWorthCloning = 64 << 10;
constexpr int kOpenFile = O_RDONLY | O_NONBLOCK | O_NOCTTY;

Status Refused(const std::string& shown, mode_t mode) {
  const char* what = S_ISLNK(mode)    ? "a symbolic link"
                     : S_ISFIFO(mode) ? "a FIFO"
                     : S_ISSOCK(mode) ? "a socket"
                                      : "a device";
  return Status(Code::kInvalid, StrCat(Printable(shown, 400), " is ", what,
                                       "; only files and directories can be inputs and outputs"));
}

Status ChangedMeanwhile(const std::string& shown) {
  return Status(Code::kInvalid, StrCat(Printable(shown, 400),
                                       " was written to while it was read; its writer must have ended"));
}

Kind KindOf(const struct stat& info) {
  return (info.st_mode & S_IXUSR) != 0 ? Kind::kProgram : Kind::kFile;
}

bool SameTime(const struct timespec& a, const struct timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

Result<Object> LocalStore::CopyIn(const std::string& path) {
  struct stat info {};
  if (fstatat(AT_FDCWD, path.c_str(), &info, 0) != 0)
    return Failed("read", path, errno == ENOTDIR ? ENOENT : errno);
  if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode)) return Refused(path, info.st_mode);
  const Fd fd = OpenAt(AT_FDCWD, path.c_str(), kOpenFile);
  if (!fd.ok() || fstat(fd.get(), &info) != 0) return Failed("read", path);
  if (S_ISDIR(info.st_mode)) return TakeTree(fd.get(), path, false);
  if (!S_ISREG(info.st_mode)) return Refused(path, info.st_mode);
  return CopyInFrom(fd.get(), info, path, As::kNamed);
}

Result<Object> LocalStore::CopyInFrom(int fd, const struct stat& info, const std::string& shown, As as) {
  Temporary file(this);
  HARROW_RETURN_IF_ERROR(file.Make(ChargeOf(info.st_size), shown));
  Hasher hasher;
  bool cloned = false;
  if (info.st_size >= kWorthCloning && no_clone_from_.load() != info.st_dev) {
    const int error = Clone(fd, file.fd());
    cloned = error == 0;
    if (NeverWorks(error)) no_clone_from_ = info.st_dev;
  }
  const Copied copied =
      cloned ? ReadThrough(file.fd(), 0, &hasher, -1) : ReadThrough(fd, 0, &hasher, file.fd());
  if (copied.write_error != 0) return Failed("take into the store", shown, copied.write_error, root_.get());
  if (copied.read_error != 0) return Failed("read", shown, copied.read_error);
  struct stat after {};
  if (fstat(fd, &after) != 0) return Failed("look at", shown);
  const bool same = after.st_size == info.st_size && SameTime(after.st_mtim, info.st_mtim);
  if (copied.bytes != info.st_size || (!cloned && !same)) return ChangedMeanwhile(shown);
  return AdoptTemporary(&file, hasher.Id(KindOf(info)), copied.bytes, nullptr, as);
}

Result<Object> LocalStore::AdoptTemporary(Temporary* file, const ObjectId& id, int64_t length,
                                          const Entries& entries, As as) {
  struct stat info {};
  if (!Seal(file->fd(), id.kind == Kind::kProgram) || fstat(file->fd(), &info) != 0 ||
      (options_.durable && fsync(file->fd()) != 0)) {
    return Failed("keep in the store", id.Text(), errno, root_.get());
  }
  Taken taken;
  taken.object = {id, length};
  taken.length = length;
  taken.inode = info.st_ino;
  taken.charge = file->charge();
  if (entries != nullptr) {
    taken.object.bytes = BytesOf(*entries);
    taken.parts = std::make_shared<const std::vector<Object>>(FilesOf(*entries));
  }
  const Result<bool> adopted = Adopt(taken, as, nullptr, [&](int directory, const char* name) {
    return renameat(arriving_.get(), file->name().c_str(), directory, name) == 0 ? 0 : errno;
  });
  if (!adopted.ok()) return adopted.status();
  if (*adopted) file->Keep();
  return taken.object;
}

Result<Object> LocalStore::MoveIn(const std::string& path) {
  Descent descent(sandboxes_.get(), StrCat(directory_, "/sandboxes"), Descent::Make::kNo);
  Fd elsewhere;
  int parent = -1;
  if (path.starts_with(StrCat(directory_, "/sandboxes/"))) {
    const Result<std::string> below = BelowSandboxes(path);
    if (!below.ok()) return below.status();
    const Result<int> found = descent.To(ParentOf(*below));
    if (!found.ok()) return found.status();
    parent = *found;
  } else {
    const std::string above = StrCat(ParentOf(path), "/");
    elsewhere = OpenAt(AT_FDCWD, above.c_str(), O_PATH | O_DIRECTORY);
    if (!path.starts_with('/') || !elsewhere.ok())
      return Failed("open", above, path.starts_with('/') ? errno : EINVAL);
    parent = elsewhere.get();
  }
  const std::string name(NameOf(path));
  if (!IsName(name)) return Status(Code::kInvalid, StrCat(Printable(path, 400), " is no name of a file"));
  struct stat info {};
  if (fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return Failed("read", path);
  if (S_ISREG(info.st_mode)) return MoveInFrom(parent, name, info, path, As::kNamed);
  if (!S_ISDIR(info.st_mode)) return Refused(path, info.st_mode);
  const Fd fd = OpenOwnDirectory(parent, name.c_str());
  if (!fd.ok()) return Failed("read", path);
  Result<Object> object = TakeTree(fd.get(), path, true);
  if (object.ok()) (void)RemoveAll(parent, name, path);
  return object;
}

Result<Object> LocalStore::MoveInFrom(int parent, const std::string& name, const struct stat& info,
                                      const std::string& shown, As as) {
  Fd fd = OpenAt(parent, name.c_str(), kOpenFile | O_NOFOLLOW);
  if (!fd.ok() && errno == EACCES) {
    MakeUsable(parent, name.c_str(), 0600 | (info.st_mode & 0777));
    fd = OpenAt(parent, name.c_str(), kOpenFile | O_NOFOLLOW);
  }
  struct stat now {};
  if (!fd.ok() || fstat(fd.get(), &now) != 0) return Failed("read", shown);
  if (!S_ISREG(now.st_mode) || now.st_ino != info.st_ino) return ChangedMeanwhile(shown);
  now.st_mode = info.st_mode;

  RoomTaken room(this);
  const auto copy = [&]() -> Result<Object> {
    room.GiveBack();
    Result<Object> object = CopyInFrom(fd.get(), now, shown, as);
    if (object.ok() && as == As::kNamed) unlinkat(parent, name.c_str(), 0);
    return object;
  };
  if (now.st_nlink != 1 || now.st_dev != device_ || now.st_uid != geteuid()) return copy();
  HARROW_RETURN_IF_ERROR(room.Take(ChargeOf(now.st_size), false, shown));
  const auto restore = [&] {
    const struct timespec times[2] = {now.st_atim, now.st_mtim};
    (void)futimens(fd.get(), times);
    (void)fchmod(fd.get(), now.st_mode & 07777);
  };
  if (!Seal(fd.get(), KindOf(now) == Kind::kProgram)) {
    restore();
    return copy();
  }
  Hasher hasher;
  const Copied read = ReadThrough(fd.get(), 0, &hasher, -1);
  struct stat after {};
  if (!read.ok() || fstat(fd.get(), &after) != 0 || (options_.durable && fsync(fd.get()) != 0)) {
    const int error = read.ok() ? errno : read.read_error;
    restore();
    return Failed("read", shown, error, root_.get());
  }
  if (!HasObjectTime(after) || after.st_size != now.st_size || read.bytes != now.st_size ||
      after.st_nlink != 1) {
    return ChangedMeanwhile(shown);  // its time is its writer's already
  }
  Taken taken;
  taken.object = {hasher.Id(KindOf(now)), read.bytes};
  taken.length = read.bytes;
  taken.inode = after.st_ino;
  taken.charge = room.charge();
  int failed = 0;
  const Result<bool> adopted = Adopt(taken, as, nullptr, [&](int directory, const char* to) {
    // A directory's files stay in it, too, until all of them are here.
    const int done = as == As::kNamed ? renameat(parent, name.c_str(), directory, to)
                                      : linkat(parent, name.c_str(), directory, to, 0);
    return failed = done == 0 ? 0 : errno;
  });
  if (!adopted.ok()) {
    restore();
    return NeverWorks(failed) || failed == EMLINK ? copy() : Result<Object>(adopted.status());
  }
  if (*adopted) {
    room.Keep();
  } else if (as == As::kNamed) {
    unlinkat(parent, name.c_str(), 0);
  }
  return taken.object;
}

Result<Object> LocalStore::TakeTree(int root, const std::string& shown, bool move) {
  Pins pins(this);
  std::vector<Entry> entries;
  const Status walked = WalkTree(root, shown, move, [&](const Found& found) -> Status {
    Entry entry;
    entry.path = found.path;
    const std::string path = StrCat(shown, "/", found.path);
    if (!IsPath(found.path))
      return Status(Code::kInvalid, StrCat(Printable(path, 400), ": a name of over 255 bytes"));
    if (S_ISDIR(found.info.st_mode)) {
      entry.type = Entry::Type::kDirectory;
    } else if (S_ISLNK(found.info.st_mode)) {
      entry.type = Entry::Type::kLink;
      entry.target.resize(kLongestTarget + 1);
      const ssize_t size =
          readlinkat(found.directory, found.name.c_str(), entry.target.data(), entry.target.size());
      if (size <= 0 || static_cast<size_t>(size) > kLongestTarget)
        return Failed("read link", path, size < 0 ? errno : EINVAL);
      entry.target.resize(static_cast<size_t>(size));
    } else if (S_ISREG(found.info.st_mode)) {
      Result<Object> object = Status();
      if (move) {
        object = MoveInFrom(found.directory, found.name, found.info, path, As::kPart);
      } else {
        const Fd fd = OpenAt(found.directory, found.name.c_str(), kOpenFile | O_NOFOLLOW);
        struct stat info {};
        if (!fd.ok() || fstat(fd.get(), &info) != 0) return Failed("read", path);
        if (!S_ISREG(info.st_mode)) return Refused(path, info.st_mode);
        object = CopyInFrom(fd.get(), info, path, As::kPart);
      }
      if (!object.ok()) return object.status();
      pins.Add(object->id);
      entry.id = object->id;
      entry.bytes = object->bytes;
    } else {
      return Refused(path, found.info.st_mode);
    }
    entries.push_back(std::move(entry));
    return {};
  });
  if (!walked.ok()) return walked;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.path < b.path; });
  return TakeListing(entries, shown);
}

Result<Object> LocalStore::TakeListing(const std::vector<Entry>& entries, const std::string& shown) {
  const std::string bytes = WriteListing(entries);
  if (bytes.size() > kLargestListing) {
    return Status(Code::kInvalid,
                  StrCat(Printable(shown, 400), " has too many files: their names take ",
                         FormatBytes(bytes.size()), ", of at most ", FormatBytes(kLargestListing)));
  }
  const int64_t length = static_cast<int64_t>(bytes.size());
  Temporary file(this);
  HARROW_RETURN_IF_ERROR(file.Make(ChargeOf(length), shown));
  if (!WriteAt(file.fd(), 0, bytes)) return Failed("take into the store", shown, errno, root_.get());
  return AdoptTemporary(&file, IdOf(bytes, Kind::kDirectory), length,
                        std::make_shared<const std::vector<Entry>>(entries), As::kNamed);
}

}  // namespace harrow::store
