// A delta is a row of steps, each three numbers: so many bytes are the base's from where it stands, with differences added; so many are
// new; and so far the place in the base goes on from there, or back. Numbers, differences and new bytes are three texts, each compressed
// for itself: differences are nearly all zero.
//
// How steps are found: for each place of the target the longest stretch of the base that goes on like it, by the order of the base's
// suffixes. A stretch begins a step when it is longer by kBetter than what going on with the last step would give. Between two of them the
// end of the first is drawn as far as more than half of the bytes are alike, and the beginning of the second back in the same way.
#include "migrate/delta.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/text.h"
#include "migrate/compress.h"
#include "migrate/encoding.h"
#include "migrate/suffixes.h"
#include "store/hasher.h"

namespace harrow::migrate {
namespace {

constexpr std::string_view kDeltaHead = "harrow-delta 1\n";
constexpr int64_t kBetter = 8;

size_t AlikeFrom(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(most), b.begin()).first - a.begin());
}

class Matcher {
 public:
  explicit Matcher(std::string_view base) : base_(base), order_(SuffixesOf(base)) {}

  /// The longest stretch of the base that the text begins with, and where it is.
  size_t Longest(std::string_view text, size_t* where) const {
    if (order_.empty()) return 0;
    size_t low = 0, high = order_.size() - 1;
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      const std::string_view suffix = Suffix(middle);
      const size_t most = std::min(suffix.size(), text.size());
      (std::memcmp(suffix.data(), text.data(), most) < 0 ? low : high) = middle;
    }
    const size_t at_low = AlikeFrom(Suffix(low), text), at_high = AlikeFrom(Suffix(high), text);
    *where = static_cast<size_t>(order_[at_low > at_high ? low : high]);
    return std::max(at_low, at_high);
  }

 private:
  std::string_view Suffix(size_t i) const { return base_.substr(static_cast<size_t>(order_[i])); }
  const std::string_view base_;
  const std::vector<int32_t> order_;
};

/// Steps, as they are found.
class DeltaWriter {
 public:
  DeltaWriter(std::string_view base, std::string_view target) : base_(base), target_(target) {}

  /// The step before ends where one begins at these places of target and base.
  void Next(int64_t to, int64_t from) {
    const int64_t size = static_cast<int64_t>(target_.size());
    // How far the old stretch goes on, and the new one back: by the most of what is alike over what is not.
    int64_t forward = 0, best = 0, score = 0;
    for (int64_t i = 0; last_to_ + i < to && last_from_ + i < static_cast<int64_t>(base_.size()); ++i) {
      score += Target(last_to_ + i) == Base(last_from_ + i) ? 1 : -1;
      if (score > best) best = score, forward = i + 1;
    }
    int64_t back = 0;
    best = score = 0;
    for (int64_t i = 1; to < size && to - i >= last_to_ && from - i >= 0; ++i) {
      score += Target(to - i) == Base(from - i) ? 1 : -1;
      if (score > best) best = score, back = i;
    }
    if (const int64_t both = forward + back - (to - last_to_); both > 0) {  // what both take goes to whom it is more like
      int64_t split = 0;
      best = score = 0;
      for (int64_t i = 0; i < both; ++i) {
        const int64_t at = last_to_ + forward - both + i;
        score += Target(at) == Base(last_from_ + forward - both + i) ? 1 : 0;
        score -= Target(at) == Base(from - back + i) ? 1 : 0;
        if (score > best) best = score, split = i + 1;
      }
      forward += split - both;
      back -= split;
    }
    const int64_t fresh = to - back - (last_to_ + forward);
    for (int64_t i = 0; i < forward; ++i)
      differences_.push_back(static_cast<char>(Target(last_to_ + i) - Base(last_from_ + i)));
    new_ += target_.substr(static_cast<size_t>(last_to_ + forward), static_cast<size_t>(fresh));
    PutNumber<int64_t>(forward, &steps_);
    PutNumber<int64_t>(fresh, &steps_);
    PutNumber<int64_t>(from - back - (last_from_ + forward), &steps_);
    last_to_ = to - back;
    last_from_ = from - back;
  }

  std::string Done() const {
    std::string out(kDeltaHead);
    const store::ObjectId digest = store::IdOf(target_, store::Kind::kFile);
    PutNumber(static_cast<int64_t>(target_.size()), &out);
    PutNumber(static_cast<int64_t>(digest.high), &out);
    PutNumber(static_cast<int64_t>(digest.low), &out);
    for (const std::string* text : {&steps_, &differences_, &new_}) {
      const std::string packed = Compress(*text);
      PutNumber(static_cast<int64_t>(text->size()), &out);
      PutNumber(static_cast<int64_t>(packed.size()), &out);
      out += packed;
    }
    return out;
  }

