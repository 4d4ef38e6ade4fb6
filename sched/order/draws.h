#pragma once

#include <array>
#include <cstdint>

namespace harrow::order {

/// Where random choices come from; tests put in their own.
class Draws {
 public:
  virtual ~Draws() = default;
  /// The next number, uniform in [0, 1).
  virtual double Next() = 0;
};

/// xoshiro256++ (Blackman, Vigna: Scrambled linear pseudorandom number generators, 2021), seeded by
/// splitmix64: the same numbers on every machine, which the standard distributions do not promise.
class SeededDraws : public Draws {
 public:
  explicit SeededDraws(uint64_t seed) {
    for (uint64_t& word : state_) {
      seed += 0x9E3779B97F4A7C15ull;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
      word = z ^ (z >> 31);
    }
  }
  uint64_t NextWord() {
    const uint64_t result = Rotate(state_[0] + state_[3], 23) + state_[0];
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = Rotate(state_[3], 45);
    return result;
  }
  double Next() override { return static_cast<double>(NextWord() >> 11) * 0x1.0p-53; }
  /// The next number, uniform in [0, bound); bound > 0.
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(((NextWord() >> 32) * bound) >> 32); }

 private:
  static uint64_t Rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  std::array<uint64_t, 4> state_;
};

}  // namespace harrow::order
