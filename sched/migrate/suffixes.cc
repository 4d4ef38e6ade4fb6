// Induced sorting (Nong, Zhang, Chan 2009). A suffix is of type S where it comes before the one that begins behind it, else of type L. The
// leftmost S of a row of them is LMS. From the order of the LMS suffixes that of all others follows by two passes. That order is found
// by sorting the pieces of text between LMS places the same way, naming equal ones alike, and, where names are not all different, by
// sorting the text of names.
#include "migrate/suffixes.h"

#include <algorithm>

namespace harrow::migrate {
namespace {

constexpr int32_t kNowhere = -1;

/// Text over 0 to letters - 1; what is behind its end comes before all of them.
template <class Letter>
class InducedSort {
 public:
  InducedSort(const Letter* text, int32_t size, int32_t letters, int32_t* order)
      : text_(text), size_(size), letters_(letters), order_(order), is_s_(static_cast<size_t>(size) + 1) {}

  void Sort() {
    if (size_ == 0) return;
    // The last suffix is before nothing but the end, which is the least: L.
    is_s_[static_cast<size_t>(size_)] = true;
    for (int32_t i = size_ - 2; i >= 0; --i) is_s_[At(i)] = text_[i] < text_[i + 1] || (text_[i] == text_[i + 1] && is_s_[At(i + 1)]);
    std::vector<int32_t> places;
    for (int32_t i = 1; i < size_; ++i) {
      if (IsLms(i)) places.push_back(i);
    }
    Induce(places);
    SortPlaces(&places);
    Induce(places);
  }

 private:
  static size_t At(int32_t i) { return static_cast<size_t>(i); }
  bool IsLms(int32_t i) const { return i > 0 && i < size_ && is_s_[At(i)] && !is_s_[At(i - 1)]; }

  /// Where each letter's suffixes begin, or end.
  std::vector<int32_t> Buckets(bool ends) const {
    std::vector<int32_t> buckets(At(letters_));
    for (int32_t i = 0; i < size_; ++i) ++buckets[At(static_cast<int32_t>(text_[i]))];
    int32_t sum = 0;
    for (int32_t& bucket : buckets) {
      const int32_t count = bucket;
      bucket = ends ? sum + count : sum;
      sum += count;
    }
    return buckets;
  }

  /// All suffixes, from LMS ones in this order.
  void Induce(const std::vector<int32_t>& places) {
    std::fill(order_, order_ + size_, kNowhere);
    std::vector<int32_t> buckets = Buckets(true);
    for (size_t i = places.size(); i-- > 0;) order_[--buckets[Of(places[i])]] = places[i];
    buckets = Buckets(false);
    order_[buckets[Of(size_ - 1)]++] = size_ - 1;
    for (int32_t i = 0; i < size_; ++i) {
      const int32_t before = order_[i] - 1;
      if (order_[i] > 0 && !is_s_[At(before)]) order_[buckets[Of(before)]++] = before;
    }
    buckets = Buckets(true);
    for (int32_t i = size_ - 1; i >= 0; --i) {
      const int32_t before = order_[i] - 1;
      if (order_[i] > 0 && is_s_[At(before)]) order_[--buckets[Of(before)]] = before;
    }
  }
  size_t Of(int32_t place) const { return At(static_cast<int32_t>(text_[place])); }

  bool SamePiece(int32_t a, int32_t b) const {
    for (int32_t i = 0;; ++i) {
      if (a + i >= size_ || b + i >= size_ || text_[a + i] != text_[b + i] || is_s_[At(a + i)] != is_s_[At(b + i)]) return false;
      if (i > 0 && (IsLms(a + i) || IsLms(b + i))) return IsLms(a + i) && IsLms(b + i);
    }
  }

  void SortPlaces(std::vector<int32_t>* places) {
    const auto count = static_cast<int32_t>(places->size());
    if (count < 2) return;
    std::vector<int32_t> names(At(size_), kNowhere);
    int32_t name = 0, last = kNowhere;
    for (int32_t i = 0; i < size_; ++i) {
      const int32_t place = order_[i];
      if (!IsLms(place)) continue;
      if (last != kNowhere && !SamePiece(last, place)) ++name;
      names[At(place)] = name;
      last = place;
    }
    std::vector<int32_t> shorter, sorted(At(count));
    for (const int32_t place : *places) shorter.push_back(names[At(place)]);
    names = {};
    if (name + 1 == count) {
      for (int32_t i = 0; i < count; ++i) sorted[At(shorter[At(i)])] = i;
    } else {
      InducedSort<int32_t>(shorter.data(), count, name + 1, sorted.data()).Sort();
    }
    std::vector<int32_t> in_order;
    for (const int32_t i : sorted) in_order.push_back((*places)[At(i)]);
    places->swap(in_order);
  }

  const Letter* const text_;
  const int32_t size_, letters_;
  int32_t* const order_;
  std::vector<bool> is_s_;
};

}  // namespace

std::vector<int32_t> SuffixesOf(std::string_view text) {
  std::vector<int32_t> order(text.size());
  InducedSort<uint8_t>(reinterpret_cast<const uint8_t*>(text.data()), static_cast<int32_t>(text.size()), 256, order.data()).Sort();
  return order;
}

}  // namespace harrow::migrate
