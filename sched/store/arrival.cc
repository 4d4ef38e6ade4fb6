// Contents that come in pieces, and reading.
#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

#include "base/text.h"
#include "store/local_store_internal.h"

namespace harrow::store {
namespace {

constexpr int64_t kWorthReserving = 64 << 10;
constexpr ptrdiff_t kIdleHalves = 32;  // that wait for another source; each has a descriptor

class PieceArrival : public Arrival {
 public:
  PieceArrival(LocalStore* store, std::shared_ptr<Half> half) : store_(store), half_(std::move(half)) {}
  ~PieceArrival() override { store_->Leave(half_); }
  const Object& object() const override { return half_->object(); }
  Status Write(int64_t offset, std::string_view data) override {
    return store_->Write(half_.get(), offset, data);
  }
  std::vector<Stretch> Missing(size_t limit) const override { return half_->Missing(limit); }
  Status Finish() override { return store_->Finish(half_); }

 private:
  LocalStore* const store_;
  const std::shared_ptr<Half> half_;
};

class WholeReader : public Reader {
 public:
  WholeReader(Fd fd, int64_t bytes) : fd_(std::move(fd)), bytes_(bytes) {}
  int fd() const override { return fd_.get(); }
  int64_t bytes() const override { return bytes_; }
  int64_t here() const override { return bytes_; }
  void WhenBeyond(int64_t beyond, std::function<void(bool)> then) override { then(beyond >= bytes_); }

 private:
  const Fd fd_;
  const int64_t bytes_;
};

class HalfReader : public Reader {
 public:
  HalfReader(std::shared_ptr<Half> half) : half_(std::move(half)) {}
  ~HalfReader() override {
    for (const uint64_t waiter : waiters_) half_->Forget(waiter);
  }
  int fd() const override { return half_->fd(); }
  int64_t bytes() const override { return half_->object().bytes; }
  int64_t here() const override { return half_->here(); }
  void WhenBeyond(int64_t beyond, std::function<void(bool)> then) override {
    if (const uint64_t waiter = half_->Wait(beyond, std::move(then)); waiter != 0) waiters_.push_back(waiter);
  }

