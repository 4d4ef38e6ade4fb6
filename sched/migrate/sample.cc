#include "migrate/sample.h"

namespace harrow::migrate {

bool IsDrawn(uint64_t one, uint64_t other, uint64_t one_of) {
  uint64_t mixed = (one ^ (other * 0x9E3779B97F4A7C15u)) * 0xBF58476D1CE4E5B9u;
  mixed ^= mixed >> 31;
  return mixed * 0x94D049BB133111EBu % one_of == 0;
}

size_t InCommon(const Sample& a, const Sample& b) {
  size_t common = 0;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (*i < *j) {
      ++i;
    } else {
      common += *i == *j;
      ++j;
    }
  }
  return common;
}

}  // namespace harrow::migrate
