// Random layouts against the element-wise reference.
//
//   mpirun -n 16 multiview_random --processes 16 [--layouts N] [--seed S]
//
// The processes divide into groups of random sizes; each group goes through random stores of its own until N redistributions
// (with HARROW_LONG=1 at least 10 000) have been compared in all. After each one every process's part, and what random Views run on it, must equal the reference.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <harrow/multiview.hpp>
#include <random>

#include "reference.h"

namespace mv = harrow::multiview;

namespace {

using reference::Place;

unsigned g_seed = 0;
std::string g_case;

[[noreturn]] void Fail(const std::string& what) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fprintf(stderr, "multiview_random: process %d: %s\n  seed %u, %s\n", rank, what.c_str(), g_seed, g_case.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}
void Check(bool ok, const char* what) {
  if (!ok) Fail(what);
}
void Check(const mv::Status& status) {
  if (!status.ok()) Fail(status.message());
}

std::string Text(const std::vector<long>& v) {
  std::string text = "(";
  for (std::size_t i = 0; i < v.size(); ++i) {
    text += (i ? "," : "") + (v[i] == reference::kAll ? "A" : v[i] == reference::kNone ? "N" : std::to_string(v[i]));
  }
  return text + ")";
}

class Case {
 public:
  Case(MPI_Comm comm, mv::World& world, std::mt19937_64* random);
  // Returns the redistributions it has compared.
  int Run();

 private:
  long Draw(long low, long high) { return low + static_cast<long>((*random_)() % static_cast<unsigned long>(high - low + 1)); }
  std::vector<long> DrawCuts() {
    std::vector<long> cuts;
    for (long n : shape_) {
      const long kind = Draw(0, 3);
      cuts.push_back(kind == 0 ? reference::kAll : kind == 1 ? reference::kNone : Draw(1, n));
    }
    return cuts;
  }
  template <class T>
  static T Make(const std::vector<long>& cuts) {
    std::vector<mv::Cut> v;
    for (long c : cuts) v.push_back(c == reference::kAll ? mv::kAll : c == reference::kNone ? mv::kNone : mv::Cut(c));
    return T(std::move(v));
  }
  std::string Value(const Place& at, long version) const;
  void Load();
  void CheckSame(const std::map<Place, std::string>& found, const char* what) const;
  void CompareParts(const char* when);
  void CompareTasks(bool write);

