// What contrib/evaluation/migration measures: images of stopped processes, how alike they are, and what carrying them over takes. Prints
// JSON, a line each.
//
// `keep` and `bring` do what a node does with the images of tasks that leave it all at once and of those that come to it, each by a thread
// of its own: naive, as they are; zstd, compressed as one goes; packed, as checkpoints of CRIU's are kept (migrate/packed.h); nodes, packed,
// each by a node of its own.
//
// usage: perf_migration dump PID FILE | like FILE FILE | carry METHOD FILE... | keep METHOD DIRECTORY FILE... | bring METHOD DIRECTORY TO
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/text.h"
#include "migrate/alike.h"
#include "migrate/compress.h"
#include "migrate/image.h"
#include "migrate/journey.h"
#include "migrate/packed.h"
#include "os/posix_files.h"

namespace {

using namespace harrow;
using namespace harrow::migrate;

Duration Processor() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

std::string Read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {(std::istreambuf_iterator<char>(file)), {}};
}

int Fail(const std::string& why) {
  fprintf(stderr, "perf_migration: %s\n", why.c_str());
  return 1;
}

int Dump(pid_t pid, const char* path) {
  const Result<Image> image = ReadImage(pid);
  if (!image.ok()) return Fail(image.status().message());
  std::ofstream(path, std::ios::binary) << ToBytes(*image);
  printf("{\"bytes\": %zu, \"regions\": %zu}\n", image->bytes.size(), image->regions.size());
  return 0;
}

int Like(const char* a, const char* b) {
  const Result<Image> one = ImageOf(Read(a)), other = ImageOf(Read(b));
  if (!one.ok() || !other.ok()) return Fail("no images");
  const std::vector<Likeness> words = Compare(*one, *other, 4), pages = Compare(*one, *other, kPage);
  for (size_t i = 0; i < words.size(); ++i)
    printf("{\"region\": \"%s\", \"used\": %llu, \"shared_4\": %llu, \"shared_4096\": %llu}\n", Printable(words[i].name).c_str(),
           static_cast<unsigned long long>(words[i].used), static_cast<unsigned long long>(words[i].shared),
           static_cast<unsigned long long>(pages[i].shared));
  return 0;
}

int Carry(const std::string& name, const std::vector<std::string>& files) {
  const std::vector<std::string> names = {"naive", "zstd", "paper", "pages"};
  size_t method = 0;
  while (method < names.size() && names[method] != name) ++method;
  if (method == names.size()) return Fail("methods are naive, zstd, paper and pages");
  const std::vector<std::string_view> images(files.begin(), files.end());
  const Result<Phases> phases = CarryOver(static_cast<Method>(method), images, Processor);
  if (!phases.ok()) return Fail(phases.status().message());
  uint64_t bytes = 0;
  for (const std::string& file : files) bytes += file.size();
  std::string text = StrCat("{\"method\": \"", name, "\", \"nodes\": ", files.size(), ", \"bytes\": ", bytes, ", \"link\": ", phases->link(),
                            ", \"cpu_s\": ", Seconds(phases->processors), ", \"phases\": {");
  for (const Phases::Phase& phase : phases->phases)
    text += StrCat(&phase == &phases->phases[0] ? "" : ", ", "\"", phase.name, "\": [", Seconds(phase.busy), ", ", phase.link, ", ", phase.ring, "]");
  printf("%s}}\n", text.c_str());
  return 0;
}

constexpr size_t kBlock = 1 << 20;

