#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "output/packed_output.h"

// Bytes of the packed output and its index (output_format.md).

namespace harrow::output {

constexpr uint32_t kFormatVersion = 2;
constexpr size_t kFileHeader = 16;
constexpr size_t kRecordHeader = 32;
constexpr size_t kIndexEntry = 24;
constexpr size_t kMaxPayload = 1 << 20;

struct Record {
  TaskId task;
  uint32_t attempt = 0;
  Stream stream = Stream::kStdout;
  std::string_view payload;
  std::optional<uint32_t> rank = {};
};

struct IndexEntry {
  TaskId task;
  uint32_t attempt = 0;
  Stream stream = Stream::kStdout;
  uint32_t length = 0;  // of the payload
  uint64_t offset = 0;  // of the record
  uint64_t end() const { return offset + kRecordHeader + length; }
};

std::string FileHeader(std::string_view magic, uint32_t file_number);
/// Whether `data` begins with a header of this magic and a version that we read.
bool CheckFileHeader(std::string_view magic, std::string_view data);
constexpr std::string_view kOutputMagic = "HROUTPUT";
constexpr std::string_view kIndexMagic = "HRINDEX\n";

void AppendRecord(const Record& record, std::string* out);
/// The record that `data` begins with; none when it is not whole and undamaged.
std::optional<Record> ParseRecord(std::string_view data);
/// Where, from `from` on, the next undamaged record begins; npos when none is whole in `data`.
size_t FindRecord(std::string_view data, size_t from);

void AppendIndexEntry(const IndexEntry& entry, std::string* out);
std::optional<IndexEntry> ParseIndexEntry(std::string_view data);

}  // namespace harrow::output
