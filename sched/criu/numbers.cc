#include "criu/numbers.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <unistd.h>

#include "base/integer.h"
#include "base/text.h"

namespace harrow::criu {

std::vector<int> NumbersOf(pid_t pid) {
  std::vector<int> numbers = {static_cast<int>(pid), static_cast<int>(getpgid(pid)), static_cast<int>(getsid(pid))};
  std::error_code error;
  for (std::filesystem::directory_iterator at(StrCat("/proc/", static_cast<int>(pid), "/task"), error), end; !error && at != end; at.increment(error)) {
    if (const auto number = ParseInteger<int>(at->path().filename().string())) numbers.push_back(*number);
  }
  return numbers;
}

int FirstFree(std::vector<int> taken, int from, int room) {
  std::sort(taken.begin(), taken.end());
  for (const int number : taken) {
    if (int64_t{number} - from >= room) break;
    if (number >= from) from = number + 1;
  }
  return from;
}

}  // namespace harrow::criu
