#pragma once

#include <cstddef>
#include <cstdint>

namespace harrow::os {

/// Fills `bytes` with what nobody can guess. False: the kernel has none to give.
[[nodiscard]] bool RandomBytes(void* bytes, size_t size);

/// What no other process draws, on whichever node: for names. Not a secret.
uint64_t UniqueNumber();

}  // namespace harrow::os