bool Put(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool Get(int fd, char* to, size_t size) {
  for (size_t have = 0; have < size;) {
    const ssize_t n = read(fd, to + have, size - have);
    if (n <= 0) return false;
    have += static_cast<size_t>(n);
  }
  return true;
}

/// Copies a file, a block at a time; with `zstd` compressed, its size before each block. Whole, and on disk, when it returns true.
bool KeepPlain(const std::string& from, const std::string& to, bool zstd) {
  const os::Fd in(open(from.c_str(), O_RDONLY | O_CLOEXEC)), out(open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  struct stat st {};
  if (!in.ok() || !out.ok() || fstat(in.get(), &st) != 0) return false;
  std::string block;
  for (size_t left = static_cast<size_t>(st.st_size); left > 0; left -= block.size()) {
    block.resize(std::min(left, kBlock));
    if (!Get(in.get(), block.data(), block.size())) return false;
    if (!zstd) {
      if (!Put(out.get(), block)) return false;
      continue;
    }
    const std::string packed = Compress(block);
    const uint64_t sizes[2] = {block.size(), packed.size()};
    if (!Put(out.get(), {reinterpret_cast<const char*>(sizes), sizeof sizes}) || !Put(out.get(), packed)) return false;
  }
  return fsync(out.get()) == 0;
}

bool BringPlain(const std::string& from, const std::string& to, bool zstd) {
  const os::Fd in(open(from.c_str(), O_RDONLY | O_CLOEXEC)), out(open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  struct stat st {};
  if (!in.ok() || !out.ok() || fstat(in.get(), &st) != 0) return false;
  std::string block;
  for (size_t left = static_cast<size_t>(st.st_size); left > 0;) {
    uint64_t sizes[2] = {std::min(left, kBlock), std::min(left, kBlock)};
    if (zstd && !Get(in.get(), reinterpret_cast<char*>(sizes), sizeof sizes)) return false;
    block.resize(sizes[1]);
    if (!Get(in.get(), block.data(), block.size())) return false;
    left -= block.size() + (zstd ? sizeof sizes : 0);
    if (!zstd) {
      if (!Put(out.get(), block)) return false;
      continue;
    }
    const Result<std::string> bytes = Decompress(block, sizes[0]);
    if (!bytes.ok() || !Put(out.get(), *bytes)) return false;
  }
  return true;
}

/// Does it for each number at once, and prints what it took; `bytes` of them are on the shared file system then.
int AtOnce(size_t count, const std::function<bool(size_t)>& one, const std::string& directory) {
  const auto began = std::chrono::steady_clock::now();
  const Duration before = Processor();
  std::vector<std::thread> threads;
  std::atomic<int> failed = 0;
  for (size_t i = 0; i < count; ++i) threads.emplace_back([&, i] { failed += !one(i); });
  for (std::thread& thread : threads) thread.join();
  if (failed > 0) return Fail("a file cannot be read or written, or is not what was kept");
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::map<std::pair<dev_t, ino_t>, uint64_t> files;  // with several names they are one
  for (const auto& file : std::filesystem::recursive_directory_iterator(directory)) {
    struct stat st {};
    if (file.is_regular_file() && stat(file.path().c_str(), &st) == 0) files[{st.st_dev, st.st_ino}] = static_cast<uint64_t>(st.st_size);
  }
  uint64_t bytes = 0;
  for (const auto& [inode, size] : files) bytes += size;
  printf("{\"seconds\": %.6f, \"cpu_s\": %.6f, \"bytes\": %llu}\n", took, Seconds(Processor() - before), static_cast<unsigned long long>(bytes));
  return 0;
}

std::string Place(const std::string& directory, size_t number) {
  return StrCat(directory, "/", number);
}

int Keep(const std::string& method, const std::string& directory, const std::vector<std::string>& files) {
  if (method != "packed" && method != "nodes") return AtOnce(files.size(), [&](size_t i) { return KeepPlain(files[i], Place(directory, i), method == "zstd"); }, directory);
  // Each on a node of its own, which know nothing of each other but what lies in the directory; or all on one.
  const bool nodes = method == "nodes";
  std::vector<AlikeImages> images(nodes ? files.size() : 1);
  // Each file is the only one of its directory.
  const auto one = [&](size_t i) {
    std::optional<AlikeImages::Turn> turn;
    const std::string top = nodes ? Place(directory, i) : directory, to = nodes ? top + "/1" : Place(directory, i);
    if (nodes && mkdir(top.c_str(), 0700) != 0) return false;
    if (mkdir(to.c_str(), 0700) != 0) return false;
    const Result<Packed> packed = Pack(std::filesystem::path(files[i]).parent_path(), to, [&](const Sample& sample) {
      turn.emplace(nodes ? images[i].Take(sample, {}, {.directory = directory + "/alike", .task = std::to_string(i)}) : images[0].Take(sample, {}));
      return turn->earlier();
    }, {});
    if (packed.ok()) turn->Done(to);
    return packed.ok();
  };
  return AtOnce(files.size(), one, directory);
}

int Bring(const std::string& method, const std::string& directory, const std::string& to) {
  size_t count = 0;
  while (access(Place(directory, count).c_str(), F_OK) == 0) ++count;
  return AtOnce(count, [&](size_t i) {
    const std::string place = Place(to, i);
    if (mkdir(place.c_str(), 0700) != 0) return false;
    if (method == "nodes") return Unpack(Place(directory, i) + "/1", place, {}).ok();
    return method == "packed" ? Unpack(Place(directory, i), place, {}).ok() : BringPlain(Place(directory, i), place + "/image", method == "zstd");
  }, directory);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "keep" && argc > 4) return Keep(argv[2], argv[3], {argv + 4, argv + argc});
  if (what == "bring" && argc == 5) return Bring(argv[2], argv[3], argv[4]);
  if (what == "dump" && argc == 4) return Dump(atoi(argv[2]), argv[3]);
  if (what == "like" && argc == 4) return Like(argv[2], argv[3]);
  if (what == "carry" && argc > 3) {
    std::vector<std::string> files;
    for (int i = 3; i < argc; ++i) files.push_back(Read(argv[i]));
    return Carry(argv[2], files);
  }
  return Fail("usage: perf_migration dump PID FILE | like FILE FILE | carry METHOD FILE... | keep METHOD DIRECTORY FILE... | bring METHOD DIRECTORY TO");
}
