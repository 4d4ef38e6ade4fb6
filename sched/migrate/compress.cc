#include "migrate/compress.h"

#include <zstd.h>

namespace harrow::migrate {

std::string Compress(std::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 1);
  out.resize(ZSTD_isError(size) != 0 ? 0 : size);  // with so much room it has no reason to fail
  return out;
}

Result<std::string> Decompress(std::string_view bytes, size_t size, bool at_most) {
  const Status damaged(Code::kDamaged, "what came is not what was compressed");
  const unsigned long long told = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  if (told == ZSTD_CONTENTSIZE_UNKNOWN || told == ZSTD_CONTENTSIZE_ERROR || (at_most ? told > size : told != size)) return damaged;
  std::string out(static_cast<size_t>(told), '\0');
  const size_t got = ZSTD_decompress(out.data(), out.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(got) != 0 || got != out.size()) return damaged;
  return out;
}

}  // namespace harrow::migrate
