// Objects in sandboxes. A reflink is best, as what a task does to it stays its own; ext4 and tmpfs have none,
// so hard links are what mostly is; a copy is what always works. What a disk cannot is found out once.
#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

#include "base/text.h"
#include "store/local_store_internal.h"

namespace harrow::store {

Result<std::string> LocalStore::BelowSandboxes(const std::string& path) const {
  const std::string top = StrCat(directory_, "/sandboxes/");
  std::string below;
  std::string_view rest = path;
  if (path.starts_with(top)) rest.remove_prefix(top.size());
  while (!rest.empty()) {
    const size_t slash = rest.find('/');
    const std::string_view name = rest.substr(0, slash);
    rest.remove_prefix(slash == rest.npos ? rest.size() : slash + 1);
    if (name.empty() || name == ".") continue;
    if (!below.empty()) below += '/';
    below += name;
  }
  if (path.starts_with(top) && IsPath(below)) return below;
  return Status(Code::kInvalid,
                StrCat(Printable(path, 400), " does not lie below a sandbox (", top, "NAME)"));
}

Status LocalStore::Place(const ObjectId& id, std::string_view inside, const std::string& path) {
  const Result<std::string> below = BelowSandboxes(path);
  if (!below.ok()) return below.status();
  const std::string sandbox = below->substr(0, below->find('/'));
  if (sandbox == *below && (id.kind != Kind::kDirectory)) {
    return Status(Code::kInvalid, StrCat(Printable(path, 400), " is a sandbox, not a name in one"));
  }
  struct stat info {};
  if (fstatat(sandboxes_.get(), sandbox.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return Failed("use sandbox", path);
  Descent descent(sandboxes_.get(), StrCat(directory_, "/sandboxes"), Descent::Make::kYes);
  Pins pins(this);
  if (!pins.Take(id)) return NotHere(id);
  const auto place = [&](const ObjectId& file, const std::string& to) -> Status {
    const Result<int> parent = descent.To(ParentOf(to));
    return parent.ok() ? PlaceFile(file, *parent, std::string(NameOf(to)), path) : parent.status();
  };
  if (id.kind != Kind::kDirectory) {
    if (inside.empty()) return place(id, *below);
    return Status(Code::kInvalid, StrCat(id.Text(), " is a file, and has no ", Printable(inside), " in it"));
  }

  const Result<Entries> entries = ListingOf(id);
  if (!entries.ok()) return entries.status();
  const auto by_path = [](const Entry& entry, std::string_view wanted) { return entry.path < wanted; };
  auto from = (*entries)->begin(), to = (*entries)->end();
  size_t cut = 0;
  const auto place_entry = [&](const Entry& entry, const std::string& at) -> Status {
    if (entry.type == Entry::Type::kDirectory) return descent.To(at).status();
    if (entry.type == Entry::Type::kFile) return place(entry.id, at);
    const Result<int> parent = descent.To(ParentOf(at));
    if (!parent.ok()) return parent.status();
    return PlaceLink(entry.target, *parent, std::string(NameOf(at)), StrCat(directory_, "/sandboxes/", at),
                     root_.get());
  };
  if (!inside.empty()) {
    const auto found = std::lower_bound(from, to, inside, by_path);
    if (found == to || found->path != inside) {
      return Status(Code::kNotFound,
                    StrCat("there is no ", Printable(inside), " in the directory ", id.Text()));
    }
    if (found->type != Entry::Type::kDirectory) return place_entry(*found, *below);
    cut = inside.size() + 1;
    from = std::lower_bound(from, to, StrCat(inside, "/"), by_path);
    to = std::lower_bound(from, to, StrCat(inside, "0"), by_path);  // '0' comes after '/'
  }
  HARROW_RETURN_IF_ERROR(descent.To(*below).status());
  for (; from != to; ++from) {
    HARROW_RETURN_IF_ERROR(place_entry(*from, StrCat(*below, "/", std::string_view(from->path).substr(cut))));
  }
  return {};
}

Status PlaceLink(const std::string& target, int parent, const std::string& name, const std::string& shown,
                 int disk) {
  if (symlinkat(target.c_str(), parent, name.c_str()) == 0) return {};
  const int error = errno;
  std::string there(kLongestTarget + 1, '\0');
  const ssize_t size = readlinkat(parent, name.c_str(), there.data(), there.size());
  if (error == EEXIST && size >= 0 && there.substr(0, static_cast<size_t>(size)) == target) return {};
  return Failed("place", shown, error, disk);
}

/// Is it the very same that is there?
bool PlacedBefore(const ObjectId& id, uint64_t inode, int parent, const std::string& name) {
  const Fd fd = OpenAt(parent, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat info {};
  if (!fd.ok() || fstat(fd.get(), &info) != 0) return false;
  if (info.st_ino == inode) return true;
  const mode_t mode = id.kind == Kind::kProgram ? 0555 : 0444;
  if (!S_ISREG(info.st_mode) || !HasObjectTime(info) || (info.st_mode & 07777) != mode) return false;
  Hasher hasher;
  return ReadThrough(fd.get(), 0, &hasher, -1).ok() && hasher.Id(id.kind) == id;
}

Status LocalStore::PlaceFile(const ObjectId& id, int parent, const std::string& name,
                             const std::string& shown) {
  int failed = 0;
  const Status status = At(id, [&](int folder, const char* object, const Seen& seen) {
    struct stat info {};
    failed = 0;
    if (fstatat(folder, object, &info, AT_SYMLINK_NOFOLLOW) != 0) return errno;
    if (!Same(seen, info)) return kNotTheSame;
    failed = PlaceOne(folder, object, seen, id.kind == Kind::kProgram, parent, name);
    if (failed != EEXIST) return failed;
    if (PlacedBefore(id, seen.inode, parent, name)) failed = 0;
    return failed;
  });
  if (status.ok() || failed == 0 || status.code() == Code::kDamaged) return status;
  return Failed("place", StrCat(shown, " (", name, ")"), failed, root_.get());
}

int LocalStore::PlaceOne(int folder, const char* object, const Seen& seen, bool program, int parent,
                         const std::string& name) {
  if (way_ == Way::kClone) {
    const Fd from = OpenAt(folder, object, O_RDONLY | O_NOFOLLOW);
    const int error = from.ok() ? CopyOne(from.get(), program, parent, name, seen.length, true) : errno;
    if (!NeverWorks(error)) return error;
    Way expected = Way::kClone;
    way_.compare_exchange_strong(expected, Way::kLink);
  }
  if (way_ == Way::kLink) {
    if (linkat(folder, object, parent, name.c_str(), 0) == 0) return 0;
    const int error = errno;
    if (error != EMLINK && !NeverWorks(error)) return error;
    if (error != EMLINK) way_ = Way::kCopy;
  }
  const Fd from = OpenAt(folder, object, O_RDONLY | O_NOFOLLOW);
  return from.ok() ? CopyOne(from.get(), program, parent, name, seen.length, false) : errno;
}

int LocalStore::CopyOne(int from, bool program, int parent, const std::string& name, int64_t bytes,
                        bool clone) {
  const Fd to = OpenAt(parent, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!to.ok()) return errno;
  int error = 0;
  if (clone) {
    error = Clone(from, to.get());
  } else {
    const Copied copied = CopyWhole(from, to.get(), bytes);
    error = copied.write_error != 0 ? copied.write_error : copied.read_error;
    if (copied.ok() && copied.bytes != bytes) error = EIO;
  }
  if (error == 0 && !Seal(to.get(), program)) error = errno;
  if (error != 0) unlinkat(parent, name.c_str(), 0);
  return error;
}

}  // namespace harrow::store
