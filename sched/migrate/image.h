#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "base/status.h"

namespace harrow::migrate {

inline constexpr size_t kPage = 4096;

bool IsZeroPage(std::string_view page);
/// So many pages hold so many bytes, the last one perhaps in part.
constexpr size_t PagesOf(uint64_t bytes) { return static_cast<size_t>((bytes + kPage - 1) / kPage); }

/// A stretch of a process's addresses, as /proc/PID/maps has it.
struct Region {
  uint64_t begin = 0, end = 0;  // addresses
  std::string permissions{};    // "rw-p"
  std::string name{};           // what is mapped there: a file, "[heap]", "[stack]"; empty: nothing that has a name

  uint64_t size() const { return end - begin; }
  bool operator==(const Region&) const = default;
};

/// The memory of a process, one region after the other. Each begins at a page.
struct Image {
  std::vector<Region> regions{};
  std::string bytes{};

  bool operator==(const Image&) const = default;
};

/// The regions of such a text. kDamaged: it is none.
Result<std::vector<Region>> ParseMaps(std::string_view text);
/// What of a process belongs into its image: what it can read and the kernel does not make anew for each.
bool BelongsToImage(const Region& region);
/// The image of a process that stands still (SIGSTOP): the caller sees to that. Pages that cannot be read are zeros.
/// kUnavailable: it cannot be read. kInvalid: it has, or has reserved, more than 64 GiB.
Result<Image> ReadImage(pid_t pid);

/// The image as one text of bytes, and back: migrate_format.md.
std::string ToBytes(const Image& image);
Result<Image> ImageOf(std::string_view bytes);

/// How much of two images is alike, by region: words of so many bytes that are equal at the same address.
struct Likeness {
  std::string name{};
  uint64_t used = 0;    // bytes of the first image
  uint64_t shared = 0;  // of these, equal in the second
};
std::vector<Likeness> Compare(const Image& one, const Image& other, size_t word);

}  // namespace harrow::migrate
