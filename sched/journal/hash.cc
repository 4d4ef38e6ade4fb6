#include "journal/hash.h"

#include <bit>
#include <cstring>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

namespace harrow::journal {
namespace {
constexpr size_t kDrainAt = 60000;
}

struct Chain::State {
  XXH3_state_t xxh;
};

Chain::Chain() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->xxh);
  Add(int64_t{0});
}

Chain::~Chain() = default;

void Chain::Add(int64_t number) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof(number)];
  memcpy(bytes, &number, sizeof(number));
  buffer_.append(bytes, sizeof(bytes));
  if (buffer_.size() > kDrainAt) Drain();
}

void Chain::Add(std::string_view text) {
  Add(static_cast<int64_t>(text.size()));
  buffer_.append(text);
}

uint64_t Chain::EndGroup() {
  Drain();
  value_ = XXH3_64bits_digest(&state_->xxh);
  XXH3_64bits_reset(&state_->xxh);
  Add(static_cast<int64_t>(value_));
  return value_;
}

void Chain::Drain() {
  XXH3_64bits_update(&state_->xxh, buffer_.data(), buffer_.size());
  buffer_.clear();
}

}  // namespace harrow::journal
