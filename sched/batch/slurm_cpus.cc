#include "batch/slurm_cpus.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/text.h"

namespace harrow::batch {
namespace {

constexpr size_t kMostText = 100'000;      // the kernel takes arguments of 128 KiB
constexpr uint32_t kMostCpus = 1'000'000;  // of a node

/// The next piece of `text` up to `by`, which is taken off with it.
std::string_view Next(std::string_view* text, char by) {
  const size_t at = std::min(text->find(by), text->size());
  const std::string_view piece = text->substr(0, at);
  text->remove_prefix(std::min(at + 1, text->size()));
  return piece;
}

bool ReadCpu(std::string_view text, uint32_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out <= kMostCpus;
}

std::string ListOf(const std::vector<uint32_t>& cpus) {
  std::string list;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    list += StrCat(list.empty() ? "" : ",", cpus[i]);
    if (last > i) list += StrCat("-", cpus[last]);
    i = last + 1;
  }
  return list;
}

}  // namespace

Result<std::vector<uint32_t>> ParseCpus(std::string_view list) {
  const Status bad(Code::kInvalid, StrCat("'", Printable(list, 80), "' is no list of CPUs such as 0-1,4"));
  std::vector<uint32_t> cpus;
  if (list.empty() || list.back() == ',') return bad;
  while (!list.empty()) {
    const std::string_view range = Next(&list, ',');
    const size_t dash = range.find('-');
    uint32_t first = 0, last = 0;
    if (!ReadCpu(range.substr(0, dash), &first)) return bad;
    last = first;
    if (dash != std::string_view::npos && !ReadCpu(range.substr(dash + 1), &last)) return bad;
    if (last < first || (!cpus.empty() && first <= cpus.back())) return bad;
    for (uint32_t cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::string CpusText(const SlurmAllocation& allocation) {
  std::map<std::string, std::string> names;  // by their CPUs
  for (const SlurmComponent& component : allocation.components) {
    for (const GrantedNode& node : component.nodes) {
      if (node.which.empty()) continue;
      std::string& list = names[StrCat(ListOf(node.which), "/", node.of)];
      list += StrCat(list.empty() ? "" : ",", node.name);
    }
  }
  std::string text;
  for (const auto& [cpus, list] : names) text += StrCat(text.empty() ? "" : ";", cpus, ":", list);
  return text.size() > kMostText ? "" : text;
}

std::optional<GrantedNode> CpusOn(std::string_view text, std::string_view node) {
  while (!text.empty()) {
    std::string_view names = Next(&text, ';');
    std::string_view cpus = Next(&names, ':');
    bool named = false;
    while (!names.empty()) named |= Next(&names, ',') == node;
    if (!named) continue;
    Result<std::vector<uint32_t>> which = ParseCpus(Next(&cpus, '/'));
    GrantedNode found;
    if (!which.ok() || !ReadCpu(cpus, &found.of)) return std::nullopt;
    found.name = node;
    found.which = *std::move(which);
    return found;
  }
  return std::nullopt;
}

}  // namespace harrow::batch
