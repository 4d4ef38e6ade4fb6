#pragma once

#include <functional>
#include <string>

#include "wire/harrow.pb.h"

namespace harrow::run {

// From server to keeper: pb.Progress messages, each after its length as a little-endian u32.

/// Writes without ever waiting: what a full pipe does not take whole is left out, the next figures replace
/// it.
class ProgressWriter {
 public:
  /// Makes `fd` non-blocking; -1: writes nowhere.
  explicit ProgressWriter(int fd);
  bool Write(const pb::Progress& progress);

 private:
  int fd_;
  std::string buffer_;
};

/// Takes bytes apart again.
class ProgressReader {
 public:
  explicit ProgressReader(std::function<void(const pb::Progress&)> got) : got_(std::move(got)) {}
  /// False when it is no progress.
  bool Take(std::string_view bytes);
  /// A new writer begins.
  void Reset() { buffer_.clear(); }

 private:
  std::function<void(const pb::Progress&)> got_;
  std::string buffer_;
};

}  // namespace harrow::run
