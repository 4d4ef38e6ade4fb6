#include "formats/cluster_model.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "base/text.h"
#include "formats/problems.h"
#include "formats/text_rules.h"
#include "formats/toml_values_internal.h"
#include "graph/graph.h"

namespace harrow::formats {
namespace {

constexpr double kMostRate = 1e18;
constexpr uint32_t kMostNodes = 1'000'000;
constexpr size_t kMostAllocations = 1000;  // each has a scheduler

class ClusterReader {
 public:
  ClusterReader(std::string_view file_name, std::string_view text) : text_(text), problems_(&names_, 20) {
    names_.AddSource(file_name);
  }

  Result<ClusterModel> Read() {
    const size_t bad = std::min(FindInvalidUtf8(text_), text_.find('\0'));
    if (bad != std::string_view::npos) {
      problems_.AddLast(PlaceAt(0, text_, bad), "this is no UTF-8 text; save the file as UTF-8");
      return problems_.status();
    }
    toml::parse_result parsed = toml::parse(text_);
    if (!parsed) {
      problems_.AddLast(At(parsed.error().source()), StrCat("this is no TOML: ", WhatIsWrong(parsed.error()),
                                                            "; write key = \"text\" or key = 4"));
      return problems_.status();
    }
    for (auto&& [key, node] : parsed.table()) ReadTable(key, node);
    if (problems_.empty() && model_.nodes.empty())
      problems_.Add({0, 1, 1}, "there is no node; add [[node]] with cores");
    if (problems_.empty() && model_.node_count() > kMostNodes) {
      problems_.Add(
          {0, model_.nodes.back().line, 1},
          StrCat("there are ", model_.node_count(), " nodes; at most ", kMostNodes, " are modelled"));
    }
    for (size_t i = 0; i < model_.failures.size() && problems_.empty(); ++i) {
      if (model_.failures[i].node >= model_.node_count()) {
        problems_.Add(failure_places_[i], StrCat("there is no node ", model_.failures[i].node,
                                                 "; nodes are 0 to ", model_.node_count() - 1));
      }
    }
    if (problems_.empty() && !model_.allocations.empty()) CheckAllocations();
    if (!problems_.empty()) return problems_.status();
    return std::move(model_);
  }

 private:
  struct Key {
    std::string_view name;
    std::function<void(const toml::node&)> take;
  };
  using Keys = std::vector<Key>;

  SourcePlace At(const toml::source_region& region) const {
    return {0, region.begin.line, region.begin.column};
  }
  void Problem(const toml::node& node, std::string_view what) { problems_.Add(At(node.source()), what); }

  void ReadTable(const toml::key& key, const toml::node& node) {
    const std::string_view name = key.str();
    if (name == "node" || name == "failure" || name == "allocation") {
      const toml::array* tables = node.as_array();
      if (tables == nullptr || !tables->is_homogeneous(toml::node_type::table)) {
        problems_.Add(At(key.source()),
                      StrCat(name, " is no list of tables; every ", name, " begins with [[", name, "]]"));
        return;
      }
      for (const toml::node& table : *tables) {
        if (name == "node") {
          ReadNode(*table.as_table());
        } else if (name == "failure") {
          ReadFailure(*table.as_table());
        } else {
          ReadAllocation(*table.as_table());
        }
      }
      return;
    }
    Keys keys;
    if (name == "cluster") {
      keys = {TextKey("name", &model_.name), TextKey("source", &source_)};
    } else if (name == "storage") {
      keys = {ChoiceKey<ClusterModel::Storage>(
                  "files", &model_.storage,
                  {{"nodes", ClusterModel::Storage::kNodes}, {"shared", ClusterModel::Storage::kShared}}),
              ChoiceKey<ClusterModel::Inputs>("inputs", &model_.inputs,
                                              {{"spread", ClusterModel::Inputs::kSpread},
                                               {"random", ClusterModel::Inputs::kRandom},
                                               {"round-robin", ClusterModel::Inputs::kRoundRobin},
                                               {"outside", ClusterModel::Inputs::kOutside}}),
              RateKey("read_local_disk", &model_.read_local_disk),
              RateKey("read_local_cache", &model_.read_local_cache),
              RateKey("read_remote_disk", &model_.read_remote_disk),
              RateKey("read_remote_cache", &model_.read_remote_cache),
              RateKey("write", &model_.write),
              RateKey("server", &model_.server),
              FlagKey("share_disks", &model_.share_disks),
              BytesKey("write_back", [this](uint64_t bytes) { model_.write_back = bytes; })};
    } else if (name == "network") {
      keys = {RateKey("nic", &model_.nic), RateKey("hub", &model_.hub),
              NumberKey("hub_loss", &model_.hub_loss, 0, 1000)};
    } else if (name == "dispatch") {
      keys = {TimeKey("latency", &model_.latency, true), TimeKey("jitter", &model_.jitter, true),
              TimeKey("overhead", &model_.overhead, true), NumberKey("rate", &model_.rate, 1e-6, 1e12)};
    } else if (name == "failures") {
      keys = {TimeKey("mtbf", &model_.mtbf, false), TimeKey("repair", &model_.repair, false)};
    } else {
      problems_.Add(At(key.source()),
                    StrCat("unknown key ", Printable(name),
                           SuggestOneOf(name, {"cluster", "node", "storage", "network", "dispatch",
                                               "failures", "failure", "allocation"})));
      return;
    }
    if (const toml::table* table = node.as_table()) {
      Take(*table, keys);
    } else {
      problems_.Add(At(key.source()), StrCat(name, " is no table; it begins with [", name, "]"));
    }
  }

