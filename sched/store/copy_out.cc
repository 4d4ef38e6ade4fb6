// Objects to wherever the user wants them. Every file is written under a temporary name beside its own,
// synced, and renamed; then the directories are synced that got names.
//
// Of a directory with many entries all are written, then the file system is synced once, then all are
// renamed, and it is synced once more. The first syncfs brings contents and inodes to the disk, so that no
// name ever leads to less than its content; the second one all names, those of new directories and the one
// of the result itself included, as they are of the same file system. This is so where the kernel's own file
// systems write what is dirty and commit their journal, and with NFS, whose names are durable when the server
// has answered. Others (FUSE, which hands no syncfs on; Lustre, whose servers commit later) get a sync a
// file.
#include <algorithm>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <tuple>
#include <unistd.h>

#include "base/text.h"
#include "os/random.h"
#include "store/local_store_internal.h"

namespace harrow::store {
namespace {

constexpr size_t kManyEntries = 16;

std::string TemporaryName() {
  return StrCat(".harrow-", os::UniqueNumber(), ".tmp");
}

/// Some file systems know no sync of a directory.
bool SyncDirectory(int directory) {
  const Fd fd = OpenAt(directory, ".", O_RDONLY | O_DIRECTORY);
  return fd.ok() && (fsync(fd.get()) == 0 || errno == EINVAL || errno == ENOSYS || errno == ENOTSUP);
}

/// The names of directories that were made.
Status SyncNewDirectories(const std::vector<std::string>& made) {
  for (const std::string& path : made) {
    const std::string above(ParentOf(path));
    const Fd parent = OpenAt(AT_FDCWD, above.empty() ? "/" : above.c_str(), O_RDONLY | O_DIRECTORY);
    if (!parent.ok() || !SyncDirectory(parent.get())) return Failed("sync", above);
  }
  return {};
}

}  // namespace

bool SyncfsSuffices(long type) {
  constexpr unsigned long kXfs = 0x58465342;
  switch (static_cast<unsigned long>(type) & 0xffffffff) {
    case EXT4_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case NFS_SUPER_MAGIC:
    case kXfs:
      return true;
    default:
      return false;
  }
}

class LocalStore::Copier {
 public:
  Copier(LocalStore* store, int root, std::string shown, uint32_t umask, const CopyWatch& watch)
      : store_(store),
        umask_(umask),
        shown_(shown),
        watch_(watch),
        descent_(root, shown, Descent::Make::kYes) {
    descent_.made = [this](int parent, const std::string& name) {
      std::ignore = fchmodat(parent, name.c_str(), 0777 & ~umask_, 0);
    };
  }
  ~Copier() {
    for (const Pending& pending : pending_) {
      if (const Result<int> at = descent_.To(pending.directory); at.ok())
        unlinkat(*at, pending.temporary.c_str(), 0);
    }
  }
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  Status Directory(const std::string& path) {
    directories_.emplace_back(ParentOf(path));
    return descent_.To(path).status();
  }
  Status File(const ObjectId& id, const std::string& path, bool sync) {
    int64_t length = 0;
    const Result<Fd> from = store_->OpenObject(id, &length);
    if (!from.ok()) return from.status();
    const Result<int> at = descent_.To(ParentOf(path));
    if (!at.ok()) return at.status();
    std::string temporary = NewTemporary(path);
    const Fd to = OpenAt(*at, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (!to.ok()) return Failed("write", Shown(path), errno, *at);
    Add(path, std::move(temporary));
    const Copied copied = CopyWhole(from->get(), to.get(), length);
    if (copied.read_error != 0) return Failed("read", id.Text(), copied.read_error);
    if (copied.write_error != 0) return Failed("write", Shown(path), copied.write_error, to.get());
    struct stat after {};
    if (copied.bytes != length || fstat(from->get(), &after) != 0 || !HasObjectTime(after)) {
      return Status(Code::kDamaged,
                    StrCat("the store's ", id.Text(), " was changed while it was copied to ", Shown(path)));
    }
    const mode_t mode = id.kind == Kind::kProgram ? 0777 : 0666;
    if (fchmod(to.get(), mode & ~umask_) != 0 || (sync && fdatasync(to.get()) != 0)) {
      return Failed("write", Shown(path), errno, to.get());
    }
    return {};
  }
  Status Link(const std::string& target, const std::string& path) {
    const Result<int> at = descent_.To(ParentOf(path));
    if (!at.ok()) return at.status();
    std::string temporary = NewTemporary(path);
    if (symlinkat(target.c_str(), *at, temporary.c_str()) != 0)
      return Failed("write", Shown(path), errno, *at);
    Add(path, std::move(temporary));
    return {};
  }
  /// All that was written gets its name.
  Status Rename() {
    while (!pending_.empty()) {
      const Pending& last = pending_.back();
      const Result<int> at = descent_.To(last.directory);
      if (!at.ok()) return at.status();
      if (watch_.may_name) HARROW_RETURN_IF_ERROR(watch_.may_name());
      if (renameat(*at, last.temporary.c_str(), *at, last.name.c_str()) != 0) {
        const std::string path = last.directory.empty() ? last.name : StrCat(last.directory, "/", last.name);
        if (errno != EISDIR && errno != ENOTEMPTY && errno != EEXIST)
          return Failed("write", Shown(path), errno, *at);
        return Status(Code::kExists, StrCat(Shown(path), " is a directory, and a file has to be there"));
      }
      pending_.pop_back();
    }
    return {};
  }
  Status SyncDirectories() {
    std::sort(directories_.begin(), directories_.end());
    directories_.erase(std::unique(directories_.begin(), directories_.end()), directories_.end());
    for (const std::string& directory : directories_) {
      const Result<int> at = descent_.To(directory);
      if (!at.ok()) return at.status();
      if (!SyncDirectory(*at)) return Failed("sync", Shown(directory));
    }
    return {};
  }

 private:
  struct Pending {
    std::string directory, temporary, name;
  };
  std::string Shown(const std::string& path) const { return Printable(StrCat(shown_, "/", path), 400); }
  std::string NewTemporary(const std::string& path) const {
    std::string name = TemporaryName();
    const std::string_view parent = ParentOf(path);
    if (watch_.temporary) watch_.temporary(StrCat(shown_, "/", parent, parent.empty() ? "" : "/", name));
    return name;
  }
  void Add(const std::string& path, std::string temporary) {
    directories_.emplace_back(ParentOf(path));
    pending_.push_back({std::string(ParentOf(path)), std::move(temporary), std::string(NameOf(path))});
  }

  LocalStore* const store_;
  const mode_t umask_;
  const std::string shown_;
  const CopyWatch& watch_;
  Descent descent_;
  std::vector<Pending> pending_;
  std::vector<std::string> directories_;
};

Status LocalStore::CopyOut(const ObjectId& id, const std::string& path, uint32_t umask,
                           const CopyWatch& watch) {
  const std::string name(NameOf(path));
  if (!path.starts_with('/') || !IsName(name)) {
    return Status(Code::kInvalid, StrCat(Printable(path, 400), " is no absolute path of a file"));
  }
  Pins pins(this);
  if (!Has(id) || !pins.Take(id)) return NotHere(id);
  const std::string above(ParentOf(path));
  const mode_t directory_mode = 0777 & ~umask;
  std::vector<std::string> made;
  for (size_t slash = above.find('/', 1); !above.empty(); slash = above.find('/', slash + 1)) {
    const std::string part = above.substr(0, slash);
    if (mkdir(part.c_str(), directory_mode) == 0) {
      made.push_back(part);
    } else if (errno != EEXIST && access(part.c_str(), F_OK) != 0) {
      return Failed("make directory", part);
    }
    if (slash == above.npos) break;
  }
  const Fd parent = OpenAt(AT_FDCWD, above.empty() ? "/" : above.c_str(), O_RDONLY | O_DIRECTORY);
  if (!parent.ok()) return Failed("open", above);
  if (id.kind != Kind::kDirectory) {
    Copier copier(this, parent.get(), above, umask, watch);
    HARROW_RETURN_IF_ERROR(copier.File(id, name, true));
    HARROW_RETURN_IF_ERROR(copier.Rename());
    HARROW_RETURN_IF_ERROR(copier.SyncDirectories());
    return SyncNewDirectories(made);
  }

  const Result<Entries> entries = ListingOf(id);
  if (!entries.ok()) return entries.status();
  if (mkdirat(parent.get(), name.c_str(), directory_mode) == 0) {
    std::ignore = fchmodat(parent.get(), name.c_str(), directory_mode, 0);
  } else if (errno != EEXIST) {
    return Failed("make directory", path, errno, parent.get());
  }
  const Fd root = OpenAt(parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY);
  if (!root.ok() && errno == ENOTDIR) {
    return Status(Code::kExists, StrCat(Printable(path, 400), " is there, and is no directory"));
  }
  if (!root.ok()) return Failed("open", path);
  struct statfs disk {};
  const bool one_by_one =
      (*entries)->size() <= kManyEntries || fstatfs(root.get(), &disk) != 0 || !SyncfsSuffices(disk.f_type);
  Copier copier(this, root.get(), path, umask, watch);
  for (const Entry& entry : **entries) {
    const Status status = entry.type == Entry::Type::kDirectory ? copier.Directory(entry.path)
                          : entry.type == Entry::Type::kFile ? copier.File(entry.id, entry.path, one_by_one)
                                                             : copier.Link(entry.target, entry.path);
    HARROW_RETURN_IF_ERROR(status);
  }
  if (!one_by_one && syncfs(root.get()) != 0) return Failed("sync", path, errno, root.get());
  HARROW_RETURN_IF_ERROR(copier.Rename());
  if (!one_by_one) return syncfs(root.get()) == 0 ? Status() : Failed("sync", path);
  HARROW_RETURN_IF_ERROR(copier.SyncDirectories());
  if (!SyncDirectory(root.get()) || !SyncDirectory(parent.get())) return Failed("sync", path);
  return SyncNewDirectories(made);
}

}  // namespace harrow::store
