#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "launcher/across.h"

namespace harrow::launcher {
namespace {

// Options that an entry KEY=VALUE may set.
constexpr std::string_view kSbatchKeys[] = {"account", "qos", "reservation", "constraint", "comment"};
constexpr uint32_t kMostAllocations = 1000;

Status WrongEntry(std::string_view entry, std::string_view what) {
  return Status(Code::kInvalid, StrCat("--across: '", Printable(entry), "': ", what,
                                       "; expected PARTITION:NODES[xCOUNT],..., as fast:2,slow:4x3,time=1h, or auto,max=3,time=1h"));
}

bool ReadCount(std::string_view text, uint32_t* count) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *count);
  return error == std::errc() && end == text.data() + text.size() && *count > 0;
}

Status TakeOption(std::string_view entry, AcrossAsked* asked, bool* of_more) {
  const std::string_view key = entry.substr(0, entry.find('=')), value = entry.substr(key.size() + 1);
  if (value.empty()) return WrongEntry(entry, "nothing stands behind the =");
  if (key == "max") {
    *of_more = true;
    if (!ReadCount(value, &asked->most) || asked->most > kMostAllocations) return WrongEntry(entry, "no number of allocations from 1 to 1000");
    return {};
  }
  if (key == "time" || key == "idle") {
    const Result<Duration> time = ParseDuration(value);
    if (!time.ok() || *time <= Duration(0)) return WrongEntry(entry, "no length of time");
    if (key == "idle") *of_more = true;
    (key == "time" ? asked->time : asked->idle) = *time;
    return {};
  }
  if (std::find(std::begin(kSbatchKeys), std::end(kSbatchKeys), key) == std::end(kSbatchKeys))
    return WrongEntry(entry, "no such option; time, account, qos, reservation, constraint and comment are sbatch's, max and idle are auto's");
  asked->sbatch.push_back(StrCat("--", entry));
  return {};
}

Status TakePartition(std::string_view entry, AcrossAsked* asked, bool* counted) {
  const size_t colon = entry.rfind(':');
  AcrossAsked::Allocation each{.partition = std::string(entry.substr(0, colon)), .nodes = 0};
  if (each.partition.empty()) return WrongEntry(entry, "no partition is named");
  uint32_t times = 1;
  if (colon != std::string_view::npos) {
    const std::string_view size = entry.substr(colon + 1);
    const size_t x = size.find('x');
    if (!ReadCount(size.substr(0, x), &each.nodes)) return WrongEntry(entry, "no number of nodes");
    *counted |= x != std::string_view::npos;
    if (x != std::string_view::npos && !ReadCount(size.substr(x + 1), &times)) return WrongEntry(entry, "no number of allocations");
  }
  if (asked->allocations.size() + times > kMostAllocations) return WrongEntry(entry, "more than 1000 allocations");
  asked->allocations.insert(asked->allocations.end(), times, each);
  return {};
}

}  // namespace

Result<AcrossAsked> ParseAcross(std::string_view text) {
  AcrossAsked asked;
  bool of_more = false, counted = false;
  std::string_view entry;
  for (std::string_view rest = text; !rest.empty() || entry.empty();) {
    const size_t comma = rest.find(',');
    entry = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (entry == "auto") {
      asked.more = true;
    } else if (entry.find('=') != std::string_view::npos) {
      HARROW_RETURN_IF_ERROR(TakeOption(entry, &asked, &of_more));
    } else {
      HARROW_RETURN_IF_ERROR(TakePartition(entry, &asked, &counted));
    }
  }
  if (!asked.more && asked.allocations.empty()) return WrongEntry(text, "no partition is named");
  if (!asked.more && of_more) return WrongEntry(text, "max and idle are of auto");
  if (asked.more && counted) return WrongEntry(text, "with auto no number of allocations is named but max=N");
  for (AcrossAsked::Allocation& each : asked.allocations) {
    if (!asked.more) each.nodes = std::max(each.nodes, 1u);
  }
  return asked;
}

Status AllowedAcross(const AcrossAsked& asked, const std::vector<std::string>& allowed) {
  if (allowed.empty()) return {};
  for (const AcrossAsked::Allocation& each : asked.allocations) {
    if (std::find(allowed.begin(), allowed.end(), each.partition) != allowed.end()) continue;
    std::string names;
    for (const std::string& name : allowed) names += StrCat(names.empty() ? "" : ", ", name);
    return Status(Code::kInvalid, StrCat("--across: this site lets no run spread to partition ", Printable(each.partition), ", only to: ", names,
                                         " (move_partitions of its plugin)"));
  }
  return {};
}

}  // namespace harrow::launcher