  void Take(const toml::table& table, const Keys& keys) {
    for (auto&& [key, node] : table) {
      const std::string_view name = key.str();
      const auto known =
          std::find_if(keys.begin(), keys.end(), [name](const Key& k) { return k.name == name; });
      if (known != keys.end()) {
        known->take(node);
        continue;
      }
      std::vector<std::string_view> names;
      for (const Key& k : keys) names.push_back(k.name);
      problems_.Add(At(key.source()), StrCat("unknown key ", Printable(name), SuggestOneOf(name, names)));
    }
  }

  void ReadNode(const toml::table& table) {
    ClusterModel::Nodes nodes;
    nodes.line = table.source().begin.line;
    nodes.capacity.slots = 0;
    std::optional<uint64_t> page_cache;
    Take(table,
         {WholeKey("count", &nodes.count, 1, kMostNodes),
          WholeKey("cores", &nodes.capacity.slots, 1, kMostCores),
          WholeKey("gpus", &nodes.capacity.devices, 0, 1024), NumberKey("speed", &nodes.speed, 1e-6, 1e6),
          BytesKey("memory", [&](uint64_t bytes) { nodes.capacity.memory = bytes; }),
          BytesKey("page_cache", [&](uint64_t bytes) { page_cache = bytes; })});
    nodes.page_cache = page_cache.value_or(nodes.capacity.memory);
    if (nodes.capacity.slots == 0 && problems_.empty()) Problem(table, "a node has cores; write cores = 8");
    model_.nodes.push_back(nodes);
  }

  void ReadFailure(const toml::table& table) {
    ClusterModel::Failure failure;
    failure.at = -1;
    failure.node = kMostNodes;
    Take(table, {WholeKey("node", &failure.node, 0, kMostNodes - 1), TimeKey("at", &failure.at, true),
                 TimeKey("repair", &failure.repair, false)});
    if (problems_.empty() && (failure.at < 0 || failure.node == kMostNodes)) {
      Problem(table, "a failure has node and at; write node = 0 and at = \"90s\"");
    }
    failure_places_.push_back(At(table.source()));
    model_.failures.push_back(failure);
  }

  void ReadAllocation(const toml::table& table) {
    ClusterModel::Allocation allocation;
    Take(table, {TextKey("name", &allocation.name), WholeKey("nodes", &allocation.nodes, 1, kMostNodes),
                 NumberKey("speed", &allocation.speed, 1e-6, 1e6), TimeKey("begin", &allocation.begin, true),
                 TimeKey("end", &allocation.end, false), TimeKey("delay", &allocation.delay, true)});
    if (problems_.empty() && allocation.nodes == 0)
      Problem(table, "an allocation has nodes; write nodes = 2");
    if (problems_.empty() && allocation.end > 0 && allocation.end <= allocation.begin)
      Problem(table, "it does not end after it begins; write an end after begin, or leave it out if it stays");
    if (allocation.name.empty()) allocation.name = StrCat(model_.allocations.size());
    allocation_places_.push_back(At(table.source()));
    if (model_.allocations.size() == kMostAllocations)
      Problem(table, StrCat("there are more than ", kMostAllocations, " allocations; leave out this one and what follows"));
    if (model_.allocations.size() >= kMostAllocations) return;
    model_.allocations.push_back(std::move(allocation));
  }

