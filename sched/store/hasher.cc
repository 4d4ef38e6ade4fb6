#include "store/hasher.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace harrow::store {

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  Reset();
}

Hasher::~Hasher() = default;

void Hasher::Reset() {
  XXH3_128bits_reset(&state_->xxh);
}

void Hasher::Add(const char* data, size_t size) {
  XXH3_128bits_update(&state_->xxh, data, size);
}

ObjectId Hasher::Id(Kind kind) const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return {.high = hash.high64, .low = hash.low64, .kind = kind};
}

ObjectId IdOf(std::string_view bytes, Kind kind) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.high = hash.high64, .low = hash.low64, .kind = kind};
}

}  // namespace harrow::store
