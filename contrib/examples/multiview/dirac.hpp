// What both lattice programs share: the lattice, its sources, and the solver of one task. Nothing here redistributes anything.
//
// Each site holds a colour vector of three complex numbers; neighbours are joined by U(1) phases. The operator
//   (D x)(s) = (m + 4) x(s) - 1/2 sum over mu of [ U_mu(s) x(s + mu) + conj(U_mu(s - mu)) x(s - mu) ]
// is Hermitian and positive, and is solved by conjugate gradients over the processes that share one ensemble member.
#pragma once

#include <mpi.h>

#include <array>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace lattice {

constexpr int kColours = 3;
constexpr double kMass = 0.3;
using Vector = std::array<std::complex<double>, kColours>;
using Site = std::array<long, 4>;  // x, y, z, t

// A process's part of one member: a box of sites on a grid of processes, ranks of `comm` in row-major order of the grid.
struct Part {
  Site lattice, origin, extent, grid;
  MPI_Comm comm;
  long volume() const { return extent[0] * extent[1] * extent[2] * extent[3]; }
};

inline double Random(long a, long b, long c, long d, long e) {
  unsigned long h = 1;
  for (long v : {a, b, c, d, e}) h = (h ^ static_cast<unsigned long>(v)) * 6364136223846793005ul + 1442695040888963407ul, h ^= h >> 29;
  return static_cast<double>(h >> 11) / 9007199254740992.0;
}

inline std::complex<double> Phase(int mu, const Site& s) {
  return std::polar(1.0, 0.6 * Random(100 + mu, s[0], s[1], s[2], s[3]));
}

// The source of an ensemble member at a site.
inline Vector Source(long member, const Site& s) {
  Vector v;
  for (int c = 0; c < kColours; ++c) {
    v[c] = {Random(10 * member + c, s[0], s[1], s[2], s[3]) - 0.5, Random(10 * member + c + 5, s[0], s[1], s[2], s[3]) - 0.5};
  }
  return v;
}

class Solver {
 public:
  explicit Solver(const Part& part) : part_(part), volume_(part.volume()) {
    const Site& n = part_.extent;
    for (long i = 0, site = 0; i < n[0]; ++i) {
      for (long j = 0; j < n[1]; ++j) {
        for (long k = 0; k < n[2]; ++k) {
          for (long l = 0; l < n[3]; ++l, ++site) {
            const Site s{part_.origin[0] + i, part_.origin[1] + j, part_.origin[2] + k, part_.origin[3] + l};
            for (int mu = 0; mu < 4; ++mu) {
              phases_.push_back(Phase(mu, s));
              Site before = s;
              before[mu] = (s[mu] + part_.lattice[mu] - 1) % part_.lattice[mu];
              phases_.push_back(std::conj(Phase(mu, before)));
            }
          }
        }
      }
    }
  }

  // Replaces the right-hand side in `x` by the solution; returns the relative residual.
  double Solve(Vector* x, int most_iterations = 200, double tolerance = 1e-10) {
    std::vector<Vector> r(x, x + volume_), p = r, q(r.size());
    for (long s = 0; s < volume_; ++s) x[s] = {};
    const double start = Dot(r, r);
    double rr = start;
    for (int i = 0; i < most_iterations && rr > tolerance * tolerance * start; ++i) {
      Apply(p, &q);
      const double alpha = rr / Dot(p, q);
      for (long s = 0; s < volume_; ++s) {
        for (int c = 0; c < kColours; ++c) x[s][c] += alpha * p[s][c], r[s][c] -= alpha * q[s][c];
      }
      const double next = Dot(r, r);
      for (long s = 0; s < volume_; ++s) {
        for (int c = 0; c < kColours; ++c) p[s][c] = r[s][c] + next / rr * p[s][c];
      }
      rr = next;
    }
    return std::sqrt(rr / start);
  }

 private:
  double Dot(const std::vector<Vector>& a, const std::vector<Vector>& b) const {
    double sum = 0;
    for (long s = 0; s < volume_; ++s) {
      for (int c = 0; c < kColours; ++c) sum += (std::conj(a[s][c]) * b[s][c]).real();
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, part_.comm);
    return sum;
  }

  long Step(int mu) const {
    long step = 1;
    for (int d = 3; d > mu; --d) step *= part_.extent[d];
    return step;
  }

