// What contrib/evaluation/migration measures: images of stopped processes, how alike they are, and what carrying them over takes. Prints
// JSON, a line each.
//
// usage: perf_migration dump PID FILE | like FILE FILE | carry METHOD FILE...
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/text.h"
#include "migrate/image.h"
#include "migrate/journey.h"

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

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "dump" && argc == 4) return Dump(atoi(argv[2]), argv[3]);
  if (what == "like" && argc == 4) return Like(argv[2], argv[3]);
  if (what == "carry" && argc > 3) {
    std::vector<std::string> files;
    for (int i = 3; i < argc; ++i) files.push_back(Read(argv[i]));
    return Carry(argv[2], files);
  }
  return Fail("usage: perf_migration dump PID FILE | like FILE FILE | carry METHOD FILE...");
}
