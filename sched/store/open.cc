// Opening a store that a former process left (store_format.md): which of its objects are trusted, and what
// of the rest is removed.
#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/text.h"
#include "store/local_store_internal.h"

namespace harrow::store {
namespace {

constexpr int kFormat = 1;
constexpr const char* kOwner = "held-by";

std::string BootId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id.empty() ? "unknown" : id;
}

std::string OwnerText(bool durable) {
  return StrCat("harrow store ", kFormat, " ", BootId(), " sync=", durable ? 1 : 0, "\n");
}

/// Both kinds of text are of this format, and what was written by the one can be trusted now.
bool Trusted(const std::string& text) {
  if (text == OwnerText(false) || text == OwnerText(true)) return true;
  return text.starts_with(StrCat("harrow store ", kFormat, " ")) && text.ends_with(" sync=1\n");
}

}  // namespace

Result<std::unique_ptr<Store>> Store::Open(const std::string& directory, const Options& options) {
  std::string path = directory;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (!path.starts_with('/') || path == "/") {
    return Status(Code::kInvalid,
                  StrCat(Printable(path), " is no place for a store: an absolute path is needed"));
  }
  auto store = std::make_unique<LocalStore>(std::move(path), options);
  HARROW_RETURN_IF_ERROR(store->Start());
  return std::unique_ptr<Store>(std::move(store));
}

Status LocalStore::Start() {
  HARROW_RETURN_IF_ERROR(OpenRoot());
  bool trusted = false;
  HARROW_RETURN_IF_ERROR(TakeOwner(&trusted));
  for (const char* name : {"arriving", "sandboxes", "objects", "parts"}) {
    const bool keep = trusted && (std::strcmp(name, "objects") == 0 || std::strcmp(name, "parts") == 0);
    if (!keep) HARROW_RETURN_IF_ERROR(RemoveAll(root_.get(), name, StrCat(directory_, "/", name)));
    if (mkdirat(root_.get(), name, 0700) != 0 && errno != EEXIST) {
      return Failed("make directory", StrCat(directory_, "/", name), errno, root_.get());
    }
  }
  // Was it not durable until now, its objects become so here.
  if (options_.durable && syncfs(root_.get()) != 0) return Failed("sync", directory_);
  HARROW_RETURN_IF_ERROR(WriteOwner());
  for (const auto& [fd, name] : {std::pair{&objects_, "objects"}, std::pair{&parts_, "parts"},
                                 std::pair{&arriving_, "arriving"}, std::pair{&sandboxes_, "sandboxes"}}) {
    *fd = OpenAt(root_.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!fd->ok()) return Failed("open", StrCat(directory_, "/", name));
  }
  struct statvfs disk {};
  if (fstatvfs(root_.get(), &disk) == 0 && disk.f_frsize > 0) block_ = disk.f_frsize;
  struct stat info {};
  if (fstat(root_.get(), &info) == 0) device_ = info.st_dev;
  std::vector<std::pair<ObjectId, Row>> listings;
  ScanFolder(true, &listings);
  ScanFolder(false, &listings);
  for (const auto& [id, row] : listings) {
    if (table_.Find(id) == nullptr || table_.Find(id)->state != Row::State::kWhole) table_.Settled(id, row);
  }
  Table::Removals removals;
  for (const auto& [id, row] : listings) {  // some of its files never came, or went
    if (!table_.Complete(id)) table_.Unname(id, &removals);
  }
  for (const ObjectId& id : table_.Orphans()) table_.Unname(id, &removals);
  Carry(removals);
  return {};
}

