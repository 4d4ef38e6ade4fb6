// The paper's pattern, timed: prepare, relocation, relocation back, finish, for an array (E,X,Y,Z,T) of records.
//
//   mpirun -n 8 multiview_bench --dims 2,16,16,16,16 --split1 1,1,2,2,2 --split2 2,1,2,2,1 --reps 5
//
// Records are made and compared outside the timed part (their making inside the load function is taken out again). Times are
// maxima over processes. Memory is what the process has grown by at most since the world was made.
#include <mpi.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <harrow/multiview.hpp>
#include <optional>
#include <string>

#include "multiview/plan.h"

namespace mv = harrow::multiview;

namespace {

struct Settings {
  std::vector<mv::Index> dims{2, 16, 16, 16, 16};
  std::vector<mv::Cut> split[2];
  std::size_t element_bytes = 156 * 16;
  int reps = 5;
  bool check = false, fresh = false, sync = false;
  std::size_t data_limit = 0;
  mv::Placement placement = mv::Placement::kInOrder;
  mv::Target target = mv::Target::kMemory;
  mv::WorldOptions world;
};

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "multiview_bench: %s\n", why.c_str());
  MPI_Abort(MPI_COMM_WORLD, 2);
  std::abort();
}
void Need(const mv::Status& s) {
  if (!s.ok()) Die(s.message());
}

std::vector<mv::Index> Numbers(const std::string& text) {
  std::vector<mv::Index> v;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t used;
    v.push_back(std::stol(text.substr(at), &used));
    at += used + 1;
  }
  return v;
}

// Bytes of /proc/self/status, which gives kB.
double Memory(const char* name) {
  std::FILE* f = std::fopen("/proc/self/status", "r");
  char line[256];
  double value = 0;
  while (f && std::fgets(line, sizeof line, f)) {
    if (std::strncmp(line, name, std::strlen(name)) == 0) value = std::atof(line + std::strlen(name)) * 1024;
  }
  if (f) std::fclose(f);
  return value;
}

std::uint64_t Hash(mv::Coordinates at) {
  std::uint64_t h = 1;
  for (mv::Index i : at) h = (h ^ static_cast<std::uint64_t>(i)) * 0xbf58476d1ce4e5b9u, h ^= h >> 27;
  return h;
}
void Fill(const mv::Element& e) {
  std::uint64_t h = Hash(e.coordinates);
  for (std::size_t i = 0; i + 8 <= e.bytes.size(); i += 8) {
    h = h * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(e.bytes.data() + i, &h, 8);
  }
}
bool Right(const mv::Element& e) {
  std::uint64_t h = Hash(e.coordinates), word;
  for (std::size_t i = 0; i + 8 <= e.bytes.size(); i += 8) {
    h = h * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(&word, e.bytes.data() + i, 8);
    if (word != h) return false;
  }
  return true;
}

double CpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

enum { kPrepare, kThere, kBack, kFinish, kTotal, kPhases };
using Phases = std::array<double, kPhases>;

class Bench {
 public:
  Bench(mv::World world, const Settings& settings) : world_(std::move(world)), settings_(settings) {}
  Phases Once();
  double local_bytes() const { return local_bytes_; }
  /// Of the timed parts, without the first call, which makes the data: MPI's own waiting in between may be a busy one.
  double cpu_seconds() const { return cpu_seconds_; }
  const mv::World& world() const { return world_; }

 private:
  mv::World world_;
  const Settings& settings_;
  std::optional<mv::DataStore> store_;
  double local_bytes_ = 0, cpu_seconds_ = 0;
};

Phases Bench::Once() {
  Phases times{};
  std::vector<mv::Cut> none(settings_.dims.size(), mv::kNone), first = none;
  first[0] = mv::kAll;
  const bool check = settings_.check;
  const auto task = [&](mv::Task& t) {
    if (check) {
      for (mv::Element e : t.elements()) {
        if (!Right(e)) Die("wrong contents");
      }
    }
    return 0;
  };
  MPI_Barrier(MPI_COMM_WORLD);
  const double cpu = CpuSeconds();
  double t = MPI_Wtime(), outside = 0;
  const auto lap = [&](int phase) {
    const double now = MPI_Wtime();
    times[phase] += now - t;
    t = now;
  };
  const bool first_use = !store_;
  if (first_use) {
    auto made = world_.CreateStore(settings_.dims, settings_.element_bytes, settings_.target);
    Need(made.status());
    store_ = *made;
  }
  Need(store_->SetSplit(mv::Split(settings_.split[0])));
  Need(store_->LoadParallel([&](mv::Loader& loader) {
    auto block = loader.Block();
    Need(block.status());
    const double begin = MPI_Wtime();
    if (first_use) {
      for (const mv::Element& e : *block) Fill(e);
      MPI_Barrier(MPI_COMM_WORLD);
    }
    outside = MPI_Wtime() - begin;
    local_bytes_ = std::max(local_bytes_, static_cast<double>(block->count()) * static_cast<double>(settings_.element_bytes));
    return 0;
  }));
  lap(kPrepare);
  times[kPrepare] -= outside;
  Need(store_->SetSplit(mv::Split(settings_.split[1]), settings_.placement));
  Need(store_->Map(&*store_, task, mv::View(first)).status);
  if (settings_.sync) Need(store_->Sync());
  lap(kThere);
  Need(store_->SetSplit(mv::Split(settings_.split[0])));
  Need(store_->Map(nullptr, task, mv::View(none)).status);
  if (settings_.sync) Need(store_->Sync());
  lap(kBack);
  if (settings_.fresh) store_.reset();
  lap(kFinish);
  if (!first_use) cpu_seconds_ += CpuSeconds() - cpu;
  for (int p = kPrepare; p <= kFinish; ++p) times[kTotal] += times[p];
  return times;
}

