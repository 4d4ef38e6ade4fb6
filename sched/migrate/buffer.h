#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "migrate/image.h"

namespace harrow::migrate {

/// Memory for bytes of pages, which begins where a page does: the kernel copies several times faster then, on AMD's processors, between it
/// and pages of files. Taken once; what has not been written yet is undefined.
class PageBuffer {
 public:
  explicit PageBuffer(size_t capacity = 0) { Reserve(capacity); }
  PageBuffer(PageBuffer&& other) noexcept : bytes_(std::move(other.bytes_)), capacity_(std::exchange(other.capacity_, 0)) {}
  PageBuffer& operator=(PageBuffer&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  /// What is in it may be lost.
  void Reserve(size_t capacity) {
    if (capacity <= capacity_) return;
    bytes_.reset(static_cast<char*>(::operator new(capacity, std::align_val_t(kPage))));
    capacity_ = capacity;
  }
  char* data() { return bytes_.get(); }
  const char* data() const { return bytes_.get(); }
  std::string_view First(size_t size) const { return {bytes_.get(), size}; }

 private:
  struct Free {
    void operator()(char* bytes) const { ::operator delete(bytes, std::align_val_t(kPage)); }
  };
  std::unique_ptr<char, Free> bytes_;
  size_t capacity_ = 0;
};

}  // namespace harrow::migrate
