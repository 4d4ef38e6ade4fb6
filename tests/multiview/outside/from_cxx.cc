// As from_c.c.
#include <cstdio>
#include <harrow/multiview.hpp>

namespace mv = harrow::multiview;

static void Need(const mv::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "from_cxx: %s\n", status.message().c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void Run() {
  auto world = mv::World::Create(MPI_COMM_WORLD);
  Need(world.status());
  auto matrix = world->CreateStore({6, 5}, sizeof(double));
  auto sums = world->CreateStore({5}, sizeof(double));
  Need(matrix.status());
  Need(sums.status());
  Need(matrix->SetSplit({mv::kAll, mv::kNone}));
  Need(matrix->LoadParallel([](mv::Loader& loader) {
    auto block = loader.Block();
    if (!block) return 1;
    for (mv::Element e : *block) e.as<double>() = 10.0 * static_cast<double>(e.coordinates[0]) + static_cast<double>(e.coordinates[1]);
    return 0;
  }));
  Need(matrix->SetSplit({mv::kNone, mv::kAll}));
  Need(matrix->Map(&*sums, [](mv::Task& task) {
    double total = 0;
    for (mv::Element e : task.elements()) total += e.as<double>();
    return task.Put({task.key()[1]}, total).ok() ? 0 : 1;
  }, {mv::kNone, mv::kAll}).status);
  Need(sums->ForEach([&](const mv::Element& e) {
    if (world->rank() == 0) std::printf("%s%g", e.coordinates[0] ? " " : "", e.as<double>());
  }));
  if (world->rank() == 0) std::printf("\n");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Run();
  MPI_Finalize();
}
