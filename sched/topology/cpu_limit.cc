// A container is often given so many CPUs' time on a machine of many cores. Who starts a task a core there has each of them
// stopped for most of the time by the kernel, all at once.

#include "topology/cpu_limit.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace harrow::topology {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Positive numbers; 0: none, or no limit ("max", -1).
double Number(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return end != text.c_str() && number > 0 ? number : 0;
}

/// Of one group: "max 100000" or "150000 100000" in cpu.max, or the two numbers in files of their own.
std::optional<double> LimitOf(const std::string& group) {
  const std::string line = FirstLine(group + "/cpu.max");
  const size_t blank = line.find(' ');
  const double quota = blank != std::string::npos ? Number(line) : Number(FirstLine(group + "/cpu.cfs_quota_us"));
  const double period =
      blank != std::string::npos ? Number(line.substr(blank)) : Number(FirstLine(group + "/cpu.cfs_period_us"));
  if (quota == 0 || period == 0) return std::nullopt;
  return quota / period;
}

}  // namespace

std::optional<double> CpuTimeLimit(const std::string& root) {
  std::optional<double> least;
  // The group of a controller, from its own path up to where the hierarchy is mounted. In a container the path may be that of
  // the host, which is not there to be seen: then what is mounted counts.
  const auto look = [&](const std::string& mount, std::string path) {
    for (;;) {
      if (const auto limit = LimitOf(mount + path)) least = std::min(least.value_or(*limit), *limit);
      const size_t slash = path.rfind('/');
      if (slash == std::string::npos) return;
      path.resize(slash);
    }
  };
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) {
      look(root + "/sys/fs/cgroup", path == "/" ? "" : path);
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      for (const std::string& name : {controllers, std::string("cpu")})
        look(root + "/sys/fs/cgroup/" + name, path == "/" ? "" : path);
    }
  }
  return least;
}

}  // namespace harrow::topology
