#include "run/progress_pipe.h"

#include <cstring>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

namespace harrow::run {
namespace {

constexpr size_t kPrefix = 4;

}  // namespace

ProgressWriter::ProgressWriter(int fd) : fd_(fd) {
  if (fd_ >= 0) fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
}

bool ProgressWriter::Write(const pb::Progress& progress) {
  if (fd_ < 0) return false;
  buffer_.assign(kPrefix, '\0');
  progress.AppendToString(&buffer_);
  const size_t length = buffer_.size() - kPrefix;
  if (buffer_.size() > PIPE_BUF) return false;  // up to that, a pipe takes all or nothing
  for (size_t i = 0; i < kPrefix; ++i) buffer_[i] = static_cast<char>(length >> (8 * i));
  return write(fd_, buffer_.data(), buffer_.size()) == static_cast<ssize_t>(buffer_.size());
}

bool ProgressReader::Take(std::string_view bytes) {
  buffer_.append(bytes);
  size_t at = 0;
  while (buffer_.size() - at >= kPrefix) {
    size_t length = 0;
    for (size_t i = 0; i < kPrefix; ++i) length |= size_t{static_cast<uint8_t>(buffer_[at + i])} << (8 * i);
    if (length > PIPE_BUF) return false;
    if (buffer_.size() - at - kPrefix < length) break;
    pb::Progress progress;
    if (!progress.ParseFromArray(buffer_.data() + at + kPrefix, static_cast<int>(length))) return false;
    at += kPrefix + length;
    got_(progress);
  }
  buffer_.erase(0, at);
  return true;
}

}  // namespace harrow::run
