#pragma once

#include <cstddef>

namespace harrow::os {

/// Fills `bytes` with what nobody can guess. False: the kernel has none to give.
[[nodiscard]] bool RandomBytes(void* bytes, size_t size);

}  // namespace harrow::os