  void CheckAllocations() {
    uint64_t nodes = 0;
    for (size_t i = 0; i < model_.allocations.size(); ++i) {
      nodes += model_.allocations[i].nodes;
      for (size_t k = 0; k < i; ++k) {
        if (model_.allocations[k].name != model_.allocations[i].name) continue;
        problems_.Add(allocation_places_[i],
                      StrCat("there are two allocations named ", Printable(model_.allocations[i].name),
                             "; give each a name of its own"));
      }
    }
    if (nodes != model_.node_count())
      problems_.Add(allocation_places_.back(),
                    StrCat("the allocations have ", nodes, " nodes and the cluster ", model_.node_count(),
                           "; each node is in one allocation"));
    if (model_.mtbf > 0 || !model_.failures.empty())
      problems_.Add(allocation_places_.front(),
                    "nodes that fail are not modelled in several allocations; leave out [failures] and "
                    "[[failure]], or [[allocation]]");
  }

  Key TextKey(std::string_view name, std::string* to) {
    return {name, [=, this](const toml::node& node) {
              if (const auto text = node.value<std::string>(); text && node.is_string()) {
                *to = *text;
              } else {
                Problem(node, StrCat(name, " is no text; write ", name, " = \"...\""));
              }
            }};
  }
  Key FlagKey(std::string_view name, bool* to) {
    return {name, [=, this](const toml::node& node) {
              if (const auto flag = node.is_boolean() ? node.value<bool>() : std::nullopt) {
                *to = *flag;
              } else {
                Problem(node, StrCat(name, " is neither true nor false; write ", name, " = true"));
              }
            }};
  }
  template <class E>
  Key ChoiceKey(std::string_view name, E* to, std::vector<std::pair<std::string_view, E>> choices) {
    return {name, [=, this](const toml::node& node) {
              const auto text = node.value<std::string>();
              std::string all;
              for (const auto& [word, value] : choices) {
                if (text && *text == word) {
                  *to = value;
                  return;
                }
                all += StrCat(all.empty() ? "" : ", ", "\"", word, "\"");
              }
              Problem(node,
                      StrCat(name, " cannot be ", text ? Printable(*text) : "that", "; write one of ", all));
            }};
  }
  Key NumberKey(std::string_view name, double* to, double least, double most) {
    return {name, [=, this](const toml::node& node) {
              const auto number = node.is_number() ? node.value<double>() : std::nullopt;
              if (number && *number >= least && *number <= most) {
                *to = *number;
              } else {
                Problem(node, StrCat(name, " is no number from ", least, " to ", most, "; write ", name,
                                     " = ", std::max(least, 1.0)));
              }
            }};
  }
  Key WholeKey(std::string_view name, uint32_t* to, uint32_t least, uint32_t most) {
    return {name, [=, this](const toml::node& node) {
              const auto number = node.is_integer() ? node.value<int64_t>() : std::nullopt;
              if (number && *number >= least && *number <= most) {
                *to = static_cast<uint32_t>(*number);
              } else {
                Problem(node, StrCat(name, " is no whole number from ", least, " to ", most, "; write ", name,
                                     " = ", std::max(least, 1u)));
              }
            }};
  }
  Key BytesKey(std::string_view name, std::function<void(uint64_t)> take) {
    return {name, [=, this](const toml::node& node) {
              const auto text = node.is_string() ? node.value<std::string>() : std::nullopt;
              const Result<uint64_t> bytes =
                  text ? ParseBytes(*text) : Result<uint64_t>(Status(Code::kInvalid, "it is no text"));
              if (bytes) {
                take(*bytes);
              } else {
                Problem(node, StrCat(name, ": ", Printable(bytes.status().message(), 200), "; write ", name,
                                     " = \"32G\""));
              }
            }};
  }
  Key RateKey(std::string_view name, double* to) {
    return {name, [=, this](const toml::node& node) {
              const auto text = node.is_string() ? node.value<std::string>() : std::nullopt;
              const bool a_second = text && text->ends_with("/s");
              const Result<uint64_t> bytes =
                  a_second ? ParseBytes(std::string_view(*text).substr(0, text->size() - 2))
                           : Result<uint64_t>(Status(Code::kInvalid, ""));
              if (bytes && *bytes > 0 && static_cast<double>(*bytes) <= kMostRate) {
                *to = static_cast<double>(*bytes);
              } else {
                Problem(node, StrCat(name, " is no rate above 0; write ", name,
                                     " = \"70MiB/s\", or leave it out if it takes no time"));
              }
            }};
  }
  Key TimeKey(std::string_view name, double* to, bool zero) {
    return {name, [=, this](const toml::node& node) {
              const auto text = node.is_string() ? node.value<std::string>() : std::nullopt;
              const std::optional<double> seconds = text ? SecondsOf(*text) : std::nullopt;
              if (seconds && (zero || *seconds > 0)) {
                *to = *seconds;
              } else {
                Problem(node, StrCat(name, " is no length of time", zero ? "" : " above 0", "; write ", name,
                                     " = \"90s\", \"250ms\" or \"0.5ms\""));
              }
            }};
  }
  /// As ParseDuration, and fractions with a unit.
  static std::optional<double> SecondsOf(std::string_view text) {
    constexpr std::pair<std::string_view, double> kUnits[] = {{"ms", 1e-3}, {"us", 1e-6}, {"s", 1},
                                                              {"m", 60},    {"h", 3600},  {"d", 86400}};
    for (const auto& [unit, factor] : kUnits) {
      if (!text.ends_with(unit)) continue;
      const std::string_view digits = text.substr(0, text.size() - unit.size());
      double number = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
      if (error != std::errc() || end != digits.data() + digits.size() ||
          !(number >= 0 && number * factor <= 3e9))
        return std::nullopt;
      return number * factor;
    }
    const Result<Duration> parsed = ParseDuration(text);
    return parsed ? std::optional<double>(Seconds(*parsed)) : std::nullopt;
  }

