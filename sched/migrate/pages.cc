// An image goes in three messages, the last of them in blocks (migrate_format.md):
//
//   list    size, digest of the whole, and for each page whether it is zero, or which of the contents that follow
//   need    a bit a content: the receiver has it not, by whatever image it came
//   pages   contents that are needed, in their order, some hundred a block, each block compressed by itself
//   done    the receiver has put the image together, and its digest is the one announced
//
// A content whose bytes are not those it is called by ends the transfer: nothing of it is used. So does a digest of the whole that
// differs, which would be a page in the wrong place. Pages that came stay in the store: they are what they are called by.
#include "migrate/pages.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/text.h"
#include "migrate/block.h"
#include "migrate/compress.h"
#include "migrate/image.h"
#include "migrate/encoding.h"
#include "migrate/sample.h"
#include "store/hasher.h"

namespace harrow::migrate {
namespace {

enum Kind : char { kList = 'L', kNeed = 'N', kPages = 'P', kDone = 'D' };

constexpr size_t kPagesOfBlock = 256;
constexpr size_t kMostPages = size_t{1} << 28;

store::ObjectId DigestOf(std::string_view bytes) {
  return store::IdOf(bytes, store::Kind::kFile);
}

std::string_view PageAt(std::string_view image, size_t page) {
  return image.substr(page * kPage, kPage);
}

/// By what they begin and go on with, so that equal pages are drawn in every image, wherever they lie.
bool IsPageDrawn(std::string_view page, uint64_t one_of) {
  uint64_t words[2] = {};
  std::memcpy(words, page.data(), std::min<size_t>(8, page.size()));
  if (page.size() == kPage) std::memcpy(words + 1, page.data() + kPage / 2, 8);
  return IsDrawn(words[0], words[1], one_of);
}

Status Wrong(const char* what) {
  return Status(Code::kDamaged, StrCat("the image cannot be taken: ", what));
}

}  // namespace

const std::string* PageStore::Find(const store::ObjectId& id) const {
  const auto found = pages_.find(id);
  return found == pages_.end() ? nullptr : &found->second;
}

bool PageStore::Put(const store::ObjectId& id, std::string_view page) {
  if (DigestOf(page) != id) return false;
  pages_.try_emplace(id, page);
  return true;
}

Way ChooseWay(const std::vector<std::string_view>& images) {
  constexpr size_t kSample = 4096;
  constexpr size_t kWorthOneOf = 50;  // a digest is 0.4 % of a page, and what it saves would have been compressed
  size_t all = 0, looked = 0;
  for (const std::string_view image : images) all += PagesOf(image.size());
  const uint64_t one_of = std::max<size_t>(1, all / kSample);
  std::unordered_set<store::ObjectId> seen;
  for (const std::string_view image : images) {
    for (size_t page = 0; page < PagesOf(image.size()); ++page) {
      const std::string_view bytes = PageAt(image, page);
      if (!IsPageDrawn(bytes, one_of) || IsZeroPage(bytes)) continue;
      ++looked;
      seen.insert(DigestOf(bytes));
    }
  }
  return (looked - seen.size()) * kWorthOneOf > looked ? Way::kShared : Way::kPlain;
}

// --- the sender

PageSender::PageSender(std::string_view image, Way way, std::function<void(std::string)> send)
    : image_(image), way_(way), send_(std::move(send)) {}

void PageSender::Begin() {
  const size_t count = PagesOf(image_.size());
  std::string pages;
  std::unordered_map<store::ObjectId, uint32_t> places;
  for (size_t page = 0; page < count; ++page) {
    const std::string_view bytes = PageAt(image_, page);
    uint32_t place = 0;
    if (IsZeroPage(bytes)) {
      ++bytes_.zero;
    } else if (way_ == Way::kPlain) {
      first_.push_back(page);
      place = static_cast<uint32_t>(first_.size());
    } else {
      const store::ObjectId id = DigestOf(bytes);
      const auto [at, is_new] = places.try_emplace(id, static_cast<uint32_t>(unique_.size() + 1));
      if (is_new) {
        unique_.push_back(id);
        first_.push_back(page);
      }
      place = at->second;
    }
    PutNumber(place, &pages);
  }
  std::string list(1, kList);
  PutNumber(static_cast<uint64_t>(image_.size()), &list);
  PutId(DigestOf(image_), &list);
  list.push_back(static_cast<char>(way_));
  PutNumber(static_cast<uint32_t>(first_.size()), &list);
  const std::string packed = Compress(pages);
  PutNumber(static_cast<uint32_t>(packed.size()), &list);
  list += packed;
  for (const store::ObjectId& id : unique_) PutId(id, &list);
  bytes_.lists += list.size();
  asked_ = true;
  send_(std::move(list));
}

Status PageSender::Take(std::string_view message) {
  if (message.empty() || !asked_ || done_) return Wrong("a message that nobody waits for");
  const char kind = message.front();
  message.remove_prefix(1);
  if (kind == kDone) {
    done_ = true;
    return {};
  }
  if (kind != kNeed || message.size() != (first_.size() + 7) / 8) return Wrong("no list of what is needed");
  std::vector<bool> wanted(first_.size());
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = (static_cast<uint8_t>(message[i / 8]) >> (i % 8) & 1) != 0;
  SendPages(wanted);
  return {};
}

void PageSender::SendPages(const std::vector<bool>& wanted) {
  PageBuffer block(kPagesOfBlock * kPage);
  size_t size = 0;
  const auto flush = [&] {
    if (size == 0) return;
    const BlockCoder::Packed packed = coder_.Pack(block.First(size));
    std::string message;
    message.reserve(2 + packed.bytes.size());
    message.push_back(kPages);
    message.push_back(static_cast<char>(packed.way));
    message += packed.bytes;
    bytes_.pages += message.size();
    size = 0;
    send_(std::move(message));
  };
  for (size_t i = 0; i < first_.size(); ++i) {
    if (!wanted[i]) {
      ++bytes_.known;
      continue;
    }
    ++bytes_.sent;
    const std::string_view page = PageAt(image_, first_[i]);
    std::memcpy(block.data() + size, page.data(), page.size());
    std::memset(block.data() + size + page.size(), 0, kPage - page.size());  // the last one may be shorter
    size += kPage;
    if (size == kPagesOfBlock * kPage) flush();
  }
  flush();
}

// --- the receiver

Status PageReceiver::Take(std::string_view message) {
  if (message.empty() || image_) return Wrong("a message that nobody waits for");
  const char kind = message.front();
  message.remove_prefix(1);
  if (kind == kList && !listed_) return TakeList(message);
  if (kind == kPages && listed_) return TakePages(message);
  return Wrong("a message of no kind that is known");
}

Status PageReceiver::TakeList(std::string_view message) {
  uint32_t contents = 0, packed = 0;
  if (!GetNumber(&message, &size_) || !GetId(&message, &whole_) || message.empty()) return Wrong("its list is cut off");
  const auto way = static_cast<Way>(message.front());
  message.remove_prefix(1);
  const size_t count = PagesOf(size_);
  if (way > Way::kShared || !GetNumber(&message, &contents) || !GetNumber(&message, &packed) || message.size() < packed || count > kMostPages ||
      contents > count)
    return Wrong("its list is cut off");
  const Result<std::string> pages = Decompress(message.substr(0, packed), count * sizeof(uint32_t));
  if (!pages.ok()) return pages.status();
  message.remove_prefix(packed);
  if (message.size() != (way == Way::kShared ? contents * kIdBytes : 0)) return Wrong("its list is cut off");
  pages_.resize(count);
  if (!pages->empty()) std::memcpy(pages_.data(), pages->data(), pages->size());
  if (std::any_of(pages_.begin(), pages_.end(), [&](uint32_t place) { return place > contents; })) return Wrong("its list names what is not in it");
  unique_.resize(contents);
  std::string need((contents + 7) / 8, '\0');
  for (uint32_t i = 0; i < contents; ++i) {
    // Without digests they are called by their places: nobody has them.
    if (way == Way::kShared) {
      GetId(&message, &unique_[i]);
      if (store_.Has(unique_[i])) continue;
    }
    wanted_.push_back(i);
    need[i / 8] = static_cast<char>(static_cast<uint8_t>(need[i / 8]) | 1u << (i % 8));
  }
  listed_ = true;
  send_(StrCat(std::string(1, kNeed), need));
  return wanted_.empty() ? Finish() : Status();
}

Status PageReceiver::TakePages(std::string_view message) {
  const std::optional<BlockWay> way = message.empty() ? std::nullopt : BlockWayOf(static_cast<uint8_t>(message.front()));
  if (!way) return Wrong("a block that lies in no way that is known");
  const size_t pages = std::min(kPagesOfBlock, wanted_.size() - came_);
  block_.resize(pages * kPage);
  HARROW_RETURN_IF_ERROR(coder_.Unpack(*way, message.substr(1), block_.data(), block_.size()));
  for (size_t at = 0; at < block_.size(); at += kPage) {
    const std::string_view page = std::string_view(block_).substr(at, kPage);
    store::ObjectId& id = unique_[wanted_[came_++]];
    if (id == store::ObjectId()) id = DigestOf(page);
    // The last page of an image that is no whole number of pages is called by its own bytes.
    const size_t rest = static_cast<size_t>(size_ % kPage);
    if (!store_.Put(id, page) && (rest == 0 || !store_.Put(id, page.substr(0, rest)))) return Wrong("a page is not what it is called by");
  }
  return came_ == wanted_.size() ? Finish() : Status();
}

Status PageReceiver::Finish() {
  std::string image;
  image.reserve(pages_.size() * kPage);
  for (const uint32_t place : pages_) {
    const std::string* const page = place == 0 ? nullptr : store_.Find(unique_[place - 1]);
    if (place > 0 && page == nullptr) return Wrong("a page is gone from here");
    if (page != nullptr) image += *page;
    image.resize((image.size() + kPage - 1) / kPage * kPage, '\0');
    if (place == 0) image.append(kPage, '\0');
  }
  image.resize(static_cast<size_t>(size_));
  if (DigestOf(image) != whole_) return Wrong("its digest differs");
  image_ = std::move(image);
  send_(std::string(1, kDone));
  return {};
}

}  // namespace harrow::migrate