  MPI_Comm comm_;
  mv::World& world_;
  std::mt19937_64* random_;
  int rank_, size_;
  Place shape_;
  std::vector<Place> places_;
  std::size_t bytes_;  // 0: variable
  std::vector<long> split_;
  std::unique_ptr<mv::DataStore> store_;
  reference::Array expected_;
  bool relabelled_ = false;
  long version_ = 0;
};

Place DrawShape(std::mt19937_64* random, bool large) {
  const auto draw = [&](long low, long high) { return low + static_cast<long>((*random)() % (high - low + 1)); };
  Place shape(static_cast<std::size_t>(draw(2, 6)));
  long volume = 1;
  for (long& n : shape) {
    n = std::min(draw(1, 7), std::max(1L, (large ? 120 : 400) / volume));
    volume *= n;
  }
  std::shuffle(shape.begin(), shape.end(), *random);
  return shape;
}

Case::Case(MPI_Comm comm, mv::World& world, std::mt19937_64* random)
    : comm_(comm), world_(world), random_(random), rank_(world.rank()), size_(world.size()), expected_(comm, {}) {
  const bool large = Draw(0, 19) == 0;
  shape_ = DrawShape(random_, large);
  places_ = reference::Places(shape_);
  constexpr std::size_t kSizes[] = {0, 0, 1, 3, 4, 8, 16, 24, 100, 1100, 2496};
  bytes_ = large ? 60000 : kSizes[Draw(0, 10)];
  expected_ = reference::Array(comm_, shape_);
  const bool file = Draw(0, 9) == 0;
  g_case = "shape " + Text(shape_) + ", elements of " + std::to_string(bytes_) + " bytes, " + std::to_string(size_) + " processes" +
           (file ? ", in files" : "");
  auto store = world_.CreateStore({shape_.begin(), shape_.end()}, bytes_, file ? mv::Target::kFile : mv::Target::kMemory);
  Check(store.status());
  store_ = std::make_unique<mv::DataStore>(*store);
}

std::string Case::Value(const Place& at, long version) const {
  unsigned long hash = 1469598103934665603ul + static_cast<unsigned long>(version);
  for (long i : at) hash = (hash ^ static_cast<unsigned long>(i)) * 1099511628211ul;
  std::string value(bytes_ ? bytes_ : hash % 40, '\0');
  for (char& c : value) c = static_cast<char>((hash = hash * 6364136223846793005ul + 1442695040888963407ul) >> 56);
  return value;
}

void Case::Load() {
  const long kind = Draw(0, 3);  // 0: own block in place, 1: own block, 2: everything scattered, 3: something anywhere
  const long present = kind == 3 ? Draw(0, 100) : 100;
  const bool declared = Draw(0, 1);
  split_ = DrawCuts();
  g_case += ", load " + std::to_string(kind) + " at " + Text(split_);
  if (kind < 2 || declared) Check(store_->SetSplit(Make<mv::Split>(split_)));
  Check(store_->LoadParallel([&](mv::Loader& loader) {
    if (kind == 0 && bytes_ > 0) {
      auto block = loader.Block();
      Check(block.status());
      for (mv::Element e : *block) {
        const std::string value = Value({e.coordinates.begin(), e.coordinates.end()}, 0);
        std::memcpy(e.bytes.data(), value.data(), value.size());
      }
    }
    for (const Place& at : places_) {
      const int owner = kind < 2 ? reference::OwnerOf(shape_, split_, size_, at) : static_cast<int>(Draw(0, size_ - 1));
      // Sometimes there twice: the higher rank holds.
      const int other = kind == 3 && Draw(0, 9) == 0 ? static_cast<int>(Draw(0, size_ - 1)) : owner;
      if (Draw(1, 100) > present) continue;
      for (int holder : {owner, other}) {
        if (holder != rank_) continue;
        const std::string value = Value(at, holder == owner ? 0 : 1000 + holder);
        expected_.Put(at, value);
        if (kind != 0 || bytes_ == 0) Check(loader.Put(at, value.data(), value.size()));
      }
    }
    return 0;
  }));
  if (kind >= 2 && !declared) split_.assign(shape_.size(), reference::kNone), split_[0] = reference::kAll;
}

void Case::CheckSame(const std::map<Place, std::string>& found, const char* what) const {
  const auto& expected = expected_.elements();
  if (found == expected) return;
  std::string text = std::string(what) + ": " + std::to_string(found.size()) + " elements, expected " + std::to_string(expected.size());
  long different = 0;
  for (const auto& [at, value] : found) {
    const auto right = expected.find(at);
    if (right != expected.end() && right->second == value) continue;
    if (different++ > 0) continue;
    text += "; first wrong at " + Text(at);
    if (right == expected.end()) continue;
    text += ", " + std::to_string(value.size()) + " bytes, expected " + std::to_string(right->second.size());
    const auto [a, b] = std::mismatch(value.begin(), value.end(), right->second.begin(), right->second.end());
    text += ", differing from byte " + std::to_string(a - value.begin());
    for (long v = 0; v <= version_; ++v) text += Value(at, v) == value ? ", as version " + std::to_string(v) : "";
  }
  Fail(text + "; " + std::to_string(different) + " wrong");
}

void Case::CompareParts(const char* when) {
  std::map<Place, std::string> found;
  for (mv::Element e : store_->LocalElements()) {
    const auto* data = reinterpret_cast<const char*>(e.bytes.data());
    const bool once = found.emplace(Place(e.coordinates.begin(), e.coordinates.end()), std::string(data, e.bytes.size())).second;
    Check(once, "an element is there twice");
  }
  if (!relabelled_) {
    CheckSame(found, when);
    return;
  }
  // Who has a part is not said, but it must be a whole part of somebody's.
  reference::Array back(comm_, shape_);
  for (const auto& [at, value] : found) back.Put(at, value);
  back.Redistribute(split_);
  Check(back.elements() == expected_.elements(), when);
}

void Case::CompareTasks(bool write) {
  const std::vector<long> view = DrawCuts();
  const std::string before = g_case;
  g_case += ", View " + Text(view);
  const auto holders = expected_.Holders(view);
  std::map<Place, std::string> seen;
  Place last;
  ++version_;
  Check(store_->Map(write ? store_.get() : nullptr, [&](mv::Task& task) {
    const Place key(task.key().begin(), task.key().end());
    Check(last.empty() || last < key, "tasks run in ascending order of keys, each once");
    last = key;
    int members;
    MPI_Comm_size(task.comm(), &members);
    if (!relabelled_) {
      const auto found = holders.find(key);
      Check(found != holders.end() && found->second.contains(rank_), "a task runs where nothing of it lies");
      Check(static_cast<std::size_t>(members) == found->second.size(), "a task has all holders and no others");
    }
    long elements = task.elements().count();
    long all = elements;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_LONG, MPI_SUM, task.comm());
    Check(elements > 0 && all >= members, "everyone in a task has a part");
    for (mv::Element e : task.elements()) {
      const Place at(e.coordinates.begin(), e.coordinates.end());
      Check(reference::KeyOf(shape_, view, at) == key, "an element of another task");
      Check(seen.emplace(at, std::string(reinterpret_cast<const char*>(e.bytes.data()), e.bytes.size())).second, "seen twice");
      if (write) {
        const std::string value = Value(at, version_);
        Check(task.Put(e.coordinates, value.data(), value.size()));
      }
    }
    return 0;
  }, Make<mv::View>(view)).status);
  if (!relabelled_) CheckSame(seen, "what the tasks of a process together see");
  if (write) {
    const auto old = expected_.elements();
    for (const auto& [at, value] : old) expected_.Put(at, Value(at, version_));
  }
  g_case = before;
}

