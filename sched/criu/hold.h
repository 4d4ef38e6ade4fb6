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
  int limit_ms = 60'000;  // CRIU is killed when it takes longer for an image; to restore one it has four times that
  std::vector<std::string> argv{};
};

/// How the text in `trouble` begins.
inline constexpr const char* kNoImage = "dump: ";
inline constexpr const char* kNoProcess = "restore: ";
inline constexpr const char* kLostProcess = "lost: ";

/// In the environment of who holds a program: the descriptor from which the program's own environment is read, entries with a NUL behind
/// each. Without it the program gets the holder's.
inline constexpr const char* kEnvironmentFd = "HARROW_HELD_ENVIRONMENT";
/// Whether a whole image lies in that directory.
bool HasHeld(const std::string& directory);

/// Starts a program, or restores it, in a world of process numbers of its own, and stands for it: ends as it does, hands on the
/// signals that only it gets, and has an image made of it when asked, after which it ends with `status`. The caller's process, which has
/// one thread; its descriptors 0, 1 and 2 are the program's. Returns the exit status.
int Hold(const HoldOptions& options);

/// Whether this works on this machine, by a process that is dumped and restored in a directory that is made below `place`, and removed:
/// CRIU's version. kUnavailable, with the reason. Forks; takes some tenths of a second.
Result<std::string> Try(const std::string& program, const std::string& place);

}  // namespace harrow::criu
