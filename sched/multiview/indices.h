#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

namespace harrow::multiview {

using Index = std::int64_t;

/// One number a dimension. Up to six lie in the object itself: planning handles thousands of them in a millisecond.
class Indices {
 public:
  using value_type = Index;
  using const_iterator = const Index*;
  Indices() = default;
  explicit Indices(std::size_t size, Index value = 0) : size_(size) {
    if (size > kInline) heap_ = std::make_unique<Index[]>(size);
    std::fill_n(data(), size, value);
  }
  Indices(std::span<const Index> v) : Indices(v.size()) { std::copy(v.begin(), v.end(), data()); }
  Indices(std::initializer_list<Index> v) : Indices(std::span<const Index>(v.begin(), v.size())) {}
  Indices(const Indices& o) : Indices(std::span<const Index>(o.data(), o.size_)) {}
  Indices(Indices&& o) noexcept : size_(o.size_), heap_(std::move(o.heap_)) {
    if (!heap_) std::copy_n(o.inline_, size_, inline_);
    o.size_ = 0;
  }
  Indices& operator=(const Indices& o) {
    if (this == &o) return *this;
    if (size_ != o.size_) return *this = Indices(o);
    std::copy_n(o.data(), size_, data());
    return *this;
  }
  Indices& operator=(Indices&& o) noexcept {
    if (this == &o) return *this;
    size_ = o.size_;
    heap_ = std::move(o.heap_);
    if (!heap_) std::copy_n(o.inline_, size_, inline_);
    o.size_ = 0;
    return *this;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Index* data() { return heap_ ? heap_.get() : inline_; }
  const Index* data() const { return heap_ ? heap_.get() : inline_; }
  // Through a span, which looks after its bounds where assertions are switched on.
  Index& operator[](std::size_t i) { return std::span(data(), size_)[i]; }
  Index operator[](std::size_t i) const { return std::span(data(), size_)[i]; }
  Index* begin() { return data(); }
  Index* end() { return data() + size_; }
  const Index* begin() const { return data(); }
  const Index* end() const { return data() + size_; }
  friend bool operator==(const Indices& a, const Indices& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

 private:
  static constexpr std::size_t kInline = 6;
  std::size_t size_ = 0;
  Index inline_[kInline];
  std::unique_ptr<Index[]> heap_;
};

}  // namespace harrow::multiview
