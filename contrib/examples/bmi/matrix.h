// Symmetric matrices, and their largest eigenvalue.
#ifndef BMI_MATRIX_H
#define BMI_MATRIX_H

#include <cstddef>
#include <vector>

namespace bmi {

/// A symmetric matrix as its lower triangle, row by row: what LAPACK and DSDP call packed.
class Matrix {
 public:
  explicit Matrix(int size = 0) : size_(size), packed_(static_cast<std::size_t>(size) * (size + 1) / 2) {}
  int size() const { return size_; }
  const std::vector<double>& packed() const { return packed_; }
  std::vector<double>& packed() { return packed_; }
  /// Adds `factor` x `other`, which has the same size.
  void Add(double factor, const Matrix& other);
  double Norm() const;  // Frobenius
  double LargestEigenvalue() const;

 private:
  int size_;
  std::vector<double> packed_;
};

}  // namespace bmi

#endif
