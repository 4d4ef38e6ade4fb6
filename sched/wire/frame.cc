#include "wire/frame.h"

#include <cstring>

#include "base/text.h"

namespace harrow::wire {
namespace {
constexpr size_t kHead = 4;
constexpr size_t kKeepCapacity = 1u << 20;

/// Of at least kHead bytes.
uint32_t LengthIn(std::string_view head) {
  uint32_t length = 0;
  for (size_t i = 0; i < kHead; ++i) length |= uint32_t{static_cast<unsigned char>(head[i])} << (8 * i);
  return length;
}
}  // namespace

void AppendFrameHead(uint32_t n, std::string* out) {
  const char head[kHead] = {static_cast<char>(n), static_cast<char>(n >> 8), static_cast<char>(n >> 16),
                            static_cast<char>(n >> 24)};
  out->append(head, kHead);
}

void AppendFrame(std::string_view message, std::string* out) {
  AppendFrameHead(static_cast<uint32_t>(message.size()), out);
  out->append(message);
}

std::optional<std::string_view> TakeFrame(std::string_view bytes, std::string_view* rest) {
  if (bytes.size() < kHead || LengthIn(bytes) > bytes.size() - kHead) return std::nullopt;
  const std::string_view message = bytes.substr(kHead, LengthIn(bytes));
  *rest = bytes.substr(kHead + message.size());
  return message;
}

bool FrameReader::Next(std::string_view* message) {
  std::string_view rest = std::string_view(buffer_).substr(begin_);
  if (rest.size() >= kHead) {
    const uint32_t length = LengthIn(rest);
    if (length > max_message_) {
      status_ = Status(Code::kDamaged, StrCat("a message of ", length, " bytes was announced; at most ",
                                              max_message_, " are allowed"));
      return false;
    }
    if (rest.size() - kHead >= length) {
      *message = rest.substr(kHead, length);
      begin_ += kHead + length;
      return true;
    }
  }
  buffer_.erase(0, begin_);
  if (buffer_.empty() && buffer_.capacity() > kKeepCapacity) buffer_.shrink_to_fit();
  begin_ = 0;
  return false;
}

}  // namespace harrow::wire
