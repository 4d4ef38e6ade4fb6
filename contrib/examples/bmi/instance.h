// The bilinear matrix function F(x, y) = F_00 + sum x_i F_i0 + sum y_j F_0j + sum x_i y_j F_ij, and a box of x and y.
#ifndef BMI_INSTANCE_H
#define BMI_INSTANCE_H

#include <optional>
#include <string>
#include <vector>

#include "matrix.h"

namespace bmi {

/// x and then y, one vector.
using Point = std::vector<double>;

/// Of each variable where it begins and ends.
struct Box {
  Point low, high;
};

class Instance {
 public:
  /// Symmetric matrices with entries uniform in [-1, 1] of a generator of our own: the same everywhere.
  Instance(int x_count, int y_count, int size, unsigned seed);
  /// RD05-01 to -05 (5 + 5 variables, matrices of 20 x 20), RD06-01 to -04 (6 + 6, 24 x 24); others for tests: RD02-01 to -09 (2 + 2,
  /// 8 x 8).
  static std::optional<Instance> Named(const std::string& name);

  int x_count() const { return x_count_; }
  int y_count() const { return y_count_; }
  int variables() const { return x_count_ + y_count_; }
  int size() const { return size_; }
  /// F_ij; 0 is that without the variable, so the first x is 1.
  const Matrix& Of(int i, int j) const { return matrices_[static_cast<std::size_t>(i) * (y_count_ + 1) + j]; }
  Box Whole() const;

  /// F with x fixed, as a function of y: [0] is its constant, [j] what y_j is multiplied with. The same the other way round.
  std::vector<Matrix> WithX(const Point& point) const;
  std::vector<Matrix> WithY(const Point& point) const;
  /// The largest eigenvalue of F(x, y).
  double Value(const Point& point) const;

 private:
  int x_count_, y_count_, size_;
  std::vector<Matrix> matrices_;
};

}  // namespace bmi

#endif
