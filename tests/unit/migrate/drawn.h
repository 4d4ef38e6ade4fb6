#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

namespace harrow::migrate {

/// So many bytes, of words of 8 that `next` gives; of the last one as many as there is room for.
template <class Next>
std::string OfWords(size_t bytes, const Next& next) {
  std::string text;
  while (text.size() < bytes) {
    const auto word = next();
    static_assert(sizeof word == 8);
    text.append(reinterpret_cast<const char*>(&word), std::min(sizeof word, bytes - text.size()));
  }
  return text;
}

inline std::string DrawnNoise(std::mt19937_64* draw, size_t bytes) {
  return OfWords(bytes, [&]() -> uint64_t { return (*draw)(); });
}

/// From 0 to 1, as a program has them in memory.
inline std::string DrawnNumbers(std::mt19937_64* draw, size_t bytes) {
  return OfWords(bytes, [&] { return std::uniform_real_distribution<double>(0, 1)(*draw); });
}

}  // namespace harrow::migrate
