#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "migrate/buffer.h"
#include "migrate/compress.h"

namespace harrow::migrate {

/// How the pages of a block lie in a file, or go over a link (block.cc).
enum class BlockWay : uint8_t {
  kPlain = 0,    // as they are
  kZstd = 1,     // one frame of zstd
  kByPlace = 2,  // one frame of zstd, of the first bytes of all words of 8 bytes, then the second ones, and so on
};
/// None: no way has that number.
std::optional<BlockWay> BlockWayOf(uint8_t number);

/// Packs blocks, and unpacks them, one after the other, with memory that is taken once. Of one thread.
class BlockCoder {
 public:
  struct Packed {
    BlockWay way = BlockWay::kPlain;
    std::string_view bytes{};
  };

  /// In a way that makes them small. `pages`: whole ones. What is told lives until the next call, and no longer than they.
  Packed Pack(std::string_view pages);
  /// To where there is room for `size` bytes, which is how long they were. kDamaged: nothing of that length lies so.
  Status Unpack(BlockWay way, std::string_view bytes, char* pages, size_t size);

 private:
  BlockWay WayOf(std::string_view pages);
  std::string_view ByPlace(std::string_view pages);

  Compressor compressor_;
  std::string tried_;
  PageBuffer by_place_;
};

}  // namespace harrow::migrate
