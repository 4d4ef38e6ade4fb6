// A family of tasks may have a pattern each ("p/*-{i}.x"), and as many files: trying each pattern on each name would be
// quadratic. What a pattern says outright is looked up instead, in three ways, and the one that leaves fewest names is
// taken: how a name begins, how it ends, and a word in it, a longest run of digits or of letters, where the pattern
// shows both its ends: the 7 of "*-7.*", not that of "*7.*" (which 17 matches, too).
//
// Beginnings and ends are looked up by eight characters of each, kept side by side: a search that read the names
// themselves would miss the cache at each step, and would take more than its share as flows grow.
#include "formats/pattern_index.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace harrow::formats {
namespace {

constexpr size_t kFew = 64;  // to be tried one by one without another thought
constexpr std::string_view kWild = "*?[]\\";

enum class Kind : uint8_t { kOther, kDigit, kLetter };
Kind KindOf(char c) {
  if (c >= '0' && c <= '9') return Kind::kDigit;
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ? Kind::kLetter : Kind::kOther;
}

/// Calls take(begin, end) for each word of the text.
template <class Take>
void EachWord(std::string_view text, const Take& take) {
  for (size_t begin = 0; begin < text.size();) {
    const Kind kind = KindOf(text[begin]);
    size_t end = begin + 1;
    while (kind != Kind::kOther && end < text.size() && KindOf(text[end]) == kind) ++end;
    if (kind != Kind::kOther) take(begin, end);
    begin = end;
  }
}

bool Has(bool ends, std::string_view name, std::string_view part) {
  return ends ? name.ends_with(part) : name.starts_with(part);
}

std::string_view Without(bool ends, std::string_view name, size_t size) {
  return ends ? name.substr(0, name.size() - size) : name.substr(size);
}

/// The eight characters at that side, the outermost first, as a number; `fill` where there are fewer.
uint64_t KeyOf(bool ends, std::string_view text, unsigned char fill) {
  uint64_t key = 0;
  for (size_t i = 0; i < 8; ++i) {
    const char c = i >= text.size() ? static_cast<char>(fill) : ends ? text[text.size() - 1 - i] : text[i];
    key = key << 8 | static_cast<unsigned char>(c);
  }
  return key;
}

}  // namespace

PatternIndex::Side PatternIndex::MakeSide(bool ends, const std::vector<std::string_view>& names) {
  Side side;
  side.ends = ends;
  if (names.empty()) return side;
  const std::string_view first = names.front();
  size_t size = first.size();
  for (std::string_view name : names) {
    size_t same = 0;
    const size_t most = std::min(size, name.size());
    while (same < most && (ends ? first[first.size() - 1 - same] == name[name.size() - 1 - same] : first[same] == name[same]))
      ++same;
    size = same;
  }
  side.common = ends ? first.substr(first.size() - size) : first.substr(0, size);
  side.sorted.reserve(names.size());
  for (uint32_t n = 0; n < names.size(); ++n) side.sorted.push_back({KeyOf(ends, Without(ends, names[n], size), 0), n});
  std::sort(side.sorted.begin(), side.sorted.end(), [&](const Side::Name& a, const Side::Name& b) {
    if (a.key != b.key) return a.key < b.key;
    return ends ? a.number < b.number : names[a.number] < names[b.number];
  });
  return side;
}

std::pair<size_t, size_t> PatternIndex::Around(const Side& side, std::string_view part) {
  if (part.size() <= side.common.size()) {
    return {0, Has(side.ends, side.common, part) ? side.sorted.size() : 0};
  }
  if (!Has(side.ends, part, side.common)) return {0, 0};
  const std::string_view rest = Without(side.ends, part, side.common.size());
  const auto first = std::lower_bound(side.sorted.begin(), side.sorted.end(), KeyOf(side.ends, rest, 0),
                                      [](const Side::Name& name, uint64_t key) { return name.key < key; });
  const auto last = std::upper_bound(first, side.sorted.end(), KeyOf(side.ends, rest, 0xFF),
                                     [](uint64_t key, const Side::Name& name) { return key < name.key; });
  return {static_cast<size_t>(first - side.sorted.begin()), static_cast<size_t>(last - side.sorted.begin())};
}

