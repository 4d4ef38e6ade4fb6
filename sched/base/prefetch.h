#pragma once

#include <cstddef>

namespace harrow {

/// Brings the cache line of an address near. GCC takes a function that does nothing else for one without effect, and
/// leaves its calls out: hence the empty instruction.
inline void Prefetch(const void* address) {
  __builtin_prefetch(address);
  asm volatile("" : : "r"(address));
}

/// All cache lines of so many bytes.
inline void PrefetchAll(const void* first, size_t bytes) {
  constexpr size_t kCacheLine = 64;
  for (size_t at = 0; at < bytes; at += kCacheLine) Prefetch(static_cast<const std::byte*>(first) + at);
}

}  // namespace harrow
