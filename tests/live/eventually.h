#pragma once

#include <chrono>
#include <thread>

namespace harrow::test {

/// Polls until it holds: processes end, and write, in their own time. False after two minutes.
template <class Condition>
bool Eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace harrow::test
