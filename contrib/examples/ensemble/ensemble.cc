// Programs of an ensemble forecast, each a task of a flow (flow.toml): what they say to each other goes through files.
//
//   ensemble start MEMBERS CYCLES     the truth and its observations of every cycle, and the members' first guesses
//   ensemble forecast CYCLE MEMBER    one member, from its state to what it will be; its points are spread over the ranks
//   ensemble analyse CYCLE MEMBERS    all members and the cycle's observations become the states of the next cycle
//   ensemble verify MEMBERS CYCLES            how far the analyses are from the truth
//
// `forecast` cuts a member by its points, `analyse` reads whole members and looks at all members of a point: Multi-View
// redistributes in between. Numbers do not depend on how many ranks there are.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <harrow/multiview.hpp>
#include <random>
#include <string>
#include <vector>

#include "lorenz96.hpp"

namespace mv = harrow::multiview;

namespace {

using namespace lorenz96;

constexpr int kSteps = 4;      // of 6 hours a cycle: what is wrong by little has a day to grow
constexpr int kSpinUp = 2000;  // steps until the model has forgotten where it began

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "ensemble: %s\n", why.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void Need(const mv::Status& status) {
  if (!status.ok()) Fail(status.message());
}

std::string PathOf(const char* what, int cycle, int member = -1) {
  char path[64];
  if (member < 0) {
    std::snprintf(path, sizeof path, "%s/%d", what, cycle);
  } else {
    std::snprintf(path, sizeof path, "%s/%d/%02d", what, cycle, member);
  }
  return path;
}

State Read(const std::string& path) {
  State x(kPoints);
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(x.data()), kPoints * sizeof(double))) Fail("cannot read " + path);
  return x;
}

void Write(const std::string& path, const double* x) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(x), kPoints * sizeof(double));
  if (!file.flush()) Fail("cannot write " + path);
}

void Start(int members, int cycles) {
  std::mt19937_64 random(1996);
  std::normal_distribution<double> normal;
  State truth(kPoints, kForcing);
  truth[0] += 0.01;
  for (int i = 0; i < kSpinUp; ++i) Forecast(truth.data());
  for (int member = 1; member <= members; ++member) {
    State guess = truth;
    for (double& value : guess) value += normal(random);
    Write(PathOf("state", 1, member), guess.data());
  }
  for (int cycle = 1; cycle <= cycles; ++cycle) {
    for (int i = 0; i < kSteps; ++i) Forecast(truth.data());
    Write(PathOf("truth", cycle), truth.data());
    State observed = truth;
    for (double& value : observed) value += normal(random);
    Write(PathOf("observed", cycle), observed.data());
  }
}

/// The part of a ring of points that this rank has, and what it needs of its neighbours: two points before it, one after it.
class Part {
 public:
  Part(int rank, int ranks)
      : first_(kPoints * rank / ranks), size_(kPoints * (rank + 1) / ranks - first_), before_((rank + ranks - 1) % ranks),
        after_((rank + 1) % ranks) {
    if (size_ < 2) Fail("a rank has fewer than two points; take fewer ranks");
  }
  int first() const { return first_; }
  int size() const { return size_; }

