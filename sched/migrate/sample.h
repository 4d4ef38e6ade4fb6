#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace harrow::migrate {

/// Some of the digests of an image's contents, always the same ones, sorted, each once: so what two samples have in common is
/// in proportion to what the images have.
using Sample = std::vector<uint64_t>;
constexpr uint64_t kSampled = 16;  // one content in so many

/// Whether a page is drawn, by two words of it: equal pages all are, wherever they lie, or none is.
bool IsDrawn(uint64_t one, uint64_t other, uint64_t one_of);

/// How many digests are in both.
size_t InCommon(const Sample& a, const Sample& b);

}  // namespace harrow::migrate
