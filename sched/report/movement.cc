#include "report/movement.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "report/json.h"

namespace harrow::report {
namespace {

uint64_t Unsigned(int64_t bytes) {
  return static_cast<uint64_t>(std::max<int64_t>(0, bytes));
}

std::string Share(uint64_t part, uint64_t all) {
  return all == 0 ? "-" : PercentCell(static_cast<double>(part) / static_cast<double>(all));
}

std::string Bytes(uint64_t bytes) {
  return bytes == 0 ? "-" : FormatBytes(bytes);
}

void AppendCopied(const CopiedBytes& copied, JsonWriter* json) {
  json->MemberUint("moved", copied.moved)
      .MemberUint("read", copied.read)
      .MemberUint("written", copied.written);
}

}  // namespace

void CopiedBytes::Count(const journal::CopyRecord& copy) {
  uint64_t& figure = !copy.to ? written : copy.from ? moved : read;
  figure += Unsigned(copy.bytes);
}

std::vector<KindBytes> BytesByKind(const RunView& run, const std::vector<size_t>& tasks) {
  std::vector<KindBytes> rows;
  std::unordered_map<std::string_view, size_t> row_of;
  std::unordered_map<uint32_t, size_t> row_of_task;
  for (const size_t i : tasks) {
    const auto [at, is_new] = row_of.try_emplace(run.task(i).kind, rows.size());
    if (is_new) rows.push_back({.kind = run.task(i).kind});
    KindBytes& row = rows[at->second];
    row_of_task[run.task(i).task.value] = at->second;
    for (const size_t a : run.Attempts(i)) {
      const journal::AttemptRecord& attempt = run.history().attempts[a];
      row.input += Unsigned(attempt.local_bytes) + Unsigned(attempt.remote_bytes);
      row.local += Unsigned(attempt.local_bytes);
      row.home += Unsigned(attempt.home_bytes);
    }
  }
  for (const journal::CopyRecord& copy : run.history().copies) {
    const auto found = row_of_task.find(copy.task.value);
    if (found != row_of_task.end()) rows[found->second].copied.Count(copy);
  }
  return rows;
}

std::vector<FileBytes> LargestMovers(const RunView& run, const std::vector<size_t>& tasks, size_t count) {
  std::vector<FileBytes> rows;
  std::vector<std::set<uint32_t>> nodes;
  std::unordered_map<std::string_view, size_t> row_of;
  const bool all = tasks.size() == run.task_count();
  std::set<uint32_t> wanted;
  if (!all) {
    for (const size_t i : tasks) wanted.insert(run.task(i).task.value);
  }
  for (const journal::CopyRecord& copy : run.history().copies) {
    if (!all && !wanted.contains(copy.task.value)) continue;
    const auto [at, is_new] = row_of.try_emplace(copy.path, rows.size());
    if (is_new) {
      rows.push_back({.path = copy.path});
      nodes.emplace_back();
    }
    FileBytes& row = rows[at->second];
    ++row.copies;
    row.copied.Count(copy);
    if (copy.to) nodes[at->second].insert(copy.to.value);
  }
  for (size_t r = 0; r < rows.size(); ++r) rows[r].nodes = static_cast<uint32_t>(nodes[r].size());
  const auto shown = rows.begin() + static_cast<ptrdiff_t>(std::min(count, rows.size()));
  std::partial_sort(rows.begin(), shown, rows.end(), [](const FileBytes& a, const FileBytes& b) {
    return std::pair(b.copied.sum(), std::string_view(a.path)) <
           std::pair(a.copied.sum(), std::string_view(b.path));
  });
  rows.erase(shown, rows.end());
  return rows;
}

void WriteFiles(const RunView& run, const std::vector<size_t>& tasks, size_t count, size_t width,
                const Sink& sink) {
  const std::vector<KindBytes> kinds = BytesByKind(run, tasks);
  WriteTable(
      {{"kind"},
       {"input", true},
       {"local", true},
       {"home", true, 1},
       {"moved", true},
       {"read", true},
       {"written back", true}},
      kinds.size(),
      [&](size_t r, std::vector<std::string>* cells) {
        const KindBytes& row = kinds[r];
        *cells = {Printable(row.kind, 48),    Bytes(row.input),        Share(row.local, row.input),
                  Share(row.home, row.input), Bytes(row.copied.moved), Bytes(row.copied.read),
                  Bytes(row.copied.written)};
      },
      sink, width);
  const std::vector<FileBytes> files = LargestMovers(run, tasks, count);
  if (files.empty()) {
    sink("\nno file was copied\n");
    return;
  }
  sink("\nmost bytes copied\n");
  WriteTable(
      {{"file"},
       {"copies", true, 1},
       {"nodes", true, 2},
       {"moved", true},
       {"read", true},
       {"written back", true}},
      files.size(),
      [&](size_t r, std::vector<std::string>* cells) {
        const FileBytes& row = files[r];
        *cells = {Printable(row.path, 200), StrCat(row.copies),     StrCat(row.nodes),
                  Bytes(row.copied.moved),  Bytes(row.copied.read), Bytes(row.copied.written)};
      },
      sink, width);
}

void AppendFiles(const RunView& run, const std::vector<size_t>& tasks, size_t count, JsonWriter* json) {
  json->Key("kind_bytes").BeginArray();
  for (const KindBytes& row : BytesByKind(run, tasks)) {
    json->BeginObject().Member("kind", row.kind).MemberUint("input", row.input);
    json->MemberUint("local", row.local).MemberUint("home", row.home);
    AppendCopied(row.copied, json);
    json->EndObject();
  }
  json->EndArray().Key("copied_files").BeginArray();
  for (const FileBytes& row : LargestMovers(run, tasks, count)) {
    json->BeginObject()
        .Member("path", row.path)
        .MemberUint("copies", row.copies)
        .MemberUint("nodes", row.nodes);
    AppendCopied(row.copied, json);
    json->EndObject();
  }
  json->EndArray();
}

std::string CopiedFor(const RunView& run, TaskId task) {
  std::map<std::string, uint64_t> from;
  for (const journal::CopyRecord& copy : run.history().copies) {
    if (copy.task != task || !copy.to) continue;
    from[copy.from ? Printable(run.NodeName(copy.from)) : "the submit directory"] += Unsigned(copy.bytes);
  }
  std::string text;
  for (const auto& [where, bytes] : from)
    text += StrCat(text.empty() ? "" : ", ", FormatBytes(bytes), " from ", where);
  return text;
}

}  // namespace harrow::report