  /// dx/dt of the part's points.
  State Slope(const State& x) const {
    State wide(size_ + 3);
    std::copy(x.begin(), x.end(), wide.begin() + 2);
    MPI_Sendrecv(x.data() + size_ - 2, 2, MPI_DOUBLE, after_, 0, wide.data(), 2, MPI_DOUBLE, before_, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(x.data(), 1, MPI_DOUBLE, before_, 1, wide.data() + size_ + 2, 1, MPI_DOUBLE, after_, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    State slope(size_);
    for (int i = 0; i < size_; ++i) slope[i] = (wide[i + 3] - wide[i]) * wide[i + 1] - wide[i + 2] + kForcing;
    return slope;
  }

 private:
  int first_, size_, before_, after_;
};

void ForecastMember(int cycle, int member) {
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Part part(rank, ranks);
  const State all = Read(PathOf("state", cycle, member));
  State x(all.begin() + part.first(), all.begin() + part.first() + part.size());
  for (int step = 0; step < kSteps; ++step) Step(&x, [&](const State& s) { return part.Slope(s); });

  std::vector<int> sizes, firsts;
  for (int r = 0; r < ranks; ++r) {
    const int first = kPoints * r / ranks;
    firsts.push_back(first);
    sizes.push_back(kPoints * (r + 1) / ranks - first);
  }
  State whole(kPoints);
  MPI_Gatherv(x.data(), part.size(), MPI_DOUBLE, whole.data(), sizes.data(), firsts.data(), MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (rank == 0) Write(PathOf("forecast", cycle, member), whole.data());
}

void AnalyseCycle(int cycle, int members) {
  auto world = mv::World::Create(MPI_COMM_WORLD);
  Need(world.status());
  const State observed = Read(PathOf("observed", cycle));
  auto ensemble = world->CreateStore({members, kPoints}, sizeof(double));
  Need(ensemble.status());

  // Whole members, as they lie in files.
  State background(members * kPoints);
  Need(ensemble->SetSplit({mv::kAll, mv::kNone}));
  Need(ensemble->LoadParallel([&](mv::Loader& loader) {
    auto block = loader.Block();
    if (!block) return 1;
    for (const mv::Fragment& part : block->fragments()) {
      for (mv::Index i = 0; i < part.extent[0]; ++i) {
        const int member = static_cast<int>(part.origin[0] + i);
        const State x = Read(PathOf("forecast", cycle, member + 1));
        std::copy(x.begin(), x.end(), part.as<double>() + i * part.stride[0] / static_cast<std::ptrdiff_t>(sizeof(double)));
        std::copy(x.begin(), x.end(), &background[member * kPoints]);
      }
    }
    return 0;
  }));
  MPI_Allreduce(MPI_IN_PLACE, background.data(), members * kPoints, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);

  // A task a point: its values in all members.
  Need(ensemble->SetSplit({mv::kNone, kPoints}));
  Need(ensemble->Map(&*ensemble, [&](mv::Task& task) {
    State x;
    for (mv::Element e : task.elements()) x.push_back(e.as<double>());
    Analyse(static_cast<int>(task.key()[1]), &x, background, observed);
    int i = 0;
    for (mv::Element e : task.elements()) e.as<double>() = x[i++];
    return 0;
  }, {mv::kNone, mv::kAll}).status);

  // A task a member again, which writes it.
  Need(ensemble->SetSplit({mv::kAll, mv::kNone}));
  Need(ensemble->Map([&](mv::Task& task) {
    Write(PathOf("state", cycle + 1, static_cast<int>(task.key()[0]) + 1), task.elements().fragments()[0].as<double>());
    return 0;
  }, {mv::kAll, mv::kNone}).status);
}

void Verify(int members, int cycles) {
  std::printf("cycle  observations  forecasts  analyses\n");
  for (int cycle = 1; cycle <= cycles; ++cycle) {
    State forecast(kPoints), analysis(kPoints);
    for (int member = 1; member <= members; ++member) {
      const State f = Read(PathOf("forecast", cycle, member)), a = Read(PathOf("state", cycle + 1, member));
      for (int i = 0; i < kPoints; ++i) {
        forecast[i] += f[i] / members;
        analysis[i] += a[i] / members;
      }
    }
    const State truth = Read(PathOf("truth", cycle));
    std::printf("%5d  %12.3f  %9.3f  %8.3f\n", cycle, Error(Read(PathOf("observed", cycle)), truth), Error(forecast, truth),
                Error(analysis, truth));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const int a = argc > 2 ? std::atoi(argv[2]) : 0, b = argc > 3 ? std::atoi(argv[3]) : 0;
  if (argc != 4 || a < 1 || b < 1 || (what != "start" && what != "forecast" && what != "analyse" && what != "verify")) {
    std::fprintf(stderr,
                 "usage: ensemble start MEMBERS CYCLES | forecast CYCLE MEMBER | analyse CYCLE MEMBERS | verify MEMBERS CYCLES\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  if (what == "start") Start(a, b);
  if (what == "forecast") ForecastMember(a, b);
  if (what == "analyse") AnalyseCycle(a, b);
  if (what == "verify") Verify(a, b);
  MPI_Finalize();
  return 0;
}
