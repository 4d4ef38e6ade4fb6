#include "migrate/sample.h"

namespace harrow::migrate {

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
