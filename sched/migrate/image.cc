#include "migrate/image.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <map>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "os/posix_files.h"

namespace harrow::migrate {
namespace {

constexpr uint64_t kMostOfAnImage = uint64_t{64} << 30;  // bytes; it is read into memory
constexpr std::string_view kImageHead = "harrow-image 1 ";

std::string Hex(uint64_t number) {
  char text[16];
  const auto end = std::to_chars(text, text + sizeof text, number, 16).ptr;
  return {text, end};
}

/// Takes a hexadecimal number and the character behind it off the text.
bool TakeHex(std::string_view* text, char behind, uint64_t* out) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *out, 16);
  if (error != std::errc() || end == text->data() + text->size() || *end != behind) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()) + 1);
  return true;
}

/// "begin-end permissions", and what follows behind a blank.
bool TakeRegion(std::string_view* line, Region* region) {
  if (!TakeHex(line, '-', &region->begin) || !TakeHex(line, ' ', &region->end) || region->end < region->begin) return false;
  const size_t blank = std::min(line->find(' '), line->size());
  region->permissions = line->substr(0, blank);
  line->remove_prefix(std::min(line->size(), blank + 1));
  return region->permissions.size() == 4;
}

}  // namespace

bool IsZeroPage(std::string_view page) {
  return page.front() == 0 && std::memcmp(page.data(), page.data() + 1, page.size() - 1) == 0;
}

Result<std::vector<Region>> ParseMaps(std::string_view text) {
  std::vector<Region> regions;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    Region region;
    if (!TakeRegion(&line, &region)) return Status(Code::kDamaged, StrCat("\"", Printable(line), "\" is no line of /proc/PID/maps"));
    for (int column = 0; column < 3; ++column) {  // offset, device, inode
      const size_t blank = line.find(' ');
      line.remove_prefix(blank == std::string_view::npos ? line.size() : blank + 1);
    }
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    region.name = line;
    regions.push_back(std::move(region));
  }
  return regions;
}

bool BelongsToImage(const Region& region) {
  return region.permissions.starts_with('r') && region.name != "[vvar]" && region.name != "[vdso]" && region.name != "[vsyscall]" &&
         region.name != "[vvar_vclock]" && !region.name.starts_with("/dev/");
}

Result<Image> ReadImage(pid_t pid) {
  std::ifstream maps(StrCat("/proc/", static_cast<int>(pid), "/maps"));
  const std::string text((std::istreambuf_iterator<char>(maps)), {});
  Result<std::vector<Region>> regions = ParseMaps(text);
  if (!regions.ok()) return regions.status();
  const std::string path = StrCat("/proc/", static_cast<int>(pid), "/mem");
  const os::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok() || regions->empty())
    return Status(Code::kUnavailable, StrCat("cannot read ", path, ": ", fd.ok() ? "it has no memory" : strerror(errno)));
  std::erase_if(*regions, [](const Region& region) { return !BelongsToImage(region); });
  uint64_t size = 0;
  for (const Region& region : *regions) size += region.size();
  if (size > kMostOfAnImage)
    return Status(Code::kInvalid, StrCat("process ", static_cast<int>(pid), " has ", FormatBytes(size), " of memory, with what it has reserved; at most ",
                                         FormatBytes(kMostOfAnImage), " make an image"));
  Image image;
  for (Region& region : *regions) {
    const size_t at = image.bytes.size();
    image.bytes.resize(at + region.size());
    for (uint64_t done = 0; done < region.size();) {
      const ssize_t n = TEMP_FAILURE_RETRY(pread(fd.get(), image.bytes.data() + at + done, region.size() - done, static_cast<off_t>(region.begin + done)));
      // One page of it may not be there: what is behind it may.
      done += n > 0 ? static_cast<uint64_t>(n) : kPage - done % kPage;
    }
    image.regions.push_back(std::move(region));
  }
  return image;
}

std::string ToBytes(const Image& image) {
  std::string head = StrCat(kImageHead, image.regions.size(), "\n");
  for (const Region& region : image.regions)
    head += StrCat(Hex(region.begin), "-", Hex(region.end), " ", region.permissions, " ", region.name, "\n");
  head.resize((head.size() + kPage - 1) / kPage * kPage, '\0');
  return head + image.bytes;
}

Result<Image> ImageOf(std::string_view bytes) {
  const Status damaged(Code::kDamaged, "the image does not read as it was written");
  if (!bytes.starts_with(kImageHead)) return damaged;
  std::string_view text = bytes.substr(kImageHead.size());
  uint64_t count = 0, size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end == text.data() + text.size() || *end != '\n') return damaged;
  text.remove_prefix(static_cast<size_t>(end - text.data()) + 1);
  Image image;
  for (; count > 0; --count) {
    const size_t stop = text.find('\n');
    if (stop == std::string_view::npos) return damaged;
    std::string_view line = text.substr(0, stop);
    text.remove_prefix(stop + 1);
    Region region;
    if (!TakeRegion(&line, &region)) return damaged;
    region.name = line;
    size += region.size();
    image.regions.push_back(std::move(region));
  }
  const size_t head = (bytes.size() - text.size() + kPage - 1) / kPage * kPage;
  if (head > bytes.size() || bytes.size() - head != size) return damaged;
  image.bytes = bytes.substr(head);
  return image;
}

std::vector<Likeness> Compare(const Image& one, const Image& other, size_t word) {
  std::map<uint64_t, std::pair<uint64_t, size_t>> others;  // by the end of a region: its begin, and where its bytes are
  size_t at = 0;
  for (const Region& region : other.regions) {
    others[region.end] = {region.begin, at};
    at += region.size();
  }
  std::vector<Likeness> all;
  at = 0;
  for (const Region& region : one.regions) {
    auto like = std::find_if(all.begin(), all.end(), [&](const Likeness& each) { return each.name == region.name; });
    if (like == all.end()) like = all.insert(all.end(), {.name = region.name});
    like->used += region.size();
    for (uint64_t address = region.begin; address + word <= region.end; address += word) {
      const auto there = others.upper_bound(address);
      if (there == others.end() || address < there->second.first || address + word > there->first) continue;
      const char* const mine = one.bytes.data() + at + (address - region.begin);
      const char* const its = other.bytes.data() + there->second.second + (address - there->second.first);
      if (std::memcmp(mine, its, word) == 0) like->shared += word;
    }
    at += region.size();
  }
  return all;
}

}  // namespace harrow::migrate
