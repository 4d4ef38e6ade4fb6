#include "store/object.h"

#include "base/text.h"

namespace harrow::store {
namespace {

constexpr size_t kDigits = 32;

char LetterOf(Kind kind) {
  switch (kind) {
    case Kind::kProgram:
      return 'x';
    case Kind::kDirectory:
      return 'd';
    case Kind::kFile:
      break;
  }
  return 'f';
}

std::optional<Kind> KindOf(char letter) {
  switch (letter) {
    case 'f':
      return Kind::kFile;
    case 'x':
      return Kind::kProgram;
    case 'd':
      return Kind::kDirectory;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string ObjectId::Bytes() const {
  std::string out;
  out.reserve(kSize);
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(high >> shift));
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(low >> shift));
  out.push_back(static_cast<char>(kind));
  return out;
}

std::optional<ObjectId> ObjectId::FromBytes(std::string_view bytes) {
  if (bytes.size() != kSize) return std::nullopt;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  if (byte(16) < 1 || byte(16) > 3) return std::nullopt;
  ObjectId id;
  for (size_t i = 0; i < 8; ++i) id.high = id.high << 8 | byte(i);
  for (size_t i = 8; i < 16; ++i) id.low = id.low << 8 | byte(i);
  id.kind = static_cast<Kind>(byte(16));
  return id;
}

std::string ObjectId::Text() const {
  return StrCat(HexDigits(high), HexDigits(low), LetterOf(kind));
}

std::optional<ObjectId> ObjectId::FromText(std::string_view text) {
  if (text.size() != kDigits + 1) return std::nullopt;
  const std::optional<Kind> kind = KindOf(text.back());
  if (!kind) return std::nullopt;
  ObjectId id;
  id.kind = *kind;
  for (size_t i = 0; i < kDigits; ++i) {
    const char c = text[i];
    uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint64_t>(c - 'a' + 10);
    } else {
      return std::nullopt;
    }
    uint64_t& half = i < kDigits / 2 ? id.high : id.low;
    half = half << 4 | digit;
  }
  return id;
}

}  // namespace harrow::store
