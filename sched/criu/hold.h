#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "criu/rpc.h"

namespace harrow::criu {

struct HoldOptions {
  std::string program;     // CRIU
  std::string images;      // a directory: where an image is written to
  std::string restore;     // the image in that directory is gone on from; empty: `argv` is started
  std::string trouble;     // a file: why there is no image (kNoImage), no process of one (kNoProcess), or
                           // neither (kLostProcess)
  int ask = 0;             // the signal that asks for an image
  int status = 0;          // the exit status when there is one
  std::vector<std::string> argv{};
};

/// How the text in `trouble` begins.
inline constexpr const char* kNoImage = "dump: ";
inline constexpr const char* kNoProcess = "restore: ";
inline constexpr const char* kLostProcess = "lost: ";

/// Starts a program, or restores it, in a world of process numbers of its own, and stands for it: ends as it does, hands on the
/// signals that only it gets, and has an image made of it when asked, after which it ends with `status`. The caller's process, which has
/// one thread; its descriptors 0, 1 and 2 are the program's. Returns the exit status.
int Hold(const HoldOptions& options);

/// Whether this works on this machine, by a process that is dumped and restored in a directory that is made below `place`, and removed:
/// CRIU's version. kUnavailable, with the reason. Forks; takes some tenths of a second.
Result<std::string> Try(const std::string& program, const std::string& place);

}  // namespace harrow::criu
