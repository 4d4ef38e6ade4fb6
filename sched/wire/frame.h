#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace harrow::wire {

/// Appends what a frame begins with: the length of its message (4 bytes, little-endian).
void AppendFrameHead(uint32_t length, std::string* out);
/// Appends one frame: its head, then the message.
void AppendFrame(std::string_view message, std::string* out);

/// The frame at the beginning of `bytes`: its message, and `rest`, what comes after it. None: it is cut short.
std::optional<std::string_view> TakeFrame(std::string_view bytes, std::string_view* rest);

/// Cuts a decrypted stream into messages. Holds no more than what has arrived: a length that is announced
/// costs nothing.
class FrameReader {
 public:
  explicit FrameReader(uint32_t max_message) : max_message_(max_message) {}
  /// Where the stream is appended; never while a message of Next is in use.
  std::string* buffer() { return &buffer_; }
  /// True with the next whole message, which stays valid until the stream is appended to or Next is called
  /// again.
  bool Next(std::string_view* message);
  /// kDamaged once a frame was longer than allowed; there is no way on from there.
  const Status& status() const { return status_; }

 private:
  std::string buffer_;
  size_t begin_ = 0;
  uint32_t max_message_;
  Status status_;
};

}  // namespace harrow::wire
