// The twin of qcd_multiview without the library: the same program with MPI_Alltoallv and communicators by hand.
//
//   mpirun -n 8 qcd_native [members [lattice]]
#include <algorithm>

#include "dirac.hpp"

using lattice::Site;
using lattice::Vector;

namespace {

// Begin of redistribution and scheduling.
// Members first .. first + members - 1 of a box of sites.
struct Block {
  long first, members;
  Site origin, extent;
  long sites() const { return extent[0] * extent[1] * extent[2] * extent[3]; }
  long volume() const { return members * sites(); }
};

// Along a dimension blocks differ by at most one element, larger ones first.
long Start(long n, long blocks, long b) { return b * (n / blocks) + std::min(b, n % blocks); }

// Blocks in row-major order over processes: members are cut into `groups`, sites by `grid`.
Block BlockOf(const lattice::Settings& s, long groups, const Site& grid, long rank) {
  Block block;
  for (int d = 3; d >= 0; --d) {
    const long b = rank % grid[d];
    rank /= grid[d];
    block.origin[d] = Start(s.lattice[d], grid[d], b);
    block.extent[d] = Start(s.lattice[d], grid[d], b + 1) - block.origin[d];
  }
  block.first = Start(s.members, groups, rank);
  block.members = Start(s.members, groups, rank + 1) - block.first;
  return block;
}

bool Overlap(const Block& a, const Block& b, Block* out) {
  out->first = std::max(a.first, b.first);
  out->members = std::min(a.first + a.members, b.first + b.members) - out->first;
  if (out->members <= 0) return false;
  for (int d = 0; d < 4; ++d) {
    out->origin[d] = std::max(a.origin[d], b.origin[d]);
    out->extent[d] = std::min(a.origin[d] + a.extent[d], b.origin[d] + b.extent[d]) - out->origin[d];
    if (out->extent[d] <= 0) return false;
  }
  return true;
}

// Copies a part of a block's array to or from a packed buffer, row by row.
Vector* Copy(const Block& whole, const Block& part, Vector* array, Vector* packed, bool pack) {
  for (long m = 0; m < part.members; ++m) {
    for (long i = 0; i < part.extent[0]; ++i) {
      for (long j = 0; j < part.extent[1]; ++j) {
        for (long k = 0; k < part.extent[2]; ++k) {
          long at = part.first + m - whole.first;
          at = at * whole.extent[0] + part.origin[0] + i - whole.origin[0];
          at = at * whole.extent[1] + part.origin[1] + j - whole.origin[1];
          at = at * whole.extent[2] + part.origin[2] + k - whole.origin[2];
          at = at * whole.extent[3] + part.origin[3] - whole.origin[3];
          if (pack) {
            std::copy_n(array + at, part.extent[3], packed);
          } else {
            std::copy_n(packed, part.extent[3], array + at);
          }
          packed += part.extent[3];
        }
      }
    }
  }
  return packed;
}

std::vector<Vector> Redistribute(const lattice::Settings& s, std::vector<Vector>& from, long from_groups, const Site& from_grid,
                                 long to_groups, const Site& to_grid) {
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const Block mine = BlockOf(s, from_groups, from_grid, rank), wanted = BlockOf(s, to_groups, to_grid, rank);
  std::vector<int> send(size), send_at(size), receive(size), receive_at(size);
  int out = 0, in = 0;
  Block part;
  for (int p = 0; p < size; ++p) {
    send_at[p] = out;
    receive_at[p] = in;
    if (Overlap(mine, BlockOf(s, to_groups, to_grid, p), &part)) out += send[p] = static_cast<int>(part.volume());
    if (Overlap(wanted, BlockOf(s, from_groups, from_grid, p), &part)) in += receive[p] = static_cast<int>(part.volume());
  }
  std::vector<Vector> packed(static_cast<std::size_t>(out)), arrived(static_cast<std::size_t>(in)), to(static_cast<std::size_t>(in));
  Vector* at = packed.data();
  for (int p = 0; p < size; ++p) {
    if (Overlap(mine, BlockOf(s, to_groups, to_grid, p), &part)) at = Copy(mine, part, from.data(), at, true);
  }
  MPI_Datatype record;
  MPI_Type_contiguous(sizeof(Vector), MPI_BYTE, &record);
  MPI_Type_commit(&record);
  MPI_Alltoallv(packed.data(), send.data(), send_at.data(), record, arrived.data(), receive.data(), receive_at.data(), record,
                MPI_COMM_WORLD);
  MPI_Type_free(&record);
  at = arrived.data();
  for (int p = 0; p < size; ++p) {
    if (Overlap(wanted, BlockOf(s, from_groups, from_grid, p), &part)) at = Copy(wanted, part, to.data(), at, false);
  }
  return to;
}

double Run(const lattice::Settings& s, double* checksum) {
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const long groups = std::min<long>(s.members, size);
  const Block spread = BlockOf(s, 1, s.grid_all, rank), own = BlockOf(s, groups, s.grid_one, rank);
  const auto visit = [&](std::vector<Vector>& x, auto&& each) {
    long at = 0;
    for (long m = 0; m < spread.members; ++m) {
      for (long n = 0; n < spread.sites(); ++n, ++at) {
        Site site;
        long rest = n;
        for (int d = 3; d >= 0; rest /= spread.extent[d--]) site[d] = spread.origin[d] + rest % spread.extent[d];
        each(spread.first + m, site, x[at]);
      }
    }
  };
  std::vector<Vector> x(static_cast<std::size_t>(spread.volume()));
  visit(x, [](long m, const Site& site, Vector& v) { v = lattice::Source(m, site); });

  std::vector<Vector> y = Redistribute(s, x, 1, s.grid_all, groups, s.grid_one);
  MPI_Comm comm;
  MPI_Comm_split(MPI_COMM_WORLD, static_cast<int>(own.first), rank, &comm);
  double residual = 0;
  for (long m = 0; m < own.members; ++m) {
    lattice::Part part{s.lattice, own.origin, own.extent, s.grid_one, comm};
    residual = std::max(residual, lattice::Solver(part).Solve(y.data() + m * own.sites()));
  }
  MPI_Comm_free(&comm);
  x = Redistribute(s, y, groups, s.grid_one, 1, s.grid_all);
  visit(x, [&](long m, const Site& site, Vector& v) { *checksum += lattice::Checksum(m, site, v); });
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
