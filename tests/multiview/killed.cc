// A process that is killed within a task, while the others of the task or of the map wait for it: MPI's launcher must end them.
//
//   mpirun -n 4 multiview_killed [alone]     alone: a task a process, so that the others wait in the library
#include <csignal>
#include <cstdio>
#include <cstring>
#include <harrow/multiview.hpp>

namespace mv = harrow::multiview;

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  auto world = mv::World::Create(MPI_COMM_WORLD);
  if (!world || world->size() != 4) return 3;
  const bool alone = argc > 1 && std::strcmp(argv[1], "alone") == 0;
  auto store = world->CreateStore({2, world->size()}, sizeof(int), mv::Target::kFile);
  if (!store->SetSplit({mv::kNone, mv::kAll}).ok()) return 3;
  if (!store->LoadParallel([](mv::Loader& loader) { return loader.Block().ok() ? 0 : 1; }).ok()) return 3;
  const auto result = store->Map([&](mv::Task& task) {
    if (world->rank() == 1) {
      std::printf("process 1 dies\n");
      std::fflush(stdout);
      std::raise(SIGKILL);
    }
    if (!alone) MPI_Barrier(task.comm());
    return 0;
  }, alone ? mv::View{mv::kNone, mv::kAll} : mv::View{mv::kNone, mv::kNone});
  std::printf("the map has ended: %s\n", result.status.message().c_str());
  MPI_Finalize();
}
