// The model and the filter of the examples: Lorenz-96 (E. N. Lorenz, Predictability: a problem partly solved, 1996) and the local
// ensemble transform Kalman filter (B. R. Hunt, E. J. Kostelich, I. Szunyogh, Physica D 230, 2007).
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace lorenz96 {

constexpr int kPoints = 40;
constexpr double kForcing = 8, kStep = 0.05;
constexpr int kReach = 7;            // points on either side whose observations count
constexpr double kLength = 3.0;      // of their Gaussian weights
constexpr double kInflation = 1.04;  // of the background's covariance
using State = std::vector<double>;

// One step of the fourth-order Runge-Kutta method; `slope` tells dx/dt.
template <class Slope>
void Step(State* x, const Slope& slope) {
  constexpr double kWeights[] = {1, 2, 2, 1}, kNext[] = {0.5, 0.5, 1, 0};
  const State start = *x;
  State at = start;
  for (int stage = 0; stage < 4; ++stage) {
    const State d = slope(at);
    for (std::size_t i = 0; i < d.size(); ++i) {
      (*x)[i] += kStep / 6 * kWeights[stage] * d[i];
      at[i] = start[i] + kNext[stage] * kStep * d[i];
    }
  }
}

// The model, all points.
inline void Forecast(double* x) {
  State state(x, x + kPoints);
  Step(&state, [](const State& s) {
    State d(kPoints);
    for (int i = 0; i < kPoints; ++i) {
      const double after = s[(i + 1) % kPoints], before = s[(i + kPoints - 1) % kPoints], second = s[(i + kPoints - 2) % kPoints];
      d[i] = (after - second) * before - s[i] + kForcing;
    }
    return d;
  });
  std::copy(state.begin(), state.end(), x);
}

extern "C" void dsyev_(const char* job, const char* half, const int* n, double* a, const int* lda, double* w, double* work,
                       const int* lwork, int* info);  // LAPACK

// Eigenvalues and -vectors (one after the other, in `a`) of a symmetric matrix of n x n.
inline void Eigen(int n, State* a, State* values) {
  values->resize(n);
  State work(8 * n);
  const int room = 8 * n;
  int info = 0;
  dsyev_("V", "U", &n, a->data(), &n, values->data(), work.data(), &room, &info);
  if (info != 0) {
    std::fprintf(stderr, "the eigenvalues do not converge\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

// The members' values at one point become those of the analysis. `background` holds the members at all points (they are observed
// as they are), `observed` the observations.
inline void Analyse(int point, State* x, const State& background, const State& observed) {
  const int k = static_cast<int>(x->size());
  State inverse(k * k);  // of the analysis covariance in the ensemble's space
  State gain(k);         // Y^T R^-1 (y - mean)
  for (int i = 0; i < k; ++i) inverse[i * k + i] = (k - 1) / kInflation;
  for (int d = -kReach; d <= kReach; ++d) {
    const int o = (point + d + kPoints) % kPoints;
    const double weight = std::exp(-0.5 * d * d / (kLength * kLength));
    double mean = 0;
    for (int i = 0; i < k; ++i) mean += background[i * kPoints + o] / k;
    for (int i = 0; i < k; ++i) {
      const double yi = weight * (background[i * kPoints + o] - mean);
      gain[i] += yi * (observed[o] - mean);
      for (int j = 0; j < k; ++j) inverse[i * k + j] += yi * (background[j * kPoints + o] - mean);
    }
  }
  State values;
  Eigen(k, &inverse, &values);
  const auto v = [&](int i, int e) { return inverse[e * k + i]; };
  State turned(k), mean_weight(k);
  for (int e = 0; e < k; ++e) {
    for (int i = 0; i < k; ++i) turned[e] += v(i, e) * gain[i];
    turned[e] /= values[e];
  }
  double mean = 0;
  for (double value : *x) mean += value / k;
  State analysis(k, mean);
  for (int i = 0; i < k; ++i) {
    for (int e = 0; e < k; ++e) mean_weight[i] += v(i, e) * turned[e];
  }
  for (int j = 0; j < k; ++j) {
    for (int i = 0; i < k; ++i) {
      double weight = mean_weight[i];
      for (int e = 0; e < k; ++e) weight += v(i, e) * v(j, e) * std::sqrt((k - 1) / values[e]);
      analysis[j] += ((*x)[i] - mean) * weight;
    }
  }
  *x = analysis;
}

inline double Error(const State& a, const State& b) {
  double sum = 0;
  for (int i = 0; i < kPoints; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum / kPoints);
}

}  // namespace lorenz96
