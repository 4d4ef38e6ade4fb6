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

/// Eight words, as the rows of a table of bytes: its columns.
void SwapRowsAndColumns(std::array<uint64_t, kWord>* words) {
  const auto swap = [words](size_t a, size_t b, unsigned bits, uint64_t mask) {
    const uint64_t both = ((*words)[a] >> bits ^ (*words)[b]) & mask;
    (*words)[b] ^= both;
    (*words)[a] ^= both << bits;
  };
  for (const size_t i : {0u, 1u, 2u, 3u}) swap(i, i + 4, 32, 0x00000000FFFFFFFFu);
  for (const size_t i : {0u, 1u, 4u, 5u}) swap(i, i + 2, 16, 0x0000FFFF0000FFFFu);
  for (const size_t i : {0u, 2u, 4u, 6u}) swap(i, i + 1, 8, 0x00FF00FF00FF00FFu);
}

void FromPlaces(std::string_view places, char* pages) {
  const size_t plane = places.size() / kWord;
  std::array<uint64_t, kWord> words;
  for (size_t at = 0; at < plane; at += kWord) {
    for (size_t place = 0; place < kWord; ++place) std::memcpy(&words[place], places.data() + place * plane + at, kWord);
    SwapRowsAndColumns(&words);
    std::memcpy(pages + at * kWord, words.data(), sizeof words);
  }
}

}  // namespace

std::optional<BlockWay> BlockWayOf(uint8_t number) {
  if (number > static_cast<uint8_t>(BlockWay::kByPlace)) return {};
  return static_cast<BlockWay>(number);
}

std::string_view BlockCoder::ByPlace(std::string_view pages) {
  if (by_place_.size() < pages.size()) by_place_.resize(pages.size());
  const size_t plane = pages.size() / kWord;
  std::array<uint64_t, kWord> words;
  for (size_t at = 0; at < plane; at += kWord) {
    std::memcpy(words.data(), pages.data() + at * kWord, sizeof words);
    SwapRowsAndColumns(&words);
    for (size_t place = 0; place < kWord; ++place) std::memcpy(by_place_.data() + place * plane + at, &words[place], kWord);
  }
  return std::string_view(by_place_).substr(0, pages.size());
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

Status BlockCoder::Unpack(BlockWay way, std::string_view bytes, std::string* pages) {
  if (way == BlockWay::kZstd) return compressor_.DecompressTo(bytes, pages->data(), pages->size());
  if (way == BlockWay::kByPlace) {
    if (by_place_.size() < pages->size()) by_place_.resize(pages->size());
    HARROW_RETURN_IF_ERROR(compressor_.DecompressTo(bytes, by_place_.data(), pages->size()));
    FromPlaces(std::string_view(by_place_).substr(0, pages->size()), pages->data());
    return {};
  }
  if (bytes.size() != pages->size()) return Status(Code::kDamaged, "a block is cut off");
  std::memcpy(pages->data(), bytes.data(), bytes.size());
  return {};
}

}  // namespace harrow::migrate