int Case::Run() {
  Load();
  CompareParts("after the load");
  const std::string loaded = g_case;
  int compared = 0;
  for (long rounds = Draw(2, 4); rounds > 0; --rounds, ++compared) {
    if (Draw(0, 4) > 0 || compared > 0) {
      split_ = DrawCuts();
      const bool relabel = Draw(0, 5) == 0;
      relabelled_ = relabel;
      g_case = loaded + ", Split " + Text(split_) + (relabel ? " relabelled" : "");
      Check(store_->SetSplit(Make<mv::Split>(split_), relabel ? mv::Placement::kLeastMoved : mv::Placement::kInOrder));
    }
    expected_.Redistribute(split_);
    if (Draw(0, 1)) {
      Check(store_->Redistribute());
    } else {
      CompareTasks(!relabelled_ && Draw(0, 2) == 0);
    }
    CompareParts("after a redistribution");
  }
  return compared;
}

mv::WorldOptions DrawOptions(std::mt19937_64* random) {
  mv::WorldOptions options;
  options.direct_reads = (*random)() % 4 != 0;
  options.node_size = static_cast<int>((*random)() % 4);
  options.rounds = (*random)() % 4 == 0 ? static_cast<int>(2 + (*random)() % 3) : 1;
  constexpr std::size_t kMessages[] = {0, 0, 7, 100, 4096};
  options.packed_message_bytes = kMessages[(*random)() % 5];
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long wanted = 1000;
  int processes = 0;
  g_seed = std::random_device()();
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--processes") == 0) processes = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--layouts") == 0) wanted = std::atol(argv[i + 1]);
    if (std::strcmp(argv[i], "--seed") == 0) g_seed = static_cast<unsigned>(std::atol(argv[i + 1]));
  }
  if (processes != size) {  // so that processes that do not find each other are not taken for a test
    std::fprintf(stderr, "multiview_random: %d processes; --processes N says how many there are to be\n", size);
    MPI_Finalize();
    return 2;
  }
  if (const char* value = std::getenv("HARROW_LONG"); value && *value) wanted = std::max(wanted, 10000L);
  MPI_Bcast(&g_seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
  if (rank == 0) std::printf("multiview_random: seed %u\n", g_seed), std::fflush(stdout);

  std::mt19937_64 common(g_seed);
  constexpr int kCasesAWorld = 20;
  long compared = 0;
  for (int division = 0; compared < wanted; ++division) {
    // Groups of consecutive ranks; the first division is one group of all, the second each process alone.
    std::vector<int> group_of(size);
    int groups = 0;
    for (int p = 0; p < size; ++groups) {
      const int members = division == 0 ? size : division == 1 ? 1 : 1 + static_cast<int>(common() % static_cast<unsigned>(size));
      for (int m = 0; m < members && p < size; ++m) group_of[p++] = groups;
    }
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, group_of[rank], rank, &comm);
    std::mt19937_64 random(g_seed + 1000003ul * static_cast<unsigned long>(division) + static_cast<unsigned long>(group_of[rank]));
    g_case = "setting up";
    long mine = 0;
    {
      auto world = mv::World::Create(comm, DrawOptions(&random));
      Check(world.status());
      for (int i = 0; i < kCasesAWorld; ++i) mine += Case(comm, *world, &random).Run();
    }
    int group_rank;
    MPI_Comm_rank(comm, &group_rank);
    MPI_Comm_free(&comm);
    if (group_rank != 0) mine = 0;
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    compared += mine;
  }
  if (rank == 0) std::printf("multiview_random: %ld redistributions equal the reference\n", compared);
  MPI_Finalize();
}
