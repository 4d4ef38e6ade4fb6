#include "server/part_ends.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "journal/parts.h"

namespace harrow::server {
namespace {

using journal::End;
using journal::PartRecord;

/// "rank 3 of 8", as the message begins, and what follows it.
std::pair<std::string_view, std::string_view> SplitRank(std::string_view message) {
  if (!journal::RankIn(message)) return {"", message};
  const size_t of = message.find(" of ") + 4;
  const size_t end = std::min(message.find_first_not_of("0123456789", of), message.size());
  return {message.substr(0, end), message.substr(end)};
}

/// The message of the part that decides, with its node.
std::string NameNode(const PartRecord& part, const graph::Profile& profile, const std::string& node) {
  if (node.empty()) return part.message;
  auto [rank, rest] = SplitRank(part.message);
  std::string only;
  const bool by_itself = part.end == End::kExited || part.end == End::kSignaled;
  if (part.message.empty() && by_itself && profile.ranks > 0 && part.ranks == 1) {
    uint32_t first = 0;
    for (uint32_t before = 0; before < part.part; ++before) first += ProcessesOn(profile, part.nodes, before);
    only = StrCat("rank ", first, " of ", profile.ranks);
    rank = only;
  }
  if (rank.empty()) return part.message.empty() ? "" : StrCat("node ", node, ": ", part.message);
  std::string text = rest.starts_with(" on ") ? part.message : StrCat(rank, " on ", node, rest);
  if (part.end == End::kSignaled && rest.empty()) {
    const char* const signal = sigdescr_np(part.code);
    text += StrCat(" was killed by signal ", part.code, signal != nullptr ? StrCat(" (", signal, ")") : "");
  }
  return text;
}

}  // namespace

uint32_t RanksOfPart(const graph::Profile& profile, uint32_t nodes, uint32_t part) {
  return profile.ranks > 0 ? RanksOn(profile.ranks, nodes, part) : 0;
}

uint32_t ProcessesOn(const graph::Profile& profile, uint32_t nodes, uint32_t part) {
  if (profile.ranks > 0) return RanksOfPart(profile, nodes, part);
  return part == 0 ? 1 : 0;
}

journal::AttemptRecord JoinParts(std::span<const PartRecord> parts, const graph::Profile& profile,
                                 const std::function<std::string(NodeId)>& name) {
  const PartRecord& deciding = parts[journal::DecidingPart(parts)];
  journal::AttemptRecord all;
  all.task = deciding.task;
  all.attempt = deciding.attempt;
  all.end = deciding.end;
  all.code = deciding.code;
  if (!journal::Succeeded(deciding)) all.message = NameNode(deciding, profile, name(deciding.node));
  bool peak_known = true;
  for (const PartRecord& part : parts) {
    if (part.start_ns > 0 && (all.start_ns == 0 || part.start_ns < all.start_ns))
      all.start_ns = part.start_ns;
    all.end_ns = std::max(all.end_ns, part.end_ns);
    all.user_us += part.user_us;
    all.system_us += part.system_us;
    // What a process had may be hidden behind what its starter had: then their sum is less than so much.
    all.max_rss_kib += std::abs(part.max_rss_kib);
    peak_known &= part.max_rss_kib >= 0;
    all.stdout_bytes += part.stdout_bytes;
    all.stderr_bytes += part.stderr_bytes;
    all.output_truncated |= part.output_truncated;
    if (part.part != 0) continue;
    all.node = part.node;
    all.output_file = part.output_file;
    all.output_offset = part.output_offset;
    all.cores = part.cores;
  }
  if (!peak_known) all.max_rss_kib = -all.max_rss_kib;
  return all;
}

}  // namespace harrow::server
