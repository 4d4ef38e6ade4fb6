#include "os/random.h"

#include <cerrno>
#include <sys/random.h>
#include <sys/types.h>

namespace harrow::os {

bool RandomBytes(void* bytes, size_t size) {
  auto* at = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t got = getrandom(at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace harrow::os
