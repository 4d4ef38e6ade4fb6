// What is in memory of programs that compute is mostly numbers of 8 bytes. Of these the lower bytes are noise, and the upper ones, where
// sign and exponent are, nearly all alike: byte by byte zstd sees noise with something in between that it gains little by, and takes
// its time for. With the bytes ordered by their places in words (as shuffle of HDF5 and Blosc does) it leaves the noise alone
// at once, and the rest becomes next to nothing. Text, code and pointers it would spoil. So a few pages of each block are tried, both ways;
// where neither gains anything by them, the block stays as it is.
#include "migrate/block.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "migrate/image.h"

namespace harrow::migrate {
namespace {

constexpr size_t kWord = 8;
constexpr size_t kTried = 16;       // pages of a block
constexpr size_t kWorthOneOf = 64;  // bytes that are to be gained

using Bytes = uint8_t __attribute__((vector_size(16)));
using Deck = std::array<Bytes, kWord>;
constexpr size_t kDeck = sizeof(Deck);  // bytes

/// From each of both one byte after the other, from the `kFirst`-th on: half of both.
template <uint8_t kFirst>
Bytes Riffle(Bytes a, Bytes b) {
  constexpr uint8_t f = kFirst, g = kFirst + sizeof(Bytes);
#ifdef __clang__
  return __builtin_shufflevector(a, b, f, g, f + 1, g + 1, f + 2, g + 2, f + 3, g + 3, f + 4, g + 4, f + 5, g + 5, f + 6, g + 6, f + 7, g + 7);
#else
  return __builtin_shuffle(a, b, Bytes{f, g, f + 1, g + 1, f + 2, g + 2, f + 3, g + 3, f + 4, g + 4, f + 5, g + 5, f + 6, g + 6, f + 7, g + 7});
#endif
}

/// Of 128 bytes one of the first half, one of the second, and so on: the 7 bits of the number of each byte's place go round by one. Where that
/// number is a word of 16 and a place of 8, it is a place and a word after four times; and three times more bring it back.
Deck Riffled(const Deck& deck) {
  Deck out;
  for (size_t i = 0; i < kWord / 2; ++i) {
    out[2 * i] = Riffle<0>(deck[i], deck[i + kWord / 2]);
    out[2 * i + 1] = Riffle<8>(deck[i], deck[i + kWord / 2]);
  }
  return out;
}

void FromPlaces(std::string_view places, char* pages) {
  const size_t plane = places.size() / kWord;
  Deck deck;
  for (size_t at = 0; at < plane; at += sizeof(Bytes)) {
    for (size_t place = 0; place < kWord; ++place) std::memcpy(&deck[place], places.data() + place * plane + at, sizeof(Bytes));
    deck = Riffled(Riffled(Riffled(deck)));
    std::memcpy(pages + at * kWord, deck.data(), kDeck);
  }
}

}  // namespace

std::optional<BlockWay> BlockWayOf(uint8_t number) {
  if (number > static_cast<uint8_t>(BlockWay::kByPlace)) return {};
  return static_cast<BlockWay>(number);
}

std::string_view BlockCoder::ByPlace(std::string_view pages) {
  by_place_.Reserve(pages.size());
  const size_t plane = pages.size() / kWord;
  Deck deck;
  for (size_t at = 0; at < plane; at += sizeof(Bytes)) {
    std::memcpy(deck.data(), pages.data() + at * kWord, kDeck);
    deck = Riffled(Riffled(Riffled(Riffled(deck))));
    for (size_t place = 0; place < kWord; ++place) std::memcpy(by_place_.data() + place * plane + at, &deck[place], sizeof(Bytes));
  }
  return by_place_.First(pages.size());
}

BlockWay BlockCoder::WayOf(std::string_view pages) {
  tried_.clear();
  const size_t every = std::max<size_t>(1, pages.size() / kPage / kTried);
  for (size_t at = 0; at < pages.size(); at += every * kPage) tried_ += pages.substr(at, kPage);
  const size_t zstd = compressor_.Compress(tried_).size(), by_place = compressor_.Compress(ByPlace(tried_)).size();
  const size_t worth = tried_.size() / kWorthOneOf;
  if (std::min(zstd, by_place) + worth > tried_.size()) return BlockWay::kPlain;
  return by_place + worth < zstd ? BlockWay::kByPlace : BlockWay::kZstd;
}

BlockCoder::Packed BlockCoder::Pack(std::string_view pages) {
  const BlockWay way = WayOf(pages);
  if (way == BlockWay::kPlain) return {way, pages};
  const std::string_view packed = compressor_.Compress(way == BlockWay::kByPlace ? ByPlace(pages) : pages);
  return packed.size() < pages.size() ? Packed{way, packed} : Packed{BlockWay::kPlain, pages};
}

Status BlockCoder::Unpack(BlockWay way, std::string_view bytes, char* pages, size_t size) {
  if (way == BlockWay::kZstd) return compressor_.DecompressTo(bytes, pages, size);
  if (way == BlockWay::kByPlace) {
    by_place_.Reserve(size);
    HARROW_RETURN_IF_ERROR(compressor_.DecompressTo(bytes, by_place_.data(), size));
    FromPlaces(by_place_.First(size), pages);
    return {};
  }
  if (bytes.size() != size) return Status(Code::kDamaged, "a block is cut off");
  std::memcpy(pages, bytes.data(), size);
  return {};
}

}  // namespace harrow::migrate