  // The neighbour process in direction mu, one grid point up or down.
  int Neighbour(int mu, int direction) const {
    int rank;
    MPI_Comm_rank(part_.comm, &rank);
    long step = 1;
    for (int d = 3; d > mu; --d) step *= part_.grid[d];
    const long at = rank / step % part_.grid[mu], to = (at + direction + part_.grid[mu]) % part_.grid[mu];
    return static_cast<int>(rank + (to - at) * step);
  }

  // The other side's sites next to ours, in the order of our face.
  std::vector<Vector> Halo(const std::vector<Vector>& x, int mu, int direction) const {
    const long step = Step(mu), n = part_.extent[mu];
    std::vector<Vector> out, in(static_cast<std::size_t>(volume_ / n));
    for (long s = 0; s < volume_; ++s) {
      if (s / step % n == (direction > 0 ? 0 : n - 1)) out.push_back(x[s]);
    }
    const int bytes = static_cast<int>(out.size() * sizeof(Vector));
    MPI_Sendrecv(out.data(), bytes, MPI_BYTE, Neighbour(mu, -direction), mu, in.data(), bytes, MPI_BYTE, Neighbour(mu, direction),
                 mu, part_.comm, MPI_STATUS_IGNORE);
    return in;
  }

  void Apply(const std::vector<Vector>& x, std::vector<Vector>* y) const {
    for (long s = 0; s < volume_; ++s) {
      for (int c = 0; c < kColours; ++c) (*y)[s][c] = (kMass + 4) * x[s][c];
    }
    for (int mu = 0; mu < 4; ++mu) {
      const long step = Step(mu), n = part_.extent[mu];
      const std::vector<Vector> up = Halo(x, mu, 1), down = Halo(x, mu, -1);
      for (long s = 0, face = 0; s < volume_; ++s) {
        const long at = s / step % n;
        // Sites of a face are counted alike for both faces: without the index in direction mu.
        face = s / (step * n) * step + s % step;
        const Vector& next = at + 1 < n ? x[s + step] : up[face];
        const Vector& last = at > 0 ? x[s - step] : down[face];
        const auto &u = phases_[8 * s + 2 * mu], &v = phases_[8 * s + 2 * mu + 1];
        for (int c = 0; c < kColours; ++c) (*y)[s][c] -= 0.5 * (u * next[c] + v * last[c]);
      }
    }
  }

  Part part_;
  long volume_;
  std::vector<std::complex<double>> phases_;  // at 8 s + 2 mu: forward, backward
};

// A number that depends on every component of every solution, and on where it is.
inline double Checksum(long member, const Site& s, const Vector& v) {
  double sum = 0;
  for (int c = 0; c < kColours; ++c) sum += v[c].real() * Random(member, s[0], s[1], s[2], s[3]) + v[c].imag() * (c + 1);
  return sum;
}

struct Settings {
  long members = 4;
  Site lattice{8, 8, 8, 8};
  Site grid_all;  // processes in x, y, z, t when all share every member
  Site grid_one;  // ... when each member has its own
};

// Processes are dealt to the last dimensions first, by factors of two; with one member each, `members` times fewer.
inline Settings Arrange(int argc, char** argv, int processes) {
  Settings s;
  if (argc > 1) s.members = std::atol(argv[1]);
  if (argc > 2) s.lattice.fill(std::atol(argv[2]));
  const auto deal = [&](long n) {
    Site grid{1, 1, 1, 1};
    for (int d = 3; n > 1 && n % 2 == 0; n /= 2, d = d == 0 ? 3 : d - 1) grid[d] *= 2;
    if (n != 1) {
      std::fprintf(stderr, "processes must be members times a power of two, members a power of two\n");
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return grid;
  };
  s.grid_all = deal(processes);
  s.grid_one = deal(std::max(1L, processes / s.members));
  return s;
}

inline void Report(const Settings& settings, double residual, double checksum) {
  double all[2] = {residual, checksum};
  MPI_Reduce(&residual, &all[0], 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce(&checksum, &all[1], 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) std::printf("%ld solves, largest residual %s 1e-9, checksum %.8f\n", settings.members, all[0] < 1e-9 ? "below" : "ABOVE", all[1]);
}

}  // namespace lattice
