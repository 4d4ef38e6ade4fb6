#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "store/store.h"

namespace harrow::test {

/// A Store in memory, of one thread: takes pieces, tells who waits, checks contents. Sandboxes and copying
/// out it has not.
class FakeStore : public store::Store {
 public:
  static store::ObjectId IdOf(const std::string& bytes, store::Kind kind = store::Kind::kFile) {
    return {.high = Hash64(bytes), .low = Hash64(bytes + "+"), .kind = kind};
  }
  /// The object that Put(bytes) puts.
  static store::Object ObjectOf(const std::string& bytes) {
    return {.id = IdOf(bytes), .bytes = static_cast<int64_t>(bytes.size())};
  }
  store::Object Put(const std::string& bytes, store::Kind kind = store::Kind::kFile) {
    auto content = NewContent({.id = IdOf(bytes, kind), .bytes = static_cast<int64_t>(bytes.size())});
    if (pwrite(content->fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) abort();
    content->here = content->object.bytes;
    content->whole = true;
    contents_[content->object.id] = content;
    return content->object;
  }
  /// A directory of files that need not be here.
  store::Object PutDirectory(const std::vector<store::Object>& files) {
    std::string listing;
    for (const store::Object& file : files) listing += file.id.Bytes() + std::to_string(file.bytes) + "\n";
    store::Object directory = Put(listing, store::Kind::kDirectory);
    directory.bytes = 0;
    for (const store::Object& file : files) directory.bytes += file.bytes;
    return directory;
  }
  std::string Bytes(const store::ObjectId& id) const {
    const Content& content = *contents_.at(id);
    std::string bytes(static_cast<size_t>(content.here), '\0');
    if (pread(content.fd, bytes.data(), bytes.size(), 0) < 0) abort();
    return bytes;
  }
  bool Arrives(const store::ObjectId& id) const { return contents_.contains(id) && !contents_.at(id)->whole; }

  int64_t room_left = INT64_MAX;
  Status begin_fails{}, write_fails{}, finish_fails{};  // what arrives
  std::map<std::string, std::string> outside;           // what CopyIn finds

  Result<store::Object> CopyIn(const std::string& path) override {
    if (!outside.contains(path)) return Status(Code::kNotFound, path + " is not there");
    return Put(outside[path]);
  }
  Result<store::Object> MoveIn(const std::string& path) override { return CopyIn(path); }
  Result<std::unique_ptr<store::Arrival>> Begin(const store::Object& object, bool) override {
    if (!begin_fails.ok()) return begin_fails;
    std::shared_ptr<Content>& content = contents_[object.id];
    if (content && content->whole) return Status(Code::kExists, "it is here");
    if (content && content->live) return Status(Code::kNotFound, "it is arriving");
    if (!content) {
      if (object.bytes > room_left) {
        contents_.erase(object.id);
        return Status(Code::kExhausted, "no room");
      }
      room_left -= object.bytes;
      content = NewContent(object);
    }
    content->live = true;
    return std::unique_ptr<store::Arrival>(std::make_unique<FakeArrival>(this, content));
  }
  bool Has(const store::ObjectId& id) const override {
    const auto found = contents_.find(id);
    if (found == contents_.end() || !found->second->whole) return false;
    return id.kind != store::Kind::kDirectory || MissingOf(id)->empty();
  }
  Result<std::vector<store::Object>> MissingOf(const store::ObjectId& id) const override {
    const auto found = contents_.find(id);
    if (found == contents_.end() || !found->second->whole) return Status(Code::kNotFound, "no listing");
    const std::string listing = Bytes(id);
    std::vector<store::Object> missing = FilesOf(listing);
    std::erase_if(missing, [this](const store::Object& file) { return Has(file.id); });
    return missing;
  }
  Result<std::unique_ptr<store::Reader>> Read(const store::ObjectId& id) override {
    const auto found = contents_.find(id);
    if (found == contents_.end()) return Status(Code::kNotFound, "not here");
    return std::unique_ptr<store::Reader>(std::make_unique<FakeReader>(found->second));
  }
  Status Place(const store::ObjectId&, std::string_view, const std::string&) override { return None(); }
  Status CopyOut(const store::ObjectId&, const std::string&, uint32_t, const store::CopyWatch&) override {
    return None();
  }
  bool Unchanged(const store::ObjectId& id) override { return Has(id); }
  Result<std::string> MakeSandbox(const std::string&) override { return None(); }
  void RemoveSandbox(const std::string&) override {}
  void Drop(const store::ObjectId& id) override {
    const auto found = contents_.find(id);
    if (found == contents_.end()) return;
    const auto content = found->second;
    contents_.erase(found);
    content->Tell(true);
  }
  void Damaged(const store::ObjectId& id) override {
    damaged.push_back(id);
    std::vector<store::Object> gone{{.id = id}};
    if (id.kind == store::Kind::kDirectory && contents_.contains(id)) {
      for (const store::Object& file : FilesOf(Bytes(id))) gone.push_back(file);
    }
    for (const store::Object& object : gone) Drop(object.id);
    std::erase_if(contents_, [this](const auto& content) {
      return content.first.kind == store::Kind::kDirectory && !Has(content.first);
    });
  }
  std::vector<store::ObjectId> damaged;  // in that order
  void Spare(const store::ObjectId& id) override {
    if (Has(id)) spared.push_back(id);
  }
  std::vector<store::ObjectId> spared;  // in that order
  Room room() const override { return {.used = 0, .limit = 0, .objects = contents_.size()}; }
  std::vector<store::Object> All() const override {
    std::vector<store::Object> all;
    for (const auto& [id, content] : contents_) {
      if (Has(id)) all.push_back(content->object);
    }
    return all;
  }
  void SetOthers(uint64_t) override {}
  void Erase() override { contents_.clear(); }

 private:
  struct Content {
    ~Content() { close(fd); }
    store::Object object;
    int fd = -1;
    int64_t here = 0;
    bool whole = false, live = false;
    std::map<int64_t, int64_t> pieces{};  // begin, end; beyond `here`
    std::vector<std::pair<int64_t, std::function<void(bool)>>> waiting{};

    void Tell(bool failed) {
      auto all = std::exchange(waiting, {});
      for (auto& [beyond, then] : all) {
        if (failed || here > beyond) {
          then(failed);
        } else {
          waiting.emplace_back(beyond, std::move(then));
        }
      }
    }
  };
  static std::shared_ptr<Content> NewContent(const store::Object& object) {
    auto content = std::make_shared<Content>();
    content->object = object;
    content->fd = memfd_create("object", MFD_CLOEXEC);
    return content;
  }
  static std::vector<store::Object> FilesOf(const std::string& listing) {
    std::vector<store::Object> files;
    for (size_t at = 0; at < listing.size();) {
      const size_t bytes = at + store::ObjectId::kSize;
      const auto id =
          *store::ObjectId::FromBytes(std::string_view(listing).substr(at, store::ObjectId::kSize));
      files.push_back({.id = id, .bytes = std::stoll(listing.substr(bytes))});
      at = listing.find('\n', bytes) + 1;
    }
    return files;
  }
  static Status None() { return Status(Code::kInternal, "the fake has none"); }

  struct FakeReader : store::Reader {
    explicit FakeReader(std::shared_ptr<Content> c) : content(std::move(c)) {}
    int fd() const override { return content->fd; }
    int64_t bytes() const override { return content->object.bytes; }
    int64_t here() const override { return content->here; }
    void WhenBeyond(int64_t beyond, std::function<void(bool)> then) override {
      if (content->here > beyond) return then(false);
      content->waiting.emplace_back(beyond, std::move(then));
    }
    std::shared_ptr<Content> content;
  };
  struct FakeArrival : store::Arrival {
    FakeArrival(FakeStore* s, std::shared_ptr<Content> c) : store(s), content(std::move(c)) {}
    ~FakeArrival() override { content->live = false; }
    const store::Object& object() const override { return content->object; }
    Status Write(int64_t offset, std::string_view data) override {
      if (!store->write_fails.ok()) return store->write_fails;
      if (pwrite(content->fd, data.data(), data.size(), offset) < 0) abort();
      int64_t& end = content->pieces[offset];
      end = std::max(end, offset + static_cast<int64_t>(data.size()));
      while (!content->pieces.empty() && content->pieces.begin()->first <= content->here) {
        content->here = std::max(content->here, content->pieces.begin()->second);
        content->pieces.erase(content->pieces.begin());
      }
      content->Tell(false);
      return {};
    }
    std::vector<Stretch> Missing(size_t) const override {
      std::vector<Stretch> missing;
      int64_t at = content->here;
      for (const auto& [begin, end] : content->pieces) {
        if (begin > at) missing.push_back({.offset = at, .length = begin - at});
        at = std::max(at, end);
      }
      if (at < content->object.bytes) missing.push_back({.offset = at, .length = content->object.bytes - at});
      return missing;
    }
    Status Finish() override {
      if (!store->finish_fails.ok()) return store->finish_fails;
      if (!Missing(1).empty()) return Status(Code::kInvalid, "pieces are missing");
      const store::ObjectId id = content->object.id;
      if (IdOf(store->Bytes(id), id.kind) != id) {
        store->contents_.erase(id);
        content->Tell(true);
        return Status(Code::kDamaged, "another content");
      }
      content->whole = true;
      content->Tell(false);
      return {};
    }
    FakeStore* store;
    std::shared_ptr<Content> content;
  };

  std::map<store::ObjectId, std::shared_ptr<Content>> contents_;
};

}  // namespace harrow::test
