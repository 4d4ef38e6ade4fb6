#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "migrate/block.h"
#include "store/object.h"

namespace harrow::migrate {

/// Images as pages that are called by their contents, sent once to a place however many images have them (pages.cc). Both ends are
/// state machines: a message in, messages out; whatever carries these keeps their order.

/// How pages of a job are sent.
enum class Way : uint8_t {
  kPlain = 0,   // all that are not zero, compressed: where hardly any is there twice
  kShared = 1,  // each content once, what the other end has already not at all
};

/// The pages that a place has, of all images that came to it.
class PageStore {
 public:
  bool Has(const store::ObjectId& id) const { return pages_.contains(id); }
  /// Null: it has it not.
  const std::string* Find(const store::ObjectId& id) const;
  /// Takes the page in, if its content is what it is called by.
  bool Put(const store::ObjectId& id, std::string_view page);
  size_t size() const { return pages_.size(); }

 private:
  std::unordered_map<store::ObjectId, std::string> pages_;
};

/// Which way pays for a job, by a sample of the pages of its images: kShared, when of these so many are there twice that what is
/// saved by that is more than what digests cost.
Way ChooseWay(const std::vector<std::string_view>& images);

struct SentBytes {
  uint64_t lists = 0;   // digests
  uint64_t pages = 0;   // as they went, compressed
  uint64_t zero = 0, known = 0, sent = 0;  // pages: zero ones, those that the other end had, those that went
};

/// Sends one image.
class PageSender {
 public:
  PageSender(std::string_view image, Way way, std::function<void(std::string)> send);
  void Begin();
  /// What the receiver says. kDamaged: it keeps to no protocol, or has told that it got something else.
  Status Take(std::string_view message);
  /// The receiver has the image, and has compared its digest.
  bool done() const { return done_; }
  const SentBytes& bytes() const { return bytes_; }

 private:
  void SendPages(const std::vector<bool>& wanted);

  const std::string_view image_;
  const Way way_;
  const std::function<void(std::string)> send_;
  std::vector<store::ObjectId> unique_;  // that are not zero, each once
  std::vector<size_t> first_;            // where each of them is, in pages
  bool asked_ = false, done_ = false;
  SentBytes bytes_;
  BlockCoder coder_;
};

/// Receives one image. `store`: what this place has, and gets.
class PageReceiver {
 public:
  PageReceiver(PageStore* store, std::function<void(std::string)> send) : store_(*store), send_(std::move(send)) {}
  /// kDamaged: what came is not what was announced; nothing of the image is to be used.
  Status Take(std::string_view message);
  /// Whole, and equal to what was sent; none: not yet.
  const std::optional<std::string>& image() const { return image_; }

 private:
  Status TakeList(std::string_view message);
  Status TakePages(std::string_view message);
  Status Finish();

  PageStore& store_;
  const std::function<void(std::string)> send_;
  bool listed_ = false;
  uint64_t size_ = 0;
  store::ObjectId whole_;
  std::vector<uint32_t> pages_;          // of the image: 0, a zero page, or one more than its place in unique_
  std::vector<store::ObjectId> unique_;
  std::vector<uint32_t> wanted_;         // places in unique_, in the order in which they come
  size_t came_ = 0;
  BlockCoder coder_;
  std::string block_;
  std::optional<std::string> image_;
};

}  // namespace harrow::migrate
