#include "matrix.h"

#include <cmath>

extern "C" void dspevd_(const char* job, const char* triangle, const int* size, double* packed, double* values, double* vectors,
                        const int* vectors_rows, double* work, const int* work_size, int* integers, const int* integers_size, int* info);

namespace bmi {

void Matrix::Add(double factor, const Matrix& other) {
  for (std::size_t i = 0; i < packed_.size(); ++i) packed_[i] += factor * other.packed_[i];
}

double Matrix::Norm() const {
  double sum = 0;
  std::size_t at = 0;
  for (int row = 0; row < size_; ++row) {
    for (int column = 0; column <= row; ++column, ++at) sum += packed_[at] * packed_[at] * (column < row ? 2 : 1);
  }
  return std::sqrt(sum);
}

double Matrix::LargestEigenvalue() const {
  std::vector<double> copy = packed_, values(size_), work(2 * size_);
  const int work_size = static_cast<int>(work.size()), one = 1;
  int integers = 0, info = 0;
  // Our rows of the lower triangle are LAPACK's columns of the upper one.
  dspevd_("N", "U", &size_, copy.data(), values.data(), nullptr, &one, work.data(), &work_size, &integers, &one, &info);
  return info == 0 ? values.back() : NAN;
}

}  // namespace bmi
