#pragma once

#include <algorithm>
#include <cstddef>

namespace harrow::core {

/// Calls each of `steps` with 0, 1, ... size() - 1, in such a way that step k is some items ahead of step k +
/// 1: the first ones ask memory for what the next ones read. size() is asked again and again, as the last
/// step may add items.
template <class Size, class... Steps>
void InSteps(const Size& size, const Steps&... steps) {
  constexpr size_t kGap = 5;  // items; what is asked for is there after about three
  const size_t gap = std::min<size_t>(kGap, size());
  const size_t lead = gap * (sizeof...(steps) - 1);
  for (size_t at = 0; at < size() + lead; ++at) {
    size_t behind = 0;
    ((at >= behind && at - behind < size() ? steps(at - behind) : void(), behind += gap), ...);
  }
}

}  // namespace harrow::core
