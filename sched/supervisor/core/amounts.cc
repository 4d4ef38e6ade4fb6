#include "supervisor/core/amounts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <utility>

namespace harrow::supervisor {
namespace {

double SumOf(std::span<const Side> sides, Amount amount) {
  double sum = 0;
  for (const Side& side : sides) sum += side.weight(amount);
  return sum;
}

uint64_t ReadyOf(std::span<const Side> sides) {
  uint64_t sum = 0;
  for (const Side& side : sides) sum += side.ready;
  return sum;
}

}  // namespace

std::optional<Trigger> TriggerOf(std::string_view name) {
  for (const Trigger trigger : {Trigger::kEmpty, Trigger::kLow, Trigger::kAlways}) {
    if (name == NameOf(trigger)) return trigger;
  }
  return std::nullopt;
}
std::string_view NameOf(Trigger trigger) {
  return trigger == Trigger::kEmpty ? "empty" : trigger == Trigger::kLow ? "low" : "always";
}
std::optional<Amount> AmountOf(std::string_view name) {
  for (const Amount amount : {Amount::kCapacity, Amount::kWorkers}) {
    if (name == NameOf(amount)) return amount;
  }
  return std::nullopt;
}
std::string_view NameOf(Amount amount) {
  return amount == Amount::kCapacity ? "capacity" : "workers";
}

std::vector<double> Desired(std::span<const Side> sides, Amount amount) {
  std::vector<double> desired(sides.size(), 0);
  std::vector<bool> full(sides.size(), false);
  auto left = static_cast<double>(ReadyOf(sides));
  double weights = SumOf(sides, amount);
  // Who would get more than it can begin gets that, and the others share the rest.
  for (bool again = true; again && weights > 0;) {
    again = false;
    const double share = left / weights;
    for (size_t i = 0; i < sides.size(); ++i) {
      if (full[i] || share * sides[i].weight(amount) <= sides[i].most) continue;
      full[i] = again = true;
      desired[i] = std::max(0.0, sides[i].most);
      left -= desired[i];
      weights -= sides[i].weight(amount);
    }
    if (std::none_of(sides.begin(), sides.end(), [&](const Side& side) {
          return !full[static_cast<size_t>(&side - sides.data())] && side.weight(amount) > 0;
        })) {
      weights = 0;
    }
  }
  if (weights > 0) {
    for (size_t i = 0; i < sides.size(); ++i) {
      if (!full[i]) desired[i] = left * sides[i].weight(amount) / weights;
    }
    return desired;
  }
  // All are full: what is left waits where it would wait without limits.
  const double all = SumOf(sides, amount);
  for (size_t i = 0; i < sides.size(); ++i)
    desired[i] = all > 0 ? static_cast<double>(ReadyOf(sides)) * sides[i].weight(amount) / all : 0;
  return desired;
}

bool Fires(std::span<const Side> sides, Trigger trigger, double alpha) {
  if (trigger == Trigger::kAlways) return true;
  const std::vector<double> desired = Desired(sides, Amount::kCapacity);
  for (size_t i = 0; i < sides.size(); ++i) {
    if (sides[i].capacity <= 0 || sides[i].most <= 0) continue;
    if (trigger == Trigger::kEmpty ? sides[i].ready == 0
                                   : static_cast<double>(sides[i].ready) < alpha * desired[i])
      return true;
  }
  return false;
}

std::vector<int64_t> Amounts(std::span<const Side> sides, Amount amount) {
  std::vector<int64_t> amounts(sides.size(), 0);
  if (SumOf(sides, amount) <= 0) return amounts;
  const std::vector<double> desired = Desired(sides, amount);
  std::vector<size_t> by_rest(sides.size());
  std::iota(by_rest.begin(), by_rest.end(), 0);
  auto left = static_cast<int64_t>(ReadyOf(sides));
  for (size_t i = 0; i < sides.size(); ++i) {
    const auto whole = static_cast<int64_t>(std::floor(desired[i]));
    amounts[i] = static_cast<int64_t>(sides[i].ready) - whole;
    left -= whole;
  }
  std::stable_sort(by_rest.begin(), by_rest.end(), [&](size_t a, size_t b) {
    return desired[a] - std::floor(desired[a]) > desired[b] - std::floor(desired[b]);
  });
  // Those without a weight have no remainder, and come last.
  std::erase_if(by_rest, [&](size_t i) { return sides[i].weight(amount) <= 0; });
  for (size_t i = 0; left > 0; i = (i + 1) % by_rest.size(), --left) --amounts[by_rest[i]];
  for (size_t i = by_rest.size(); left < 0; ++left) {
    i = (i == 0 ? by_rest.size() : i) - 1;
    ++amounts[by_rest[i]];
  }
  return amounts;
}

std::vector<Pair> PairUp(std::span<const int64_t> amounts) {
  using Entry = std::pair<uint64_t, size_t>;
  const auto later = [](const Entry& a, const Entry& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  };
  std::priority_queue<Entry, std::vector<Entry>, decltype(later)> givers(later), takers(later);
  for (size_t i = 0; i < amounts.size(); ++i) {
    if (amounts[i] > 0) givers.emplace(static_cast<uint64_t>(amounts[i]), i);
    if (amounts[i] < 0) takers.emplace(static_cast<uint64_t>(-amounts[i]), i);
  }
  std::vector<Pair> pairs;
  while (!givers.empty() && !takers.empty()) {
    const auto [has, from] = givers.top();
    const auto [wants, to] = takers.top();
    givers.pop();
    takers.pop();
    const uint64_t count = std::min(has, wants);
    pairs.push_back({from, to, count});
    if (has > count) givers.emplace(has - count, from);
    if (wants > count) takers.emplace(wants - count, to);
  }
  return pairs;
}

}  // namespace harrow::supervisor
