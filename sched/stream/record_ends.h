#pragma once

#include <cstdint>
#include <string_view>

#include "base/records.h"

namespace harrow::stream {

/// Of bytes that begin `into` a record (so many of its bytes came before): how many there are up to the end
/// of the first, or the last, record that ends in them; 0: none does.
size_t FirstEnd(Records records, uint64_t into, std::string_view bytes);
size_t LastEnd(Records records, uint64_t into, std::string_view bytes);
/// How far into a record they end.
uint64_t IntoAfter(Records records, uint64_t into, std::string_view bytes);

/// What ends a record that its writer has not ended: `count` times `byte`.
struct Filling {
  char byte = '\n';
  uint64_t count = 0;
};
Filling EndOf(Records records, uint64_t into);

}  // namespace harrow::stream
