// An ensemble of Dirac solves (figure 4 of the paper): right-hand sides lie spread over all processes; each is solved by the
// processes of its own member; the solutions go back to where the right-hand sides were.
//
//   mpirun -n 8 qcd_multiview [members [lattice]]
#include <harrow/multiview.hpp>

#include "dirac.hpp"

namespace mv = harrow::multiview;
using lattice::Site;
using lattice::Vector;

namespace {

void Need(const mv::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// Begin of redistribution and scheduling.
double Run(const lattice::Settings& s, double* checksum) {
  const auto& [gx, gy, gz, gt] = s.grid_all;
  const auto& [hx, hy, hz, ht] = s.grid_one;
  auto world = mv::World::Create(MPI_COMM_WORLD);
  Need(world.status());
  auto store = world->CreateStore({s.members, s.lattice[0], s.lattice[1], s.lattice[2], s.lattice[3]}, sizeof(Vector));
  Need(store.status());
  Need(store->SetSplit({mv::kNone, gx, gy, gz, gt}));
  Need(store->LoadParallel([&](mv::Loader& loader) {
    auto block = loader.Block();
    if (!block) return 1;
    for (mv::Element e : *block) {
      const auto at = e.coordinates;
      e.as<Vector>() = lattice::Source(at[0], {at[1], at[2], at[3], at[4]});
    }
    return 0;
  }));

  double residual = 0;
  Need(store->SetSplit({mv::kAll, hx, hy, hz, ht}));
  Need(store->Map(&*store, [&](mv::Task& task) {
    const mv::Fragment& f = task.elements().fragments()[0];
    lattice::Part part{s.lattice, {f.origin[1], f.origin[2], f.origin[3], f.origin[4]},
                       {f.extent[1], f.extent[2], f.extent[3], f.extent[4]}, s.grid_one, task.comm()};
    residual = std::max(residual, lattice::Solver(part).Solve(f.as<Vector>()));
    return 0;
  }, {mv::kAll, mv::kNone, mv::kNone, mv::kNone, mv::kNone}).status);

  Need(store->SetSplit({mv::kNone, gx, gy, gz, gt}));
  Need(store->Map(nullptr, [&](mv::Task& task) {
    for (mv::Element e : task.elements()) {
      const auto at = e.coordinates;
      *checksum += lattice::Checksum(at[0], {at[1], at[2], at[3], at[4]}, e.as<Vector>());
    }
    return 0;
  }, {mv::kNone, mv::kNone, mv::kNone, mv::kNone, mv::kNone}).status);
  return residual;
}
// End of redistribution and scheduling.

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const lattice::Settings settings = lattice::Arrange(argc, argv, size);
  double checksum = 0;
  const double residual = Run(settings, &checksum);
  lattice::Report(settings, residual, checksum);
  MPI_Finalize();
}
