#pragma once

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <vector>

#include "base/status.h"
#include "os/posix_files.h"
#include "store/hasher.h"

namespace harrow::store {

using os::Fd;
using os::OpenAt;

/// "cannot WHAT PATH: REASON". Where the disk is full: with what is free on that of `disk`.
Status Failed(std::string_view what, std::string_view path, int error, int disk = -1);
inline Status Failed(std::string_view what, std::string_view path) {
  return Failed(what, path, errno);
}

bool WriteAt(int fd, int64_t offset, std::string_view data);
/// All of a file, of which no more than `limit` bytes are taken.
Result<std::string> ReadAll(int fd, std::string_view path, size_t limit);

struct Copied {
  int64_t bytes = 0;
  int read_error = 0;
  int write_error = 0;
  bool ok() const { return read_error == 0 && write_error == 0; }
};
/// Reads `from` from `offset` to its end, in large blocks, into `hasher` and `to` (-1: nowhere).
Copied ReadThrough(int from, int64_t offset, Hasher* hasher, int to);
/// As it is, by whatever the kernel has for it (reflink, within the server of a network disk), else as above.
Copied CopyWhole(int from, int to, int64_t bytes);
/// Makes `to` share the blocks of `from`; 0 or the error.
int Clone(int from, int to);
/// Is this error of Clone or link one that the file system will give always?
bool NeverWorks(int error);

/// The time of modification of every object (store_format.md).
bool HasObjectTime(const struct stat& info);
/// Gives a file that time, and the mode of an object.
bool Seal(int fd, bool program);

/// The names in a directory, not sorted, and without . and .. .
struct Listed {
  std::string name;
  unsigned char type = 0;  // DT_*
};
/// 0 or the error.
int List(int directory, std::vector<Listed>* out);

}  // namespace harrow::store
