// A store on this disk: small files taken in and placed a second, and one large file against `cp`, taking
// turns.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <spawn.h>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/text.h"
#include "figure.h"
#include "store/hasher.h"
#include "store/store.h"

namespace {

namespace fs = std::filesystem;
using harrow::StrCat;
using harrow::perf::Bound;
using harrow::perf::Figure;
using namespace harrow::store;

template <class T>
T Checked(harrow::Result<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "store_rate: %s\n", result.status().message().c_str());
  std::exit(1);
}

void Checked(const harrow::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "store_rate: %s\n", status.message().c_str());
  std::exit(1);
}

double Seconds(const std::function<void()>& what) {
  const auto begin = std::chrono::steady_clock::now();
  what();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Of this process, in the kernel as well: no need of a quiet machine.
double CpuSeconds(const std::function<void()>& what) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
  };
  const double begin = now();
  what();
  return now() - begin;
}

double ChildrenCpu() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void Write(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    std::perror(path.c_str());
    std::exit(1);
  }
  close(fd);
}

void Cp(const std::string& from, const std::string& to) {
  const char* argv[] = {"cp", from.c_str(), to.c_str(), nullptr};
  pid_t pid = 0;
  int status = 1;
  if (posix_spawnp(&pid, "cp", nullptr, nullptr, const_cast<char**>(argv), environ) != 0 ||
      waitpid(pid, &status, 0) != pid || status != 0) {
    std::fprintf(stderr, "store_rate: cp failed\n");
    std::exit(1);
  }
}

std::string Small(int i) {
  return StrCat("small file ", i, std::string(1000, 's'));
}

