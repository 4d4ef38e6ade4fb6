#pragma once

#include <cstddef>
#include <cstdint>
#include <google/protobuf/message_lite.h>
#include <string>
#include <string_view>

#include "base/status.h"

// The frames of which a flow is stored (flow_format.md).

namespace harrow::run {

inline constexpr size_t kFrameHeader = 16;  // length, raw length, checksum

template <class T>
void PutInteger(std::string* out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

template <class T>
T GetInteger(std::string_view data, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof value; ++i)
    value |= static_cast<T>(static_cast<uint8_t>(data[at + i])) << (8 * i);
  return value;
}

/// kInvalid: the message is larger than a frame can be.
Status AppendFrame(const google::protobuf::MessageLite& message, std::string* out);

struct FrameHeader {
  uint32_t length = 0, raw_length = 0;
  uint64_t checksum = 0;
};
enum class FrameState : uint8_t {
  kWhole,
  kEnd,      // no frame, but the header of an end
  kCut,      // it goes on behind the data
  kChanged,  // its checksum does not fit
  kPacked,   // it does not unpack
};
/// The frame at `*at`, unpacked into `raw`. `*at` is behind it then, where there is one that ends within the data.
FrameState TakeFrame(std::string_view data, size_t* at, std::string* raw, FrameHeader* header);

}  // namespace harrow::run