 private:
  const std::shared_ptr<Half> half_;
  std::vector<uint64_t> waiters_;
};

}  // namespace

Result<std::unique_ptr<Arrival>> LocalStore::Begin(const Object& object, bool part) {
  if (object.bytes < 0 ||
      (object.id.kind == Kind::kDirectory && object.bytes > static_cast<int64_t>(kLargestListing))) {
    return Status(Code::kInvalid, StrCat(object.id.Text(), " cannot have ", object.bytes, " bytes"));
  }
  Temporary file(this);
  for (;;) {
    std::shared_ptr<Half> other;
    {
      auto lock = Lock();
      const Row* row = Settle(lock, object.id);
      if (row != nullptr && row->state == Row::State::kWhole && (!part || table_.Kept(object.id))) {
        if (!part) Promote(object.id, table_.Find(object.id));
        return Status(Code::kExists, StrCat(object.id.Text(), " is in the store"));
      }
      const auto it = halves_.find(object.id);
      if (it != halves_.end()) {
        Half& half = *it->second;
        if (!part) half.named = true;
        if (half.live) return Status(Code::kNotFound, StrCat(object.id.Text(), " is arriving already"));
        if (half.object().bytes == object.bytes) {
          half.live = true;
          return std::unique_ptr<Arrival>(std::make_unique<PieceArrival>(this, it->second));
        }
        other = it->second;
      } else if (file.fd() >= 0) {
        auto half = std::make_shared<Half>(object, file.name(), file.TakeFd(), file.charge());
        half->named = !part;
        halves_.emplace(object.id, half);
        file.Keep();
        return std::unique_ptr<Arrival>(std::make_unique<PieceArrival>(this, std::move(half)));
      }
    }
    if (other != nullptr) {
      EndHalf(other, true);  // of another length, so one of the two was told wrong
      continue;
    }
    const std::string shown = object.id.Text();
    HARROW_RETURN_IF_ERROR(file.Make(ChargeOf(object.bytes), shown));
    if (object.bytes >= kWorthReserving && fallocate(file.fd(), 0, 0, object.bytes) != 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
      return Failed("make room for", shown, errno, root_.get());
    }
  }
}

Status LocalStore::Write(Half* half, int64_t offset, std::string_view data) {
  if (half->failed()) return Dropped(half->object().id);
  return half->Write(offset, data, root_.get());
}

void LocalStore::Leave(const std::shared_ptr<Half>& half) {
  bool whole = false;
  std::shared_ptr<Half> oldest;
  {
    const auto lock = Lock();
    half->live = false;
    half->left = ++leavings_;
    const Row* row = table_.Find(half->object().id);
    whole = row != nullptr && row->state == Row::State::kWhole;
    const auto idle =
        std::count_if(halves_.begin(), halves_.end(), [](const auto& h) { return !h.second->live; });
    if (!whole && idle > kIdleHalves) oldest = DetachIdle();
  }
  if (whole) EndHalf(half, true);  // it came another way
  if (oldest != nullptr) oldest->End(true);
}

Status LocalStore::Finish(const std::shared_ptr<Half>& half) {
  const Object& object = half->object();
  const ObjectId& id = object.id;
  if (half->failed()) return Dropped(id);
  if (!half->whole()) return Status(Code::kInvalid, StrCat("of ", id.Text(), " pieces are missing"));
  const Result<ObjectId> found = half->Hash();
  if (!found.ok()) return found.status();
  Taken taken;
  taken.object = object;
  taken.length = object.bytes;
  taken.charge = half->charge();
  Status damaged;
  if (*found != id) {
    damaged =
        Status(Code::kDamaged, StrCat("what came as ", id.Text(), " is ", found->Text(), "; it is dropped"));
  } else if (id.kind == Kind::kDirectory) {
    const Result<std::string> bytes = ReadAll(half->fd(), id.Text(), static_cast<size_t>(object.bytes));
    if (!bytes.ok()) return bytes.status();
    const Result<std::vector<Entry>> entries = ReadListing(*bytes);
    damaged = entries.status();
    if (entries.ok()) {
      taken.object.bytes = BytesOf(*entries);
      taken.parts = std::make_shared<const std::vector<Object>>(FilesOf(*entries));
    }
  }
  if (!damaged.ok()) {
    EndHalf(half, true);
    return damaged;
  }
  struct stat info {};
  if (!Seal(half->fd(), id.kind == Kind::kProgram) || fstat(half->fd(), &info) != 0 ||
      (options_.durable && fsync(half->fd()) != 0)) {
    return Failed("keep in the store", id.Text(), errno, root_.get());
  }
  taken.inode = info.st_ino;
  const Result<bool> adopted = Adopt(taken, As::kPart, half.get(), [&](int directory, const char* name) {
    return renameat(arriving_.get(), half->name().c_str(), directory, name) == 0 ? 0 : errno;
  });
  if (!adopted.ok()) {
    if (adopted.status().code() == Code::kNotFound) EndHalf(half, true);
    return adopted.status();
  }
  // Where it came another way meanwhile, this one goes; its readers have read the same bytes.
  if (*adopted) {
    half->End(false);
  } else {
    EndHalf(half, false);
  }
  return {};
}

Result<std::unique_ptr<Reader>> LocalStore::Read(const ObjectId& id) {
  {
    const auto lock = Lock();
    const auto it = halves_.find(id);
    const bool kept = table_.Kept(id);
    if (!kept && it == halves_.end()) return NotHere(id);
    if (!kept) return std::unique_ptr<Reader>(std::make_unique<HalfReader>(it->second));
  }
  int64_t length = 0;
  Result<Fd> fd = OpenObject(id, &length);
  if (!fd.ok()) return fd.status();
  return std::unique_ptr<Reader>(std::make_unique<WholeReader>(*std::move(fd), length));
}

}  // namespace harrow::store
