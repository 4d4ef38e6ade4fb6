#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <vector>

#include "base/text.h"
#include "launcher/command.h"

// `harrow stand-in WORK OFFSET`: what a task of `harrow replay` does. The line at OFFSET of the file WORK, fields with tabs
// between: seconds, "sleep" or "burn", then "I" and a file to read whole, or "O", a file to write and its bytes. It reads, then
// sleeps or computes, then writes: the file's name, and no matter what. Of several ranks (HARROW_RANK) the first reads and
// writes, the others only sleep or compute.

namespace harrow::launcher {
namespace {

constexpr size_t kBlock = 1 << 20;

int Broken(const std::string& what) {
  std::cerr << "harrow stand-in: " << what << "\n";
  return kExitTaskFailed;
}
int BrokenFile(const std::string& path) { return Broken(StrCat(Printable(path, 200), ": ", strerrordesc_np(errno))); }

bool ReadLine(const std::string& path, uint64_t offset, std::string* line) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char block[65536];
  bool found = false;
  for (ssize_t n; !found && (n = pread(fd, block, sizeof block, static_cast<off_t>(offset))) > 0; offset += static_cast<uint64_t>(n)) {
    const auto* newline = static_cast<const char*>(std::memchr(block, '\n', static_cast<size_t>(n)));
    found = newline != nullptr;
    line->append(block, found ? static_cast<size_t>(newline - block) : static_cast<size_t>(n));
  }
  close(fd);
  if (!found) errno = EINVAL;
  return found;
}

bool ReadWhole(const std::string& path, char* block) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t n;
  while ((n = TEMP_FAILURE_RETRY(read(fd, block, kBlock))) > 0) {
  }
  const int error = errno;
  close(fd);
  errno = error;
  return n == 0;
}

bool WriteWhole(const std::string& path, uint64_t bytes, char* block) {
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  std::copy(name.begin(), name.end(), block);
  block[name.size()] = '\n';
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  while (bytes > 0) {
    const ssize_t n = TEMP_FAILURE_RETRY(write(fd, block, std::min<uint64_t>(bytes, kBlock)));
    if (n <= 0) {
      const int error = errno;
      close(fd);
      errno = error;
      return false;
    }
    bytes -= static_cast<uint64_t>(n);
  }
  return close(fd) == 0;
}

double Now(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void Spend(double seconds, bool burn) {
  if (burn) {
    volatile double sink = 1;
    for (const double end = Now(CLOCK_PROCESS_CPUTIME_ID) + seconds; Now(CLOCK_PROCESS_CPUTIME_ID) < end;) {
      for (int i = 0; i < 10000; ++i) sink = sink * 1.0000001 + 1e-9;
    }
    return;
  }
  timespec left{};
  left.tv_sec = static_cast<time_t>(seconds);
  left.tv_nsec = static_cast<long>((seconds - static_cast<double>(left.tv_sec)) * 1e9);
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

int StandIn(const std::string& work, uint64_t offset) {
  std::string line;
  if (!ReadLine(work, offset, &line)) return BrokenFile(work);
  std::vector<std::string_view> fields;
  for (std::string_view rest = line;;) {
    const size_t tab = std::min(rest.find('\t'), rest.size());
    fields.push_back(rest.substr(0, tab));
    if (tab == rest.size()) break;
    rest.remove_prefix(tab + 1);
  }
  double seconds = 0;
  const auto number = std::from_chars(fields[0].data(), fields[0].data() + fields[0].size(), seconds);
  if (fields.size() < 2 || number.ec != std::errc()) return Broken("WORK has no task at OFFSET; harrow replay writes both");
  const char* const rank = std::getenv("HARROW_RANK");
  if (rank != nullptr && std::string_view(rank) != "0") {
    Spend(seconds, fields[1] == "burn");
    return kExitDone;
  }
  const std::unique_ptr<char[]> block(new char[kBlock]());
  for (size_t i = 2; i < fields.size(); ++i) {
    if (fields[i] == "I" && i + 1 < fields.size()) {
      const std::string path(fields[++i]);
      if (!ReadWhole(path, block.get())) return BrokenFile(path);
    } else {
      i += 2;
    }
  }
  Spend(seconds, fields[1] == "burn");
  std::fill_n(block.get(), kBlock, 'x');
  for (size_t i = 2; i < fields.size(); ++i) {
    if (fields[i] == "O" && i + 2 < fields.size()) {
      const std::string path(fields[i + 1]);
      uint64_t bytes = 0;
      std::from_chars(fields[i + 2].data(), fields[i + 2].data() + fields[i + 2].size(), bytes);
      if (!WriteWhole(path, bytes, block.get())) return BrokenFile(path);
      i += 2;
    } else {
      ++i;
    }
  }
  return kExitDone;
}

const Registered kStandIn({.name = "stand-in",
                           .summary = "What a task of harrow replay does",
                           .example = "harrow stand-in harrow-replay/work 0",
                           .usage = "WORK OFFSET",
                           .hidden = true,
                           .setup = [](CLI::App& app) -> std::function<int()> {
                             struct Arguments {
                               std::string work;
                               uint64_t offset = 0;
                             };
                             auto a = std::make_shared<Arguments>();
                             app.add_option("WORK", a->work)->required();
                             app.add_option("OFFSET", a->offset)->required();
                             return [a] { return StandIn(a->work, a->offset); };
                           }});

}  // namespace
}  // namespace harrow::launcher
