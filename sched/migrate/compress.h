#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace harrow::migrate {

/// By zstd, fast: links are no faster than that.
std::string Compress(std::string_view bytes);
/// kDamaged: that is not what it was made of. `size`: how much it is; with `at_most`, at most.
Result<std::string> Decompress(std::string_view bytes, size_t size, bool at_most = false);

/// The same of one text after the other, with memory that is taken once. Of one thread.
class Compressor {
 public:
  Compressor();
  ~Compressor();
  /// Lives until the next call.
  std::string_view Compress(std::string_view bytes);
  /// So many bytes, to where there is room for them. kDamaged: as Decompress.
  Status DecompressTo(std::string_view bytes, char* to, size_t size);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
  std::string out_;
};

}  // namespace harrow::migrate
