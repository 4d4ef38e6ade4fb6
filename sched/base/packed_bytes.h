#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace harrow {

/// Numbers, and texts behind their lengths, in a row: bytes to be hashed that no other row has. A number costs
/// a few instructions; the room is kept for the next row.
class PackedBytes {
 public:
  /// As eight bytes, the lowest first.
  void Add(uint64_t number) {
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(Room(sizeof number), &number, sizeof number);
  }
  void Add(std::string_view text) {
    Add(uint64_t{text.size()});
    if (!text.empty()) std::memcpy(Room(text.size()), text.data(), text.size());
  }
  std::string_view bytes() const { return {bytes_.get(), size_}; }
  size_t size() const { return size_; }
  void Clear() { size_ = 0; }

 private:
  char* Room(size_t count) {
    if (room_ - size_ < count) Grow(count);
    return bytes_.get() + std::exchange(size_, size_ + count);
  }
  void Grow(size_t by);

  std::unique_ptr<char[]> bytes_;
  size_t size_ = 0, room_ = 0;
};

}  // namespace harrow
