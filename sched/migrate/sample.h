#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace harrow::migrate {

/// Some of the digests of an image's contents, always the same ones, sorted, each once: so what two samples have in common is
/// in proportion to what the images have.
using Sample = std::vector<uint64_t>;
constexpr uint64_t kSampled = 16;  // one digest in so many

/// How many digests are in both.
size_t InCommon(const Sample& a, const Sample& b);

}  // namespace harrow::migrate