// What planning costs a process of 4096, with figure 4's 16384 elements a block and with 10^9 times as many; and where every
// process has all others for partners, the most there can be.
int PlanOnly() {
  double worst = 0;
  for (mv::Index n : {64, 8192}) {
    const std::vector<mv::Index> shape{4, n, n, n, n};
    for (const auto& [one, two] : {std::pair<mv::Split, mv::Split>{{mv::kNone, 8, 8, 8, 8}, {mv::kAll, 8, 8, 4, 4}},
                                   {{mv::kNone, 4096 / 64, 64, 1, 1}, {mv::kNone, 1, 1, 64, 64}}}) {
      const mv::Layout from(std::move(*mv::Grid::Make(shape, one, "", "")), 4096);
      const mv::Layout to(std::move(*mv::Grid::Make(shape, two, "", "")), 4096);
      std::vector<double> times;
      for (int i = 0; i < 21; ++i) {
        const double begin = CpuSeconds();
        const mv::Plan plan(from, to, 195 * i);
        times.push_back((CpuSeconds() - begin) * 1e3);
        if (i == 0) std::printf("plan of a process with %zu partners, %ld elements in all", plan.send().size(), 4 * n * n * n * n);
      }
      // What else the machine does makes one dearer, never cheaper.
      const double least = *std::min_element(times.begin(), times.end());
      std::printf(": %.4f ms\n", least);
      worst = std::max(worst, least);
    }
  }
  std::printf("plan_ms %.4f\n", worst);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Settings s;
  bool plan_only = false;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : (Die("a value after " + a), std::string()); };
    if (a == "--dims") s.dims = Numbers(value());
    else if (a == "--split1" || a == "--split2") for (mv::Index n : Numbers(value())) s.split[a == "--split2"].push_back(mv::Cut(n));
    else if (a == "--esize") s.element_bytes = std::stoul(value());
    else if (a == "--reps") s.reps = std::stoi(value());
    else if (a == "--check") s.check = true;       // contents after each relocation, within the time
    else if (a == "--fresh") s.fresh = true;       // a new store in every repetition
    else if (a == "--release") s.world.keep_bytes = 0;  // freed memory goes back to the system
    else if (a == "--relabel") s.placement = mv::Placement::kLeastMoved;
    else if (a == "--messages") s.world.direct_reads = false;
    else if (a == "--rounds") s.world.rounds = std::stoi(value());
    else if (a == "--limit") s.world.memory_limit = std::stoul(value()), s.target = mv::Target::kAutomatic;
    else if (a == "--files") s.world.directory = value(), s.target = mv::Target::kFile;
    else if (a == "--sync") s.sync = true;         // files are on disk before the clock stops
    else if (a == "--data-limit") s.data_limit = std::stoul(value());  // private memory the process may get from here on
    else if (a == "--plan") plan_only = true;
    else Die("unknown option " + a);
  }
  if (plan_only) {
    PlanOnly();
    MPI_Finalize();
    return 0;
  }
  auto world = mv::World::Create(MPI_COMM_WORLD, s.world);
  Need(world.status());
  const int rank = world->rank();
  const double base = Memory("VmRSS:");
  if (s.data_limit > 0) {
    const rlim_t most = static_cast<rlim_t>(Memory("VmData:")) + s.data_limit;
    const rlimit limit{most, most};
    setrlimit(RLIMIT_DATA, &limit);
  }
  {
    Bench bench(std::move(*world), s);
    std::vector<Phases> all(s.reps);
    const char* row = "prepare_s %.6f relocation0_s %.6f relocation1_s %.6f finish_s %.6f total_s %.6f\n";
    for (int r = 0; r < s.reps; ++r) {
      Phases mine = bench.Once();
      MPI_Allreduce(mine.data(), all[r].data(), kPhases, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      const Phases& p = all[r];
      if (rank == 0) std::printf("rep %d ", r), std::printf(row, p[0], p[1], p[2], p[3], p[4]);
    }
    Phases median;
    for (int p = 0; p < kPhases; ++p) {
      std::sort(all.begin(), all.end(), [p](const Phases& a, const Phases& b) { return a[p] < b[p]; });
      median[p] = (all[(s.reps - 1) / 2][p] + all[s.reps / 2][p]) / 2;
    }
    const mv::Statistics& st = bench.world().statistics();
    const double data = bench.local_bytes();
    double most[8] = {(Memory("VmHWM:") - base) / std::max(data, 1.0), static_cast<double>(st.messages_sent), static_cast<double>(st.bytes_sent),
                      static_cast<double>(st.bytes_read), static_cast<double>(st.bytes_copied), static_cast<double>(st.bytes_kept),
                      st.planning_seconds, bench.cpu_seconds() / std::max(s.reps - 1, 1)};
    MPI_Allreduce(MPI_IN_PLACE, most, 8, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0) {
      std::printf("peak_growth_per_local %.3f messages %.0f sent %.0f read %.0f copied %.0f kept %.0f planning_s %.6f cpu_s %.6f\n", most[0],
                  most[1], most[2], most[3], most[4], most[5], most[6], most[7]);
      std::printf("bytes_per_rank %.0f ", data);
      std::printf(row, median[0], median[1], median[2], median[3], median[4]);
    }
  }
  MPI_Finalize();
}
