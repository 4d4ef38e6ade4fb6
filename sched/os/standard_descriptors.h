#pragma once

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>

namespace harrow::os {

/// The first thing that main does. A program may be started with standard input, output or error closed (`>&-`, cron,
/// daemons): the next file that it opens then gets that number, and what is meant for a person lands in it. Such a
/// number is occupied by /dev/null, opened the wrong way round, so that reading or writing fails and is told as ever.
inline void OccupyStandardDescriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is fd, as all below it are in use.
    if (open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) abort();
  }
}

}  // namespace harrow::os