/// A file copied as plainly as can be: what of a figure is the disk's own, which gives new inodes in 20 us or
/// in 200.
void Plain(const std::string& from, const std::string& to) {
  char bytes[4096];
  const int in = open(from.c_str(), O_RDONLY | O_CLOEXEC),
            out = open(to.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  const ssize_t size = read(in, bytes, sizeof bytes);
  if (size < 0 || write(out, bytes, static_cast<size_t>(size)) != size) std::exit(1);
  close(in);
  close(out);
}

/// Files of 1 KiB: a task's inputs are taken in or arrive, are placed in its sandbox, looked at after it, and
/// an output is moved in.
void SmallFiles(const std::string& top, int files) {
  auto store = Checked(Store::Open(top + "/store", {}));
  for (const char* name : {"/in", "/plain", "/other"}) fs::create_directories(top + name);
  for (int i = 0; i < files; ++i) Write(StrCat(top, "/in/", i), Small(i));
  std::vector<ObjectId> ids;
  using One = std::function<void(int)>;
  const auto rate = [&](const char* name, double bound, const One& one) {
    const double seconds = CpuSeconds([&] {
      for (int i = 0; i < files; ++i) one(i);
    });
    Figure(name, files / seconds, "files a CPU second", bound, Bound::kAtLeast);
  };
  const auto against_plain = [&](const std::string& name, const char* plain, const One& one) {
    constexpr int kTurn = 500;
    double mine = 0;
    std::vector<double> ratios;
    for (int at = 0; at + kTurn <= files; at += kTurn) {
      const auto turn = [&](const One& what) {
        return Seconds([&] {
          for (int i = at; i < at + kTurn; ++i) what(i);
        });
      };
      const double other = turn([&](int i) { Plain(StrCat(top, "/in/", i), StrCat(top, plain, i)); });
      const double seconds = turn(one);
      mine += seconds;
      ratios.push_back(seconds / other);
    }
    Figure(name, files / mine, "files a second");
    Figure(name + "_to_plain", harrow::perf::Median(ratios), "x the time of a plain copy", 2);
  };
  against_plain("store.copy_in", "/plain/",
                [&](int i) { ids.push_back(Checked(store->CopyIn(StrCat(top, "/in/", i))).id); });
  against_plain("store.arrive", "/other/", [&](int i) {
    const std::string text = StrCat("came ", i, std::string(1000, 'c'));
    auto arrival = Checked(store->Begin({IdOf(text, Kind::kFile), static_cast<int64_t>(text.size())}));
    Checked(arrival->Write(0, text));
    Checked(arrival->Finish());
  });
  const std::string sandbox = Checked(store->MakeSandbox("placed"));
  rate("store.place", 20'000,
       [&](int i) { Checked(store->Place(ids[static_cast<size_t>(i)], "", StrCat(sandbox, "/d/", i))); });
  rate("store.unchanged", 100'000, [&](int i) {
    if (!store->Unchanged(ids[static_cast<size_t>(i)])) std::exit(1);
  });
  const std::string made = Checked(store->MakeSandbox("made"));
  for (int i = 0; i < files; ++i) Write(StrCat(made, "/", i), StrCat("made ", i, std::string(1000, 'm')));
  rate("store.move_in", 10'000, [&](int i) { (void)Checked(store->MoveIn(StrCat(made, "/", i))); });
  double seconds = CpuSeconds([&] { store->RemoveSandbox(sandbox); });
  Figure("store.remove_sandbox", files / seconds, "files a CPU second", 20'000, Bound::kAtLeast);
  Object directory;
  seconds = Seconds([&] { directory = Checked(store->CopyIn(top + "/in")); });
  Figure("store.copy_in_directory", files / seconds, "files a second");
  const std::string whole = Checked(store->MakeSandbox("whole"));
  seconds = CpuSeconds([&] { Checked(store->Place(directory.id, "", whole + "/d")); });
  Figure("store.place_directory", files / seconds, "files a CPU second", 20'000, Bound::kAtLeast);
  seconds = Seconds([&] { Checked(store->CopyOut(directory.id, top + "/out", 022)); });
  Figure("store.copy_out_directory", files / seconds, "files a second, durable");
  store.reset();
  seconds = CpuSeconds([&] { store = Checked(Store::Open(top + "/store", {})); });
  Figure("store.open", static_cast<double>(store->room().objects) / seconds,
         "objects a CPU second, and all sandboxes removed", 20'000, Bound::kAtLeast);
  store->Erase();
  for (const char* name : {"/in", "/plain", "/other", "/out"}) fs::remove_all(top + name);
}

/// One large file, in the page cache: taking it in (with its hash) against cp; placing it.
void LargeFile(const std::string& top, int64_t mebibytes, int rounds) {
  auto store = Checked(Store::Open(top + "/store", {}));
  std::string block(1 << 20, '\0');
  {
    std::ofstream file(top + "/large", std::ios::binary);
    for (int64_t i = 0; i < mebibytes; ++i) {
      for (size_t at = 0; at < block.size(); at += 8) {
        const uint64_t word = (static_cast<uint64_t>(i) << 32 | at) * 0x9E3779B97F4A7C15;
        std::memcpy(block.data() + at, &word, 8);
      }
      file << block;
    }
  }
  sync();
  std::vector<double> ratios, cpu_ratios, times;
  for (int round = 0; round <= rounds; ++round) {
    ObjectId id;
    double mine = 0, other = 0, my_cpu = 0, other_cpu = 0;
    const auto take = [&] {
      my_cpu = CpuSeconds([&] { mine = Seconds([&] { id = Checked(store->CopyIn(top + "/large")).id; }); });
    };
    const auto copy = [&] {
      other_cpu = -ChildrenCpu();
      other = Seconds([&] { Cp(top + "/large", top + "/copy"); });
      other_cpu += ChildrenCpu();
    };
    if (round % 2 == 0) take();
    copy();
    if (round % 2 != 0) take();
    store->Drop(id);
    fs::remove(top + "/copy");
    if (round == 0) continue;  // warms the cache
    ratios.push_back(mine / other);
    cpu_ratios.push_back(my_cpu / other_cpu);
    times.push_back(mine);
  }
  Figure("store.copy_in_large", static_cast<double>(mebibytes) / harrow::perf::Median(times), "MiB a second");
  Figure("store.copy_in_large_to_cp", harrow::perf::Median(ratios), "x the time of cp");
  Figure("store.copy_in_large_cpu_to_cp", harrow::perf::Median(cpu_ratios),
         "x the CPU time of cp, which hashes nothing", 2);
  store->Erase();
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  std::string top = (fs::temp_directory_path() / "harrow-perf-XXXXXX").string();
  if (mkdtemp(top.data()) == nullptr) return 1;
  SmallFiles(top, quick ? 5000 : 20'000);
  LargeFile(top, quick ? 256 : 1024, quick ? 3 : 7);
  fs::remove_all(top);
  return harrow::perf::Status();
}