  int64_t last_from() const { return last_from_; }
  int64_t last_to() const { return last_to_; }

 private:
  uint8_t Target(int64_t i) const { return static_cast<uint8_t>(target_[static_cast<size_t>(i)]); }
  uint8_t Base(int64_t i) const { return static_cast<uint8_t>(base_[static_cast<size_t>(i)]); }

  const std::string_view base_, target_;
  int64_t last_to_ = 0, last_from_ = 0;
  std::string steps_, differences_, new_;
};

}  // namespace

std::string DeltaOf(std::string_view base, std::string_view target) {
  const Matcher matcher(base);
  DeltaWriter writer(base, target);
  const auto size = static_cast<int64_t>(target.size()), base_size = static_cast<int64_t>(base.size());
  const auto goes_on = [&](int64_t place) {  // the last step, as far as that
    const int64_t from = place - writer.last_to() + writer.last_from();
    return from >= 0 && from < base_size && base[static_cast<size_t>(from)] == target[static_cast<size_t>(place)];
  };
  int64_t scan = 0, length = 0, counted = 0, alike = 0;
  size_t where = 0;
  while (scan < size) {
    alike = 0;
    for (counted = scan += length; scan < size; ++scan) {
      length = static_cast<int64_t>(matcher.Longest(target.substr(static_cast<size_t>(scan)), &where));
      for (; counted < scan + length; ++counted) alike += goes_on(counted) ? 1 : 0;
      if ((length == alike && length != 0) || length > alike + kBetter) break;
      if (scan < size && goes_on(scan)) --alike;
    }
    if (scan < size && length == alike) continue;  // it is what the last step would give
    writer.Next(scan, scan < size ? static_cast<int64_t>(where) : 0);
  }
  return writer.Done();
}

Result<std::string> Apply(std::string_view base, std::string_view delta) {
  const Status damaged(Code::kDamaged, "the difference does not fit the base, or is not what was sent");
  if (!delta.starts_with(kDeltaHead)) return damaged;
  delta.remove_prefix(kDeltaHead.size());
  int64_t size = 0, high = 0, low = 0;
  if (!GetNumber(&delta, &size) || !GetNumber(&delta, &high) || !GetNumber(&delta, &low) || size < 0) return damaged;
  std::string texts[3];
  for (std::string& text : texts) {
    int64_t whole = 0, packed = 0;
    if (!GetNumber(&delta, &whole) || !GetNumber(&delta, &packed) || whole < 0 || packed < 0 ||
        static_cast<size_t>(packed) > delta.size())
      return damaged;
    Result<std::string> plain = Decompress(delta.substr(0, static_cast<size_t>(packed)), static_cast<size_t>(whole));
    if (!plain.ok()) return plain.status();
    text = *std::move(plain);
    delta.remove_prefix(static_cast<size_t>(packed));
  }
  std::string_view steps = texts[0], differences = texts[1], fresh = texts[2];
  std::string out;
  int64_t from = 0;
  while (!steps.empty()) {
    int64_t like = 0, more = 0, on = 0;
    if (!GetNumber(&steps, &like) || !GetNumber(&steps, &more) || !GetNumber(&steps, &on)) return damaged;
    const auto base_size = static_cast<int64_t>(base.size());
    if (like < 0 || more < 0 || from < 0 || from > base_size || like > base_size - from || static_cast<size_t>(like) > differences.size() ||
        static_cast<size_t>(more) > fresh.size())
      return damaged;
    for (int64_t i = 0; i < like; ++i)
      out.push_back(static_cast<char>(base[static_cast<size_t>(from + i)] + differences[static_cast<size_t>(i)]));
    differences.remove_prefix(static_cast<size_t>(like));
    out += fresh.substr(0, static_cast<size_t>(more));
    fresh.remove_prefix(static_cast<size_t>(more));
    if (on > base_size || on < -base_size) return damaged;
    from += like + on;
  }
  const store::ObjectId digest = store::IdOf(out, store::Kind::kFile);
  if (static_cast<int64_t>(out.size()) != size || digest.high != static_cast<uint64_t>(high) || digest.low != static_cast<uint64_t>(low))
    return damaged;
  return out;
}

}  // namespace harrow::migrate
