#pragma once

#include <cstdint>

namespace harrow::formats {

constexpr uint32_t kMostCores = 65536;       // of a task, and of a node
constexpr uint32_t kMostDevices = 65536;     // of a task
constexpr uint64_t kMostLinks = 50'000'000;  // between tasks; each costs memory

/// Between the words of a line.
constexpr bool IsBlank(char c) {
  return c == ' ' || c == '\t';
}
/// The same where lines may end with a carriage return.
constexpr bool IsBlankOrReturn(char c) {
  return IsBlank(c) || c == '\r';
}

}  // namespace harrow::formats