Status LocalStore::OpenRoot() {
  for (size_t slash = directory_.find('/', 1);; slash = directory_.find('/', slash + 1)) {
    const std::string part = directory_.substr(0, slash);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && access(part.c_str(), F_OK) != 0) {
      return Failed("make directory", part);
    }
    if (slash == directory_.npos) break;
  }
  root_ = OpenAt(AT_FDCWD, directory_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  struct stat info {};
  if (!root_.ok()) {
    const int error = errno;
    if (lstat(directory_.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
      return Status(Code::kPermission, StrCat(Printable(directory_, 400),
                                              " is a symbolic link; a store's directory must not be one"));
    }
    return Failed("open", directory_, error);
  }
  if (fstat(root_.get(), &info) != 0) return Failed("look at", directory_);
  if (info.st_uid != geteuid()) {
    return Status(Code::kPermission, StrCat(Printable(directory_, 400), " belongs to user ", info.st_uid,
                                            ", not to you (", geteuid(), ")"));
  }
  if ((info.st_mode & 077) != 0) {
    return Status(Code::kPermission, StrCat(Printable(directory_, 400),
                                            " is open to others; a store's directory must have mode 0700"));
  }
  return {};
}

Status LocalStore::TakeOwner(bool* trusted) {
  std::vector<Listed> there;
  if (const int error = List(root_.get(), &there); error != 0) return Failed("read", directory_, error);
  const bool known =
      std::any_of(there.begin(), there.end(), [](const Listed& l) { return l.name == kOwner; });
  if (!known && !there.empty()) {
    return Status(Code::kInvalid,
                  StrCat(Printable(directory_, 400), " holds other things (", Printable(there.front().name),
                         ") and is no store; name a directory that is empty or new"));
  }
  const std::string path = StrCat(directory_, "/", kOwner);
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    owner_ = OpenAt(root_.get(), kOwner, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (!owner_.ok()) return Failed("open", path, errno, root_.get());
    if (flock(owner_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return Failed("lock", path);
      return Status(Code::kUnavailable, StrCat("the store ", Printable(directory_, 400),
                                               " is in use by another process on this node"));
    }
    // The owner before may just have removed it with the store.
    struct stat mine {
    }, there_now{};
    if (fstat(owner_.get(), &mine) != 0) return Failed("look at", path);
    if (fstatat(root_.get(), kOwner, &there_now, AT_SYMLINK_NOFOLLOW) == 0 &&
        mine.st_ino == there_now.st_ino) {
      const Result<std::string> text = ReadAll(owner_.get(), path, 4096);
      if (!text.ok()) return text.status();
      *trusted = Trusted(*text);
      return {};
    }
  }
  return Status(Code::kUnavailable,
                StrCat("the store ", Printable(directory_, 400), " is just being removed"));
}

Status LocalStore::WriteOwner() {
  const std::string text = OwnerText(options_.durable);
  const bool done = ftruncate(owner_.get(), 0) == 0 && WriteAt(owner_.get(), 0, text) &&
                    (!options_.durable || (fsync(owner_.get()) == 0 && fsync(root_.get()) == 0));
  return done ? Status() : Failed("write", StrCat(directory_, "/", kOwner), errno, root_.get());
}

void LocalStore::ScanFolder(bool in_objects, std::vector<std::pair<ObjectId, Row>>* listings) {
  const std::string folder = StrCat(directory_, in_objects ? "/objects" : "/parts");
  std::vector<Listed> shards, names;
  List(FolderOf(in_objects), &shards);
  for (const Listed& shard : shards) {
    const Fd fd = OpenAt(FolderOf(in_objects), shard.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    names.clear();
    if (!fd.ok() || List(fd.get(), &names) != 0) {
      (void)RemoveAll(FolderOf(in_objects), shard.name, folder);
      continue;
    }
    for (const Listed& listed : names) {
      const std::optional<ObjectId> id = ObjectId::FromText(listed.name);
      struct stat info {};
      bool good = id && listed.name.starts_with(shard.name) &&
                  fstatat(fd.get(), listed.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                  S_ISREG(info.st_mode) && info.st_uid == geteuid() && HasObjectTime(info) &&
                  table_.Find(*id) == nullptr;
      Row row;
      row.named = row.in_objects = in_objects;
      row.length = row.bytes = info.st_size;
      row.inode = info.st_ino;
      row.charge = ChargeOf(info.st_size);
      if (good && id->kind == Kind::kDirectory) {
        const Fd listing = OpenAt(fd.get(), listed.name.c_str(), O_RDONLY | O_NOFOLLOW);
        const Result<std::string> bytes = ReadAll(listing.get(), folder, kLargestListing + 1);
        good = bytes.ok() && IdOf(*bytes, Kind::kDirectory) == *id;
        const Result<std::vector<Entry>> entries = ReadListing(good ? std::string_view(*bytes) : "");
        good = good && entries.ok();
        if (good) {
          row.bytes = BytesOf(*entries);
          row.parts = std::make_shared<const std::vector<Object>>(FilesOf(*entries));
          listings->emplace_back(*id, std::move(row));
        }
      } else if (good) {
        table_.Settled(*id, row);
      }
      if (!good) (void)RemoveAll(fd.get(), listed.name, folder);
    }
  }
}

void LocalStore::Erase() {
  std::vector<std::shared_ptr<Half>> halves;
  {
    const auto lock = Lock();
    for (const auto& [id, half] : halves_) halves.push_back(half);
  }
  for (const std::shared_ptr<Half>& half : halves) EndHalf(half, true);
  for (const char* name : {"arriving", "sandboxes", "parts", "objects"}) {
    (void)RemoveAll(root_.get(), name, StrCat(directory_, "/", name));
  }
  (void)RemoveContents(root_.get(), directory_);
  rmdir(directory_.c_str());
  const auto lock = Lock();
  table_ = Table();
  listings_.clear();
}

}  // namespace harrow::store
