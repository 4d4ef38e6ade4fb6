#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "store/object.h"

namespace harrow::store {

/// What a directory object holds: every file, link and directory below it, by its path in it, in ascending
/// order of paths (bytes); a directory before what is in it.
struct Entry {
  enum class Type : uint8_t { kFile = 1, kDirectory = 2, kLink = 3 };
  std::string path{};  // "a/b", relative to the directory; no ".", "..", empty part, or NUL
  Type type = Type::kFile;
  ObjectId id{};         // of a file
  int64_t bytes = 0;     // of a file
  std::string target{};  // of a link
};

/// The bytes of a listing, whose hash names the directory (store_format.md).
std::string WriteListing(const std::vector<Entry>& entries);
/// kDamaged when these are not the bytes of a listing: it may come from another node, so every path is
/// checked.
Result<std::vector<Entry>> ReadListing(std::string_view bytes);

}  // namespace harrow::store
