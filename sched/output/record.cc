#include "output/record.h"

#include <bit>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace harrow::output {
namespace {

static_assert(std::endian::native == std::endian::little, "stored numbers are little-endian");

constexpr uint32_t kOldestVersion = 1;
constexpr uint32_t kRecordMagic = 0x31435248;  // "HRC1"

template <class T>
T Load(const char* at) {
  T value;
  memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void Store(char* at, T value) {
  memcpy(at, &value, sizeof value);
}

bool KnownStream(uint8_t value) {
  return value == static_cast<uint8_t>(Stream::kStdout) || value == static_cast<uint8_t>(Stream::kStderr);
}

/// Over the header behind magic and checksum, and the payload.
uint64_t Checksum(const char* header, std::string_view payload) {
  const uint64_t seed = XXH3_64bits(header + 12, kRecordHeader - 12);
  return XXH3_64bits_withSeed(payload.data(), payload.size(), seed);
}

uint32_t IndexCheck(const char* entry) {
  return static_cast<uint32_t>(XXH3_64bits(entry, kIndexEntry - 4));
}

}  // namespace

std::string FileHeader(std::string_view magic, uint32_t file_number) {
  std::string out(kFileHeader, '\0');
  memcpy(out.data(), magic.data(), 8);
  Store(out.data() + 8, kFormatVersion);
  Store(out.data() + 12, file_number);
  return out;
}

bool CheckFileHeader(std::string_view magic, std::string_view data) {
  return data.size() >= kFileHeader && data.substr(0, 8) == magic &&
         Load<uint32_t>(data.data() + 8) >= kOldestVersion &&
         Load<uint32_t>(data.data() + 8) <= kFormatVersion;
}

void AppendRecord(const Record& record, std::string* out) {
  char header[kRecordHeader] = {};
  Store(header, kRecordMagic);
  Store(header + 12, static_cast<uint32_t>(record.payload.size()));
  Store(header + 16, record.task.value);
  Store(header + 20, record.attempt);
  header[24] = static_cast<char>(record.stream);
  Store(header + 28, record.rank ? *record.rank + 1 : uint32_t{0});
  Store(header + 4, Checksum(header, record.payload));
  out->append(header, sizeof header);
  out->append(record.payload);
}

std::optional<Record> ParseRecord(std::string_view data) {
  if (data.size() < kRecordHeader || Load<uint32_t>(data.data()) != kRecordMagic) return std::nullopt;
  const uint32_t length = Load<uint32_t>(data.data() + 12);
  if (length > kMaxPayload || length > data.size() - kRecordHeader) return std::nullopt;
  const std::string_view payload = data.substr(kRecordHeader, length);
  if (Load<uint64_t>(data.data() + 4) != Checksum(data.data(), payload)) return std::nullopt;
  const auto stream = static_cast<uint8_t>(data[24]);
  if (!KnownStream(stream)) return std::nullopt;
  const uint32_t of_rank = Load<uint32_t>(data.data() + 28);
  return Record{.task = TaskId(Load<uint32_t>(data.data() + 16)),
                .attempt = Load<uint32_t>(data.data() + 20),
                .stream = static_cast<Stream>(stream),
                .payload = payload,
                .rank = of_rank > 0 ? std::optional(of_rank - 1) : std::nullopt};
}

size_t FindRecord(std::string_view data, size_t from) {
  char magic[4];
  Store(magic, kRecordMagic);
  for (size_t at = from; (at = data.find(std::string_view(magic, 4), at)) != std::string_view::npos; ++at) {
    if (ParseRecord(data.substr(at))) return at;
  }
  return std::string_view::npos;
}

void AppendIndexEntry(const IndexEntry& entry, std::string* out) {
  char bytes[kIndexEntry];
  Store(bytes, entry.offset);
  Store(bytes + 8, entry.task.value);
  Store(bytes + 12, entry.attempt);
  Store(bytes + 16, entry.length | static_cast<uint32_t>(entry.stream) << 24);
  Store(bytes + 20, IndexCheck(bytes));
  out->append(bytes, sizeof bytes);
}

std::optional<IndexEntry> ParseIndexEntry(std::string_view data) {
  if (data.size() < kIndexEntry || Load<uint32_t>(data.data() + 20) != IndexCheck(data.data()))
    return std::nullopt;
  const uint32_t length_and_stream = Load<uint32_t>(data.data() + 16);
  return IndexEntry{.task = TaskId(Load<uint32_t>(data.data() + 8)),
                    .attempt = Load<uint32_t>(data.data() + 12),
                    .stream = static_cast<Stream>(length_and_stream >> 24),
                    .length = length_and_stream & 0xFFFFFF,
                    .offset = Load<uint64_t>(data.data())};
}

}  // namespace harrow::output
