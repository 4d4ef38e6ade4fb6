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

  bool operator==(const Entry&) const = default;
};

constexpr size_t kLongestName = 255;            // of a part of a path
constexpr size_t kLongestPath = 32u << 10;      // in a listing
constexpr size_t kLongestTarget = 4095;         // of a link
constexpr size_t kLargestListing = 256u << 20;  // bytes

/// The bytes of a listing, whose hash names the directory (store_format.md).
std::string WriteListing(const std::vector<Entry>& entries);
/// kDamaged when these are not the bytes of a listing: it may come from another node, so every path is
/// checked.
Result<std::vector<Entry>> ReadListing(std::string_view bytes);

/// The files of a listing, each once, in the order of their ids.
std::vector<Object> FilesOf(const std::vector<Entry>& entries);
/// The bytes of all files of a listing together; one that is there twice counts twice.
int64_t BytesOf(const std::vector<Entry>& entries);

/// May this be the name of a file in a directory?
bool IsName(std::string_view name);
/// Is it a path "a/b" of such names?
bool IsPath(std::string_view path);

}  // namespace harrow::store
