#include "batch/slurm_environment.h"

#include <charconv>

#include "base/text.h"

namespace harrow::batch {
namespace {

constexpr size_t kMostNames = 1'000'000;

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t n = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return n;
}

std::string_view Find(const Environment& environment, std::string_view name) {
  auto it = environment.find(name);
  return it == environment.end() ? std::string_view() : std::string_view(it->second);
}

Status BadHostlist(std::string_view hostlist) {
  return Status(Code::kInvalid,
                StrCat("'", Printable(hostlist), "' is no list of nodes such as node[1-3,7]"));
}

// "1-3,07" of a bracket, in the width it is written in.
Result<std::vector<std::string>> ExpandBracket(std::string_view ranges, std::string_view hostlist) {
  std::vector<std::string> out;
  while (true) {
    size_t comma = ranges.find(',');
    std::string_view range = ranges.substr(0, comma);
    size_t dash = range.find('-');
    std::string_view first = range.substr(0, dash);
    std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
    std::optional<uint64_t> from = Number(first), to = Number(last);
    if (!from || !to || *to < *from || *to - *from >= kMostNames) return BadHostlist(hostlist);
    for (uint64_t i = *from; i <= *to; ++i) {
      std::string digits = std::to_string(i);
      out.push_back(digits.size() < first.size() ? std::string(first.size() - digits.size(), '0') + digits
                                                 : digits);
    }
    if (out.size() > kMostNames) return BadHostlist(hostlist);
    if (comma == std::string_view::npos) return out;
    ranges.remove_prefix(comma + 1);
  }
}

// One item of the list: text and brackets in turn; several brackets are their product, the last one fastest.
Status ExpandItem(std::string_view item, std::string_view hostlist, std::vector<std::string>* out) {
  std::vector<std::string> names = {""};
  while (!item.empty()) {
    size_t open = item.find('[');
    for (std::string& name : names) name += item.substr(0, open);
    if (open == std::string_view::npos) break;
    size_t close = item.find(']', open);
    if (close == std::string_view::npos) return BadHostlist(hostlist);
    Result<std::vector<std::string>> values =
        ExpandBracket(item.substr(open + 1, close - open - 1), hostlist);
    if (!values.ok()) return values.status();
    if (names.size() * values->size() > kMostNames) return BadHostlist(hostlist);
    std::vector<std::string> product;
    for (const std::string& name : names) {
      for (const std::string& value : *values) product.push_back(name + value);
    }
    names = std::move(product);
    item.remove_prefix(close + 1);
  }
  out->insert(out->end(), names.begin(), names.end());
  return Status();
}

// One component's variables end in `suffix` ("" or "_HET_GROUP_0").
Result<SlurmComponent> Component(const Environment& environment, const std::string& suffix) {
  auto variable = [&](std::string_view name) { return Find(environment, StrCat(name, suffix)); };
  SlurmComponent component{.job_id = std::string(variable("SLURM_JOB_ID")),
                           .partition = std::string(variable("SLURM_JOB_PARTITION")),
                           .nodes = {}};
  std::string_view list = variable("SLURM_JOB_NODELIST");
  if (list.empty()) list = variable("SLURM_NODELIST");
  Result<std::vector<std::string>> names = ExpandHostlist(list);
  if (!names.ok()) return names.status();
  std::vector<uint32_t> cpus;
  if (std::string_view counts = variable("SLURM_JOB_CPUS_PER_NODE"); !counts.empty()) {
    Result<std::vector<uint32_t>> expanded = ExpandCounts(counts);
    if (!expanded.ok()) return expanded.status();
    cpus = *std::move(expanded);
  }
  uint64_t per_node = Number(variable("SLURM_MEM_PER_NODE")).value_or(0);
  uint64_t per_cpu = Number(variable("SLURM_MEM_PER_CPU")).value_or(0);
  uint64_t gpus = Number(Find(environment, "SLURM_GPUS_ON_NODE")).value_or(0);
  for (size_t i = 0; i < names->size(); ++i) {
    GrantedNode node;
    node.name = (*names)[i];
    node.partition = component.partition;
    if (i < cpus.size()) node.cpus = cpus[i];
    node.memory = (per_node != 0 ? per_node : per_cpu * node.cpus) << 20;
    node.devices = static_cast<uint32_t>(gpus);
    component.nodes.push_back(std::move(node));
  }
  return component;
}

}  // namespace

