#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace harrow::supervisor {

/// When tasks move (T. Osumi, K. Aida, section 3.1).
enum class Trigger : uint8_t {
  kEmpty,   // (1): a server has no ready task
  kLow,     // (2): one has fewer than alpha times what it should have
  kAlways,  // (3): whenever servers have reported
};
/// How many (section 3.2).
enum class Amount : uint8_t {
  kCapacity,  // (A): so that ready tasks are as the capacities
  kWorkers,   // (B): as the numbers of workers
};
std::optional<Trigger> TriggerOf(std::string_view name);
std::string_view NameOf(Trigger trigger);
std::optional<Amount> AmountOf(std::string_view name);
std::string_view NameOf(Amount amount);

/// One server, as far as tasks of one shape go.
struct Side {
  uint64_t ready = 0;
  double capacity = 0;
  uint32_t workers = 0;
  // It can begin no more than that before its allocation ends.
  double most = std::numeric_limits<double>::infinity();

  double weight(Amount amount) const { return amount == Amount::kCapacity ? capacity : workers; }
};

/// How many ready tasks each should have, their sum that of those that there are, each at most what it can
/// begin, as long as others can. All 0 where no weight is above 0.
std::vector<double> Desired(std::span<const Side> sides, Amount amount);

/// Is it time? By the capacities, whatever the amount, as in the paper. Servers without a weight make no
/// trigger fire.
bool Fires(std::span<const Side> sides, Trigger trigger, double alpha);

/// How many each gives (above 0) or gets, in whole tasks: the desired numbers rounded by largest remainder,
/// ties to the lowest index. Their sum is 0.
std::vector<int64_t> Amounts(std::span<const Side> sides, Amount amount);

struct Pair {
  size_t from = 0, to = 0;
  uint64_t count = 0;
  bool operator==(const Pair&) const = default;
};
/// The largest giver gives to the largest taker, ties to the lowest index, until nobody has more to give or
/// wants more: fewer pairs than servers.
std::vector<Pair> PairUp(std::span<const int64_t> amounts);

}  // namespace harrow::supervisor
