#include "os/file_identity.h"

#include <cerrno>
#include <cstring>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/text.h"

namespace harrow::os {
namespace {

constexpr int kMostLinks = 40;  // as the kernel's

std::string TextOf(const struct stat& info) {
  return StrCat(info.st_dev, ":", info.st_ino);
}

}  // namespace

Result<std::string> FileIdentity(const std::string& path, bool also_missing) {
  std::string name = path;
  int error = ELOOP;
  for (int links = 0; links <= kMostLinks; ++links) {
    struct stat info {};
    if (stat(name.c_str(), &info) == 0) return TextOf(info);
    error = errno;
    if (error != ENOENT) break;
    const size_t end = name.rfind('/') + 1;  // of the directory; npos + 1 is 0
    char target[PATH_MAX];
    const ssize_t length = readlink(name.c_str(), target, sizeof target);
    if (length > 0) {
      const std::string to(target, static_cast<size_t>(length));
      name = to.starts_with('/') ? to : StrCat(name.substr(0, end), to);
      continue;
    }
    if (links == 0 && !also_missing) break;
    if (stat(end == 0 ? "." : name.substr(0, end).c_str(), &info) != 0) break;
    return StrCat(TextOf(info), "/", name.substr(end));
  }
  return Status(error == ENOENT ? Code::kNotFound : Code::kUnavailable,
                StrCat("cannot look at ", path, ": ", strerror(error)));
}

bool IsFifo(const std::string& path) {
  struct stat info {};
  struct statfs where {};
  return stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode) &&
         (statfs(path.c_str(), &where) != 0 || where.f_type != PIPEFS_MAGIC);
}

}  // namespace harrow::os
