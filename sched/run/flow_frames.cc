#include "run/flow_frames.h"

#include <cstring>
#include <zstd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/text.h"

namespace harrow::run {
namespace {

constexpr uint32_t kMaxRaw = 1u << 30;
constexpr int kLevel = 1;

}  // namespace

Status AppendFrame(const google::protobuf::MessageLite& message, std::string* out) {
  std::string raw;
  if (!message.SerializeToString(&raw) || raw.size() > kMaxRaw) {
    return Status(Code::kInvalid, "a part of the flow is larger than a run's flow file can hold (1 GiB)");
  }
  const size_t at = out->size();
  const size_t bound = ZSTD_compressBound(raw.size());
  out->resize(at + kFrameHeader + bound);
  const size_t length = ZSTD_compress(out->data() + at + kFrameHeader, bound, raw.data(), raw.size(), kLevel);
  if (ZSTD_isError(length)) {
    out->resize(at);
    return Status(Code::kInternal, StrCat("zstd: ", ZSTD_getErrorName(length)));
  }
  out->resize(at + kFrameHeader + length);
  std::string header;
  PutInteger<uint32_t>(&header, static_cast<uint32_t>(length));
  PutInteger<uint32_t>(&header, static_cast<uint32_t>(raw.size()));
  PutInteger<uint64_t>(&header, XXH3_64bits(out->data() + at + kFrameHeader, length));
  std::memcpy(out->data() + at, header.data(), kFrameHeader);
  return Status();
}

FrameState TakeFrame(std::string_view data, size_t* at, std::string* raw, FrameHeader* header) {
  if (data.size() - *at < kFrameHeader) return FrameState::kCut;
  *header = {.length = GetInteger<uint32_t>(data, *at),
             .raw_length = GetInteger<uint32_t>(data, *at + 4),
             .checksum = GetInteger<uint64_t>(data, *at + 8)};
  const size_t begin = *at + kFrameHeader;
  if (header->length == 0) {
    *at = begin;
    return FrameState::kEnd;
  }
  if (data.size() - begin < header->length || header->raw_length > kMaxRaw) return FrameState::kCut;
  const std::string_view packed = data.substr(begin, header->length);
  *at = begin + header->length;
  if (XXH3_64bits(packed.data(), packed.size()) != header->checksum) return FrameState::kChanged;
  raw->resize(header->raw_length);
  const size_t got = ZSTD_decompress(raw->data(), raw->size(), packed.data(), packed.size());
  return ZSTD_isError(got) || got != header->raw_length ? FrameState::kPacked : FrameState::kWhole;
}

}  // namespace harrow::run
