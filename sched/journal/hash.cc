#include "journal/hash.h"

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
  waiting_.Add(static_cast<uint64_t>(number));
  if (waiting_.size() > kDrainAt) Drain();
}

void Chain::Add(std::string_view text) {
  waiting_.Add(text);
  if (waiting_.size() > kDrainAt) Drain();
}

uint64_t Chain::EndGroup() {
  Drain();
  value_ = XXH3_64bits_digest(&state_->xxh);
  XXH3_64bits_reset(&state_->xxh);
  Add(static_cast<int64_t>(value_));
  return value_;
}

void Chain::Drain() {
  XXH3_64bits_update(&state_->xxh, waiting_.bytes().data(), waiting_.size());
  waiting_.Clear();
}

}  // namespace harrow::journal