Environment ParseEnvironment(const std::vector<std::string>& environment) {
  Environment out;
  for (const std::string& entry : environment) {
    if (size_t equals = entry.find('='); equals != std::string::npos) {
      out.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  return out;
}

Result<std::vector<std::string>> ExpandHostlist(std::string_view hostlist) {
  std::vector<std::string> names;
  if (hostlist.empty() || hostlist == "(null)") return BadHostlist(hostlist);
  size_t begin = 0;
  bool in_bracket = false;
  for (size_t i = 0; i <= hostlist.size(); ++i) {
    char c = i < hostlist.size() ? hostlist[i] : ',';
    if (c == '[' || c == ']') {
      if (in_bracket == (c == '[')) return BadHostlist(hostlist);
      in_bracket = c == '[';
    }
    if (c != ',' || (in_bracket && i < hostlist.size())) continue;
    if (i == begin || in_bracket) return BadHostlist(hostlist);
    HARROW_RETURN_IF_ERROR(ExpandItem(hostlist.substr(begin, i - begin), hostlist, &names));
    if (names.size() > kMostNames) return BadHostlist(hostlist);
    begin = i + 1;
  }
  return names;
}

Result<std::vector<uint32_t>> ExpandCounts(std::string_view counts) {
  std::vector<uint32_t> out;
  const Status bad(Code::kInvalid, StrCat("'", Printable(counts), "' is no list of counts such as 4(x3),2"));
  std::string_view rest = counts;
  while (true) {
    size_t comma = rest.find(',');
    std::string_view item = rest.substr(0, comma);
    uint64_t times = 1;
    if (size_t open = item.find("(x"); open != std::string_view::npos) {
      if (item.back() != ')') return bad;
      std::optional<uint64_t> n = Number(item.substr(open + 2, item.size() - open - 3));
      if (!n || *n > kMostNames) return bad;
      times = *n;
      item = item.substr(0, open);
    }
    std::optional<uint64_t> value = Number(item);
    if (!value || *value > UINT32_MAX || out.size() + times > kMostNames) return bad;
    out.insert(out.end(), times, static_cast<uint32_t>(*value));
    if (comma == std::string_view::npos) return out;
    rest.remove_prefix(comma + 1);
  }
}

bool InSlurmJob(const Environment& environment) {
  return !Find(environment, "SLURM_JOB_ID").empty() &&
         (!Find(environment, "SLURM_JOB_NODELIST").empty() || !Find(environment, "SLURM_HET_SIZE").empty());
}

Result<SlurmAllocation> AllocationFromEnvironment(const Environment& environment) {
  SlurmAllocation allocation;
  allocation.job_id = Find(environment, "SLURM_JOB_ID");
  allocation.job_name = Find(environment, "SLURM_JOB_NAME");
  uint64_t components = Number(Find(environment, "SLURM_HET_SIZE")).value_or(0);
  if (components > 10'000)
    return Status(Code::kInvalid, StrCat("SLURM_HET_SIZE=", components, " is too large"));
  for (uint64_t i = 0; i < std::max<uint64_t>(components, 1); ++i) {
    Result<SlurmComponent> component = Component(environment, components > 0 ? StrCat("_HET_GROUP_", i) : "");
    if (!component.ok()) return component.status();
    allocation.components.push_back(*std::move(component));
  }
  if (components > 0) allocation.job_id = allocation.components[0].job_id;
  if (std::optional<uint64_t> end = Number(Find(environment, "SLURM_JOB_END_TIME"));
      end && *end < 100'000'000'000) {
    allocation.end = WallTime(std::chrono::seconds(*end));
  }
  return allocation;
}

}  // namespace harrow::batch
