#include "criu/numbers.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <string>
#include <unistd.h>

#include "base/text.h"

namespace harrow::criu {

std::vector<int> NumbersOf(pid_t pid) {
  std::vector<int> numbers = {static_cast<int>(pid), static_cast<int>(getpgid(pid)), static_cast<int>(getsid(pid))};
  std::error_code error;
  for (std::filesystem::directory_iterator at(StrCat("/proc/", static_cast<int>(pid), "/task"), error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    int number = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), number).ec == std::errc()) numbers.push_back(number);
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
