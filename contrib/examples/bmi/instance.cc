#include "instance.h"

#include <cstdint>
#include <cstdio>

namespace bmi {
namespace {

/// A linear congruential generator of 64 bits, whose upper bits are mixed and taken.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed * 2 + 1) {
    for (int i = 0; i < 8; ++i) Next();
  }
  /// Uniform in [-1, 1].
  double Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    const std::uint64_t mixed = (state_ ^ (state_ >> 29)) * 0x9e3779b97f4a7c15u;
    return static_cast<double>(mixed >> 11) / 4503599627370496.0 - 1;  // 2^52
  }

 private:
  std::uint64_t state_;
};

}  // namespace

Instance::Instance(int x_count, int y_count, int size, unsigned seed) : x_count_(x_count), y_count_(y_count), size_(size) {
  Draw draw(seed);
  for (int i = 0; i <= x_count; ++i) {
    for (int j = 0; j <= y_count; ++j) {
      Matrix& matrix = matrices_.emplace_back(size);
      for (double& entry : matrix.packed()) entry = draw.Next();
    }
  }
}

std::optional<Instance> Instance::Named(const std::string& name) {
  unsigned kind = 0, number = 0;
  char more = 0;
  if (name.size() != 7 || std::sscanf(name.c_str(), "RD%2u-%2u%c", &kind, &number, &more) != 2 || number == 0) return std::nullopt;
  const unsigned seed = kind * 100 + number;
  if (kind == 5 && number <= 5) return Instance(5, 5, 20, seed);
  if (kind == 6 && number <= 4) return Instance(6, 6, 24, seed);
  if (kind == 2 && number <= 9) return Instance(2, 2, 8, seed);
  return std::nullopt;
}

Box Instance::Whole() const {
  return {Point(variables(), -1), Point(variables(), 1)};
}

std::vector<Matrix> Instance::WithX(const Point& point) const {
  std::vector<Matrix> of;
  for (int j = 0; j <= y_count_; ++j) {
    Matrix& sum = of.emplace_back(Of(0, j));
    for (int i = 1; i <= x_count_; ++i) sum.Add(point[i - 1], Of(i, j));
  }
  return of;
}

std::vector<Matrix> Instance::WithY(const Point& point) const {
  std::vector<Matrix> of;
  for (int i = 0; i <= x_count_; ++i) {
    Matrix& sum = of.emplace_back(Of(i, 0));
    for (int j = 1; j <= y_count_; ++j) sum.Add(point[x_count_ + j - 1], Of(i, j));
  }
  return of;
}

double Instance::Value(const Point& point) const {
  std::vector<Matrix> of = WithX(point);
  for (int j = 1; j <= y_count_; ++j) of[0].Add(point[x_count_ + j - 1], of[j]);
  return of[0].LargestEigenvalue();
}

}  // namespace bmi