  std::string_view text_;
  graph::Graph names_;  // only for the name of the file
  Problems problems_;
  ClusterModel model_;
  std::string source_;
  std::vector<SourcePlace> failure_places_, allocation_places_;
};

}  // namespace

ClusterModel ClusterModel::OfAllocation(size_t index) const {
  uint64_t skip = 0;
  for (size_t i = 0; i < index; ++i) skip += allocations[i].nodes;
  const Allocation& allocation = allocations[index];
  uint64_t wanted = allocation.nodes;
  ClusterModel own = *this;
  std::vector<Allocation>().swap(own.allocations);
  own.nodes.clear();
  own.ends = allocation.end > 0;
  for (const Nodes& group : nodes) {
    const uint64_t skipped = std::min<uint64_t>(skip, group.count);
    const uint64_t taken = std::min(wanted, group.count - skipped);
    skip -= skipped;
    wanted -= taken;
    if (taken == 0) continue;
    own.nodes.push_back(group);
    own.nodes.back().count = static_cast<uint32_t>(taken);
    own.nodes.back().speed *= allocation.speed;
  }
  return own;
}

uint32_t ClusterModel::node_count() const {
  uint64_t count = 0;
  for (const Nodes& each : nodes) count += each.count;
  return static_cast<uint32_t>(std::min<uint64_t>(count, UINT32_MAX));
}
uint64_t ClusterModel::slot_count() const {
  uint64_t count = 0;
  for (const Nodes& each : nodes) count += uint64_t{each.count} * each.capacity.slots;
  return count;
}

double ClusterModel::power() const {
  double power = 0;
  for (const Nodes& each : nodes) power += each.speed * each.capacity.slots * each.count;
  return power;
}

Result<ClusterModel> ReadClusterModel(std::string_view file_name, std::string_view text) {
  return ClusterReader(file_name, text).Read();
}

}  // namespace harrow::formats
