#pragma once

#include <cstdint>

namespace harrow::wire {

/// Of harrow.proto's meaning. Peers of another version are refused in their Hello.
inline constexpr uint32_t kProtocolVersion = 7;

}  // namespace harrow::wire
