// Threads and names. A content gets or loses its name on disk by one thread at a time: its row is *settling*
// meanwhile, and who wants to name the same content waits. So disk and table never disagree, though the lock
// is not held while the disk works. An object's file moves between objects/ (asked for by itself) and parts/
// (held by directory objects only) under the lock; who opens it by name without the lock, and finds it gone,
// looks in the table again.
//
// Calls that need objects for longer pin them. What nothing keeps (name, directory object, pin) comes out of
// the table as a removal and is unlinked.
#include "store/local_store.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <tuple>
#include <unistd.h>

#include "base/text.h"
#include "store/local_store_internal.h"

namespace harrow::store {

LocalStore::~LocalStore() {
  std::vector<std::shared_ptr<Half>> halves;
  {
    const auto lock = Lock();
    for (const auto& [id, half] : halves_) halves.push_back(half);
  }
  for (const std::shared_ptr<Half>& half : halves) EndHalf(half, true);
}

std::string ObjectPath(const ObjectId& id) {
  const std::string name = id.Text();
  return StrCat(name.substr(0, 2), "/", name);
}

Row* LocalStore::Settle(std::unique_lock<std::mutex>& lock, const ObjectId& id) {
  settled_.wait(lock, [&] {
    const Row* row = table_.Find(id);
    return row == nullptr || row->state != Row::State::kSettling;
  });
  return table_.Find(id);
}

uint64_t LocalStore::ChargeOf(int64_t bytes) const {
  return (static_cast<uint64_t>(bytes) + block_ - 1) / block_ * block_;
}

Status LocalStore::TakeRoom(uint64_t charge, bool of_disk, std::string_view shown) {
  for (;;) {
    struct statvfs disk {};
    const bool asked = of_disk && fstatvfs(root_.get(), &disk) == 0;
    const uint64_t free = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
    std::string why;
    std::shared_ptr<Half> idle;
    Table::Removals removals;
    bool gave_up = false;
    {
      const auto lock = Lock();
      const uint64_t used = table_.used() + taken_;
      const uint64_t limit = Limit(), others = options_.limit - limit;
      if (options_.limit != 0 && (used > limit || charge > limit - used)) {
        why = StrCat("it holds ", FormatBytes(used),
                     others > 0 ? StrCat(", and others ", FormatBytes(others), ",") : "", " of the ",
                     FormatBytes(options_.limit), others > 0 ? " that they may" : " that it may");
      } else if (asked && (free < options_.spare || charge > free - options_.spare)) {
        why = StrCat("it holds ", FormatBytes(used), ", and of the disk ", FormatBytes(free),
                     " are free, of which ", FormatBytes(options_.spare), " are left to others");
      } else {
        taken_ += charge;
        return {};
      }
      if (options_.limit == 0 || charge <= options_.limit) idle = DetachIdle();
      // All of them or none.
      const uint64_t needed = used - std::min(used, table_.spare()) + charge;
      const bool enough = (options_.limit == 0 || needed <= limit) &&
                          (!asked || options_.spare + charge <= free + table_.spare());
      if (idle == nullptr && enough) gave_up = table_.GiveUpSpare(&removals);
    }
    if (gave_up) {
      Carry(removals);
      continue;
    }
    if (idle == nullptr) {
      return Status(Code::kExhausted, StrCat("no room for ", Printable(shown, 400), " (", FormatBytes(charge),
                                             ") in the store ", directory_, ": ", why));
    }
    idle->End(true);
  }
}

void LocalStore::GiveRoom(uint64_t charge) {
  const auto lock = Lock();
  taken_ -= charge;
}

Store::Room LocalStore::room() const {
  struct statvfs disk {};
  uint64_t free = UINT64_MAX / 2;
  if (fstatvfs(root_.get(), &disk) == 0) free = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  const auto lock = Lock();
  Room room;
  room.used = table_.used() - table_.spare() + taken_;
  room.limit = room.used + table_.spare() + (free > options_.spare ? free - options_.spare : 0);
  if (options_.limit != 0) room.limit = std::min(room.limit, Limit());
  room.objects = table_.whole();
  return room;
}

Result<bool> LocalStore::Adopt(const Taken& taken, As as, const Half* half, const Put& put) {
  const ObjectId& id = taken.object.id;
  const bool pinned = as == As::kPart && half == nullptr;
  bool named = as == As::kNamed;
  {
    auto lock = Lock();
    const Row* row = Settle(lock, id);
    if (half != nullptr) {
      const auto it = halves_.find(id);
      if (it == halves_.end() || it->second.get() != half) return Dropped(id);
      named = half->named;
    }
    if (row != nullptr && row->state == Row::State::kWhole) {
      if (named) Promote(id, table_.Find(id));
      if (pinned) table_.Pin(id);
      return false;
    }
    if (half != nullptr && !named && (row == nullptr || row->users == 0)) {
      return Status(Code::kNotFound, StrCat("no directory that is here holds ", id.Text(), " any more"));
    }
    table_.BeginSettling(id);
    if (pinned) table_.Pin(id);
  }
  const std::string name = ObjectPath(id);
  const int folder = FolderOf(named);
  int error = put(folder, name.c_str());
  if (error == ENOENT && (mkdirat(folder, name.substr(0, 2).c_str(), 0700) == 0 || errno == EEXIST)) {
    error = put(folder, name.c_str());
  } else if (error == ENOENT && (errno == ENOSPC || errno == EDQUOT)) {
    error = errno;
  }
  if (error == EEXIST) {  // not ours: the table knows all that are
    unlinkat(folder, name.c_str(), 0);
    error = put(folder, name.c_str());
  }
  if (error == 0 && options_.durable) {
    const Fd fd = OpenAt(folder, name.substr(0, 2).c_str(), O_RDONLY | O_DIRECTORY);
    if (!fd.ok() || fsync(fd.get()) != 0 || fsync(folder) != 0) error = errno;
    if (error != 0) unlinkat(folder, name.c_str(), 0);
  }
  std::shared_ptr<Half> other;
  {
    const auto lock = Lock();
    if (error != 0) {
      table_.Gone(id);
      Table::Removals none;
      if (pinned) table_.Unpin(id, &none);
    } else {
      Row row;
      row.named = named;
      row.in_objects = named;
      row.length = taken.length;
      row.bytes = taken.object.bytes;
      row.inode = taken.inode;
      row.charge = taken.charge;
      row.parts = taken.parts;
      table_.Settled(id, row);
      if (half == nullptr) taken_ -= taken.charge;
      if (half != nullptr) Detach(half, true);  // Drop has waited
      if (half != nullptr && half->named && !named) Promote(id, table_.Find(id));
      if (const auto it = halves_.find(id);
          it != halves_.end() && it->second.get() != half && !it->second->live) {
        other = it->second;
      }
    }
  }
  settled_.notify_all();
  if (other != nullptr) EndHalf(other, true);
  if (error != 0) return Failed("keep in the store", id.Text(), error, root_.get());
  return true;
}

int LocalStore::Rename(const ObjectId& id, bool into_objects) {
  const std::string name = ObjectPath(id);
  const int from = FolderOf(!into_objects), to = FolderOf(into_objects);
  if (renameat(from, name.c_str(), to, name.c_str()) == 0) return 0;
  if (errno != ENOENT) return errno;
  (void)mkdirat(to, name.substr(0, 2).c_str(), 0700);
  return renameat(from, name.c_str(), to, name.c_str()) == 0 ? 0 : errno;
}

void LocalStore::Promote(const ObjectId& id, Row* row) {
  table_.Name(row);
  if (!row->in_objects && Rename(id, true) == 0) row->in_objects = true;
}

void LocalStore::Carry(const Table::Removals& removals) {
  if (removals.empty()) return;
  for (const Table::Removal& removal : removals) {
    unlinkat(FolderOf(removal.in_objects), ObjectPath(removal.id).c_str(), 0);
  }
  {
    const auto lock = Lock();
    for (const Table::Removal& removal : removals) {
      table_.Gone(removal.id);
      std::erase_if(listings_, [&](const auto& listing) { return listing.first == removal.id; });
    }
  }
  settled_.notify_all();
}

void LocalStore::Drop(const ObjectId& id) {
  Table::Removals removals;
  std::shared_ptr<Half> half;
  {
    auto lock = Lock();
    Settle(lock, id);
    if (const auto it = halves_.find(id); it != halves_.end()) {
      half = it->second;
      Detach(half.get());
    }
    table_.Unname(id, &removals);
    Row* row = table_.Find(id);
    if (row != nullptr && row->state == Row::State::kWhole && row->in_objects && Rename(id, false) == 0) {
      row->in_objects = false;
    }
  }
  if (half != nullptr) half->End(true);
  Carry(removals);
}

void LocalStore::Spare(const ObjectId& id) {
  auto lock = Lock();
  Settle(lock, id);
  table_.Spare(id);
}

void LocalStore::SetOthers(uint64_t bytes) {
  others_.store(bytes);
  for (;;) {
    Table::Removals removals;
    {
      const auto lock = Lock();
      if (options_.limit == 0 || table_.used() + taken_ <= Limit() || !table_.GiveUpSpare(&removals)) return;
    }
    Carry(removals);
  }
}

void LocalStore::Spoiled(const ObjectId& id) {
  Table::Removals removals;
  {
    auto lock = Lock();
    table_.Spoiled(id, &removals);
  }
  Carry(removals);
}

void LocalStore::Damaged(const ObjectId& id) {
  Table::Removals removals;
  {
    auto lock = Lock();
    const Row* row = Settle(lock, id);
    const auto parts = row == nullptr ? nullptr : row->parts;
    table_.Spoiled(id, &removals);
    if (parts != nullptr) {
      for (const Object& part : *parts) table_.Spoiled(part.id, &removals);
    }
  }
  Carry(removals);
}

bool LocalStore::Detach(const Half* half, bool renamed) {
  const auto it = halves_.find(half->object().id);
  if (it == halves_.end() || it->second.get() != half) return false;
  taken_ -= half->charge();
  if (!renamed) unlinkat(arriving_.get(), half->name().c_str(), 0);
  halves_.erase(it);
  return true;
}

std::shared_ptr<Half> LocalStore::DetachIdle() {
  std::shared_ptr<Half> idle;
  for (const auto& [id, half] : halves_) {
    if (!half->live && (idle == nullptr || half->left < idle->left)) idle = half;
  }
  if (idle != nullptr) Detach(idle.get());
  return idle;
}

void LocalStore::EndHalf(const std::shared_ptr<Half>& half, bool failed) {
  {
    const auto lock = Lock();
    if (!Detach(half.get())) return;
  }
  half->End(failed);
}

bool LocalStore::Has(const ObjectId& id) const {
  const auto lock = Lock();
  return table_.Complete(id);
}

std::vector<Object> LocalStore::All() const {
  const auto lock = Lock();
  std::vector<Object> all = table_.Named();
  std::erase_if(all, [&](const Object& object) { return !table_.Complete(object.id); });
  return all;
}

Result<std::vector<Object>> LocalStore::MissingOf(const ObjectId& directory) const {
  const auto lock = Lock();
  const Row* row = table_.Find(directory);
  if (!table_.Kept(directory) || row->parts == nullptr) return NotHere(directory);
  std::vector<Object> missing;
  for (const Object& part : *row->parts) {
    const Row* other = table_.Find(part.id);
    if (other == nullptr || other->state != Row::State::kWhole) missing.push_back(part);
  }
  return missing;
}

Status LocalStore::At(const ObjectId& id, const std::function<int(int, const char*, const Seen&)>& use) {
  const std::string name = ObjectPath(id);
  for (;;) {
    Seen seen;
    {
      const auto lock = Lock();
      const Row* row = table_.Find(id);
      if (row == nullptr || row->state != Row::State::kWhole) return NotHere(id);
      seen = {row->in_objects, row->inode, row->length};
    }
    const int folder = FolderOf(seen.in_objects);
    const int error = use(folder, name.c_str(), seen);
    if (error == 0) return {};
    struct stat info {};
    const bool gone = fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
    if (error != kNotTheSame && !gone)
      return Failed("use", StrCat("the store's ", id.Text()), error, root_.get());
    {
      const auto lock = Lock();
      const Row* row = table_.Find(id);
      if (row == nullptr || row->state != Row::State::kWhole) return NotHere(id);
      if (row->in_objects != seen.in_objects || row->inode != seen.inode) continue;
    }
    Spoiled(id);
    return Status(Code::kDamaged,
                  StrCat("the store's ", id.Text(), " was changed since it came, and is dropped"));
  }
}

Result<Fd> LocalStore::OpenObject(const ObjectId& id, int64_t* length) {
  Fd fd;
  const Status status = At(id, [&](int folder, const char* name, const Seen& seen) {
    fd = OpenAt(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct stat info {};
    if (!fd.ok() || fstat(fd.get(), &info) != 0) return errno == ELOOP ? kNotTheSame : errno;
    *length = seen.length;
    return Same(seen, info) ? 0 : kNotTheSame;
  });
  if (!status.ok()) return status;
  return fd;
}

Result<LocalStore::Entries> LocalStore::ListingOf(const ObjectId& id) {
  constexpr size_t kKept = 4;
  {
    const auto lock = Lock();
    const auto it =
        std::find_if(listings_.begin(), listings_.end(), [&](const auto& l) { return l.first == id; });
    if (it != listings_.end()) {
      std::rotate(listings_.begin(), it, it + 1);
      return listings_.front().second;
    }
  }
  int64_t length = 0;
  const Result<Fd> fd = OpenObject(id, &length);
  if (!fd.ok()) return fd.status();
  const Result<std::string> bytes = ReadAll(fd->get(), id.Text(), kLargestListing + 1);
  if (!bytes.ok()) return bytes.status();
  Result<std::vector<Entry>> entries = ReadListing(*bytes);
  if (!entries.ok()) return entries.status();
  Entries shared = std::make_shared<const std::vector<Entry>>(*std::move(entries));
  const auto lock = Lock();
  listings_.insert(listings_.begin(), {id, shared});
  if (listings_.size() > kKept) listings_.pop_back();
  return shared;
}

bool LocalStore::UnchangedFile(const ObjectId& id) {
  const mode_t mode = id.kind == Kind::kProgram ? 0555 : 0444;
  return At(id,
            [&](int folder, const char* name, const Seen& seen) {
              struct stat info {};
              if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return errno;
              if (!Same(seen, info)) return kNotTheSame;
              if ((info.st_mode & 07777) != mode) std::ignore = fchmodat(folder, name, mode, 0);
              return 0;
            })
      .ok();
}

bool LocalStore::Unchanged(const ObjectId& id) {
  std::vector<ObjectId> files{id};
  {
    const auto lock = Lock();
    if (!table_.Kept(id)) return false;
    const Row* row = table_.Find(id);
    if (row->parts != nullptr) {
      for (const Object& part : *row->parts) {
        const Row* other = table_.Find(part.id);
        if (other != nullptr && other->state == Row::State::kWhole) files.push_back(part.id);
      }
    }
  }
  bool all = true;
  for (const ObjectId& file : files) all = UnchangedFile(file) && all;
  return all;
}

Result<std::string> LocalStore::MakeSandbox(const std::string& name) {
  const std::string path = StrCat(directory_, "/sandboxes/", name);
  if (!IsName(name)) return Status(Code::kInvalid, StrCat(Printable(name), " is no name for a sandbox"));
  if (mkdirat(sandboxes_.get(), name.c_str(), 0700) != 0)
    return Failed("make sandbox", path, errno, root_.get());
  return path;
}

void LocalStore::RemoveSandbox(const std::string& path) {
  const Result<std::string> below = BelowSandboxes(path);
  if (!below.ok() || below->find('/') != below->npos) return;
  (void)RemoveAll(sandboxes_.get(), *below, path);
}

LocalStore::Pins::~Pins() {
  Table::Removals removals;
  {
    const auto lock = store_->Lock();
    for (const ObjectId& id : ids_) store_->table_.Unpin(id, &removals);
  }
  store_->Carry(removals);
}

bool LocalStore::Pins::Take(const ObjectId& id) {
  const auto lock = store_->Lock();
  if (!store_->table_.Kept(id)) return false;
  store_->table_.Pin(id);
  ids_.push_back(id);
  return true;
}

LocalStore::Temporary::~Temporary() {
  if (!name_.empty()) unlinkat(store_->arriving_.get(), name_.c_str(), 0);
}

Status LocalStore::Temporary::Make(uint64_t charge, std::string_view shown) {
  HARROW_RETURN_IF_ERROR(room_.Take(charge, true, shown));
  std::string name = StrCat(store_->temporary_.fetch_add(1));
  fd_ = OpenAt(store_->arriving_.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!fd_.ok()) {
    return Failed("make a file in the store for", shown, errno, store_->root_.get());
  }
  name_ = std::move(name);
  return {};
}

}  // namespace harrow::store