PatternIndex::PatternIndex(std::vector<std::string_view> names) {
  heads_ = MakeSide(false, names);
  names_.reserve(names.size());
  auto kept = heads_.sorted.begin();
  for (const Side::Name name : heads_.sorted) {
    if (!names_.empty() && names_.back() == names[name.number]) continue;
    *kept++ = {name.key, static_cast<uint32_t>(names_.size())};
    names_.push_back(names[name.number]);
  }
  heads_.sorted.erase(kept, heads_.sorted.end());
}

bool PatternIndex::Contains(std::string_view name) const {
  const auto [first, last] = Around(heads_, name);
  const auto begin = names_.begin();
  return std::binary_search(begin + static_cast<ptrdiff_t>(first), begin + static_cast<ptrdiff_t>(last), name);
}

const PatternIndex::Word* PatternIndex::FindWord(std::string_view text) const {
  const auto found =
      word_index_.Find(std::hash<std::string_view>()(text), [&](uint32_t n) { return words_[n].text == text; });
  return found ? &words_[*found] : nullptr;
}

void PatternIndex::Build() const {
  if (built_) return;
  built_ = true;
  tails_ = MakeSide(true, names_);
  std::vector<std::pair<uint32_t, uint32_t>> held;  // word, name
  for (uint32_t n = 0; n < names_.size(); ++n) {
    EachWord(names_[n], [&](size_t begin, size_t end) {
      const std::string_view text = names_[n].substr(begin, end - begin);
      const Word* known = FindWord(text);
      if (known == nullptr) {
        word_index_.Insert(std::hash<std::string_view>()(text), static_cast<uint32_t>(words_.size()));
        words_.push_back({.text = text});
        known = &words_.back();
      }
      const auto number = static_cast<size_t>(known - words_.data());
      Word& word = words_[number];
      if (std::exchange(word.last, n) == n) return;
      ++word.count;
      held.emplace_back(static_cast<uint32_t>(number), n);
    });
  }
  uint32_t begin = 0;
  for (Word& word : words_) word.begin = std::exchange(begin, begin + word.count);
  holders_.resize(held.size());
  for (const auto& [word, name] : held) holders_[words_[word].begin++] = name;
  for (Word& word : words_) word.begin -= word.count;
}

std::vector<std::string_view> PatternIndex::Candidates(std::string_view pattern) const {
  const auto [first, last] = Around(heads_, pattern.substr(0, pattern.find_first_of(kWild)));
  const auto all = [&, first = first, last = last] {
    return std::vector(names_.begin() + static_cast<ptrdiff_t>(first), names_.begin() + static_cast<ptrdiff_t>(last));
  };
  size_t fewest = last - first;
  if (fewest <= kFew) return all();
  Build();

  std::vector<uint32_t> numbers;
  bool found = false;
  // npos + 1 is 0: a pattern without wildcards ends in itself.
  const auto [end_first, end_last] = Around(tails_, pattern.substr(pattern.find_last_of(kWild) + 1));
  if (end_last - end_first < fewest) {
    fewest = end_last - end_first;
    for (size_t i = end_first; i < end_last; ++i) numbers.push_back(tails_.sorted[i].number);
    found = true;
  }

  const auto is_wild = [&](size_t at) { return at < pattern.size() && kWild.find(pattern[at]) != std::string_view::npos; };
  // What stands between brackets is no word of a name.
  const size_t open = pattern.find('['), closed = pattern.rfind(']');
  EachWord(pattern, [&](size_t begin, size_t end) {
    if (begin > open && (closed == std::string_view::npos || closed < open || begin < closed)) return;
    if ((begin > 0 && is_wild(begin - 1)) || is_wild(end)) return;
    const Word* word = FindWord(pattern.substr(begin, end - begin));
    const size_t count = word == nullptr ? 0 : word->count;
    if (count >= fewest) return;
    fewest = count;
    found = true;
    numbers.clear();
    if (count > 0) numbers.assign(&holders_[word->begin], &holders_[word->begin] + count);
  });
  if (!found) return all();
  std::sort(numbers.begin(), numbers.end());
  std::vector<std::string_view> names;
  for (const uint32_t n : numbers) names.push_back(names_[n]);
  return names;
}

}  // namespace harrow::formats
