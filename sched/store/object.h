#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace harrow::store {

enum class Kind : uint8_t {
  kFile = 1,
  // A file that may be executed.
  kProgram = 2,
  // A listing of a directory (listing.h): its files are objects of their own.
  kDirectory = 3,
};

/// The name of a content: XXH3-128 of a file's bytes, or of a directory's listing. Equal ids, equal bytes.
struct ObjectId {
  uint64_t high = 0, low = 0;
  Kind kind = Kind::kFile;

  auto operator<=>(const ObjectId&) const = default;

  static constexpr size_t kSize = 17;  // of Bytes()
  /// For messages and records.
  std::string Bytes() const;
  /// None: these bytes are no id.
  static std::optional<ObjectId> FromBytes(std::string_view bytes);
  /// 32 hexadecimal digits and a letter: f, x or d. The object's name on disk.
  std::string Text() const;
  static std::optional<ObjectId> FromText(std::string_view text);
};

struct Object {
  ObjectId id;
  int64_t bytes = 0;  // of a directory: of all files below it; a file that is there twice counts twice

  auto operator<=>(const Object&) const = default;
};

}  // namespace harrow::store

template <>
struct std::hash<harrow::store::ObjectId> {
  size_t operator()(const harrow::store::ObjectId& id) const noexcept { return id.low; }
};
