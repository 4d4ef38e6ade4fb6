#pragma once

namespace harrow {

/// Brings the cache line of an address near. GCC takes a function that does nothing else for one without effect, and
/// leaves its calls out: hence the empty instruction.
inline void Prefetch(const void* address) {
  __builtin_prefetch(address);
  asm volatile("" : : "r"(address));
}

}  // namespace harrow
