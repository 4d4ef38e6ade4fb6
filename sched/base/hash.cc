#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace harrow {

uint64_t Hash64(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace harrow
