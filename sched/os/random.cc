#include "os/random.h"

#include <cerrno>
#include <chrono>
#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>

namespace harrow::os {

bool RandomBytes(void* bytes, size_t size) {
  auto* at = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t got = TEMP_FAILURE_RETRY(getrandom(at, size, 0));
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

uint64_t UniqueNumber() {
  uint64_t number = 0;
  if (RandomBytes(&number, sizeof number)) return number;
  const auto now = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  return now ^ static_cast<uint64_t>(getpid()) << 40;
}

}  // namespace harrow::os
