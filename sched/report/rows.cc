// CSV and JSON of a run, handed on in pieces of some 64 KiB so that a million tasks need no document in
// memory.

#include "report/rows.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "base/text.h"
#include "report/aggregate.h"
#include "report/allocations.h"
#include "report/continued.h"
#include "report/json.h"
#include "report/movement.h"

namespace harrow::report {
namespace {

using journal::AttemptRecord;
using journal::End;

constexpr size_t kPiece = 64 << 10;
constexpr size_t kFilesShown = 20;

constexpr std::string_view kHeading =
    "task,number,kind,level,cores,state,because,attempts,attempt,node,start,end,run_time_s,how,exit_code,"
    "signal,"
    "user_s,system_s,max_rss_kib,stdout_bytes,stderr_bytes,output_truncated,local_bytes,remote_bytes,home_"
    "bytes,pinned,"
    "message\n";

void AppendTwo(std::string* out, unsigned value) {
  out->push_back(static_cast<char>('0' + value / 10));
  out->push_back(static_cast<char>('0' + value % 10));
}

/// One CSV row under construction.
class Row {
 public:
  explicit Row(std::string* out) : out_(out) {}
  Row& Text(std::string_view text) {
    Next();
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
      *out_ += text;
      return *this;
    }
    out_->push_back('"');
    for (const char c : text) {
      if (c == '"') out_->push_back('"');
      out_->push_back(c);
    }
    out_->push_back('"');
    return *this;
  }
  template <class Int>
  Row& Number(Int value) {
    Next();
    char buffer[24];
    out_->append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
    return *this;
  }
  Row& Fixed(double value) {
    Next();
    AppendFixed(out_, value, 6);
    return *this;
  }
  Row& Utc(int64_t ns) {
    Next();
    AppendUtc(out_, ns);
    return *this;
  }
  Row& Empty(int fields = 1) {
    for (; fields > 0; --fields) Next();
    return *this;
  }
  void End() { out_->push_back('\n'); }

 private:
  void Next() {
    if (!first_) out_->push_back(',');
    first_ = false;
  }
  std::string* out_;
  bool first_ = true;
};

void AppendCsvRow(const RunView& run, size_t i, const AttemptRecord* attempt, std::string* out) {
  const journal::TaskRecord& task = run.task(i);
  Row row(out);
  row.Text(task.name)
      .Number(uint64_t{task.task.value} + 1)
      .Text(task.kind)
      .Number(task.level)
      .Number(task.cores);
  row.Text(FateName(run.fate(i))).Text(run.Because(i)).Number(run.attempt_count(i));
  if (attempt == nullptr) {
    row.Empty(19).End();
    return;
  }
  row.Number(attempt->attempt)
      .Text(ListNodes(run.NodeNames(*attempt), " "))
      .Utc(attempt->start_ns)
      .Utc(attempt->end_ns);
  row.Fixed(Seconds(RunTime(*attempt))).Text(EndName(attempt->end));
  if (attempt->end == End::kExited) {
    row.Number(attempt->code).Empty();
  } else if (attempt->end == End::kSignaled) {
    row.Empty().Number(attempt->code);
  } else {
    row.Empty(2);
  }
  row.Fixed(static_cast<double>(attempt->user_us) * 1e-6)
      .Fixed(static_cast<double>(attempt->system_us) * 1e-6);
  attempt->max_rss_kib > 0 ? row.Number(attempt->max_rss_kib) : row.Empty();
  row.Number(attempt->stdout_bytes).Number(attempt->stderr_bytes);
  row.Number(attempt->output_truncated ? 1 : 0).Number(attempt->local_bytes).Number(attempt->remote_bytes);
  row.Number(attempt->home_bytes);
  row.Text(attempt->cores).Text(attempt->message).End();
}

/// null: not known, but `max_rss_below_kib` may be.
void AppendPeak(int64_t max_rss_kib, JsonWriter* json) {
  json->Key("max_rss_kib");
  max_rss_kib > 0 ? json->Int(max_rss_kib) : json->Null();
  if (max_rss_kib < 0) json->Key("max_rss_below_kib").Int(-max_rss_kib);
}

/// How an attempt ended, or its part on a node, and what it took.
template <class Record>
void AppendEnd(const Record& record, JsonWriter* json) {
  json->Member("how", EndName(record.end));
  if (record.end == End::kExited) json->Key("exit_code").Int(record.code);
  if (record.end == End::kSignaled) json->Key("signal").Int(record.code);
  json->MemberFixed("user_s", static_cast<double>(record.user_us) * 1e-6, 6);
  json->MemberFixed("system_s", static_cast<double>(record.system_us) * 1e-6, 6);
  AppendPeak(record.max_rss_kib, json);
  json->MemberUint("stdout_bytes", record.stdout_bytes).MemberUint("stderr_bytes", record.stderr_bytes);
}

/// What a node had of an attempt of several.
void AppendPart(const RunView& run, const journal::PartRecord& part, JsonWriter* json) {
  json->BeginObject().Member("node", run.NodeName(part.node)).MemberUint("ranks", part.ranks);
  AppendEnd(part, json);
  if (!part.cores.empty()) json->Member("pinned", part.cores);
  if (!part.message.empty()) json->Member("message", part.message);
  json->EndObject();
}

void AppendAttempt(const RunView& run, const AttemptRecord& attempt, JsonWriter* json, std::string* scratch) {
  json->BeginObject().MemberUint("attempt", attempt.attempt).Member("node", run.NodeName(attempt.node));
  const auto utc = [&](std::string_view key, int64_t ns) {
    scratch->clear();
    AppendUtc(scratch, ns);
    json->Key(key);
    ns == 0 ? json->Null() : json->String(*scratch);
  };
  utc("start", attempt.start_ns);
  utc("end", attempt.end_ns);
  json->MemberFixed("run_time_s", Seconds(RunTime(attempt)), 6);
  AppendEnd(attempt, json);
  json->Key("output_truncated").Bool(attempt.output_truncated);
  json->Key("local_bytes").Int(attempt.local_bytes).Key("remote_bytes").Int(attempt.remote_bytes);
  json->Key("home_bytes").Int(attempt.home_bytes);
  if (!attempt.cores.empty()) json->Member("pinned", attempt.cores);
  if (!attempt.message.empty()) json->Member("message", attempt.message);
  if (const auto parts = run.Parts(attempt); !parts.empty()) {
    json->Key("parts").BeginArray();
    for (const journal::PartRecord* part : parts) AppendPart(run, *part, json);
    json->EndArray();
  }
  json->EndObject();
}

void AppendKinds(const std::vector<KindRow>& rows, JsonWriter* json) {
  json->Key("kinds").BeginArray();
  for (const KindRow& row : rows) {
    json->BeginObject().Member("kind", row.kind).MemberUint("tasks", row.tasks).MemberUint("done", row.done);
    json->MemberUint("failed", row.failed)
        .MemberUint("skipped", row.skipped)
        .MemberUint("attempts", row.attempts);
    json->MemberFixed("mean_s", Seconds(row.mean), 6).MemberFixed("median_s", Seconds(row.median), 6);
    json->MemberFixed("max_s", Seconds(row.max), 6).MemberFixed("core_time_s", Seconds(row.core_time), 6);
    json->MemberFixed("cpu_time_s", Seconds(row.cpu_time), 6);
    AppendPeak(row.max_rss_kib, json);
    json->EndObject();
  }
  json->EndArray();
}

void AppendNodes(const std::vector<NodeRow>& rows, JsonWriter* json) {
  json->Key("nodes").BeginArray();
  for (const NodeRow& row : rows) {
    json->BeginObject().Member("node", row.node).MemberUint("slots", row.slots);
    json->MemberUint("incarnations", row.incarnations).MemberUint("attempts", row.attempts);
    json->MemberUint("failed", row.failed).MemberUint("lost", row.lost);
    json->MemberFixed("busy_s", Seconds(row.busy), 6).MemberFixed("utilisation", row.utilisation, 4);
    json->MemberUint("local_bytes", row.local_bytes).MemberUint("remote_bytes", row.remote_bytes);
    json->MemberUint("output_bytes", row.output_bytes).EndObject();
  }
  json->EndArray();
}

}  // namespace

void AppendUtc(std::string* out, int64_t calendar_ns) {
  if (calendar_ns == 0) return;
  using namespace std::chrono;
  const sys_time<microseconds> time{microseconds(calendar_ns / 1000)};
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  *out += std::to_string(static_cast<int>(date.year()));
  out->push_back('-');
  AppendTwo(out, static_cast<unsigned>(date.month()));
  out->push_back('-');
  AppendTwo(out, static_cast<unsigned>(date.day()));
  out->push_back('T');
  AppendTwo(out, static_cast<unsigned>(clock.hours().count()));
  out->push_back(':');
  AppendTwo(out, static_cast<unsigned>(clock.minutes().count()));
  out->push_back(':');
  AppendTwo(out, static_cast<unsigned>(clock.seconds().count()));
  out->push_back('.');
  const std::string fraction = std::to_string(clock.subseconds().count());
  out->append(6 - fraction.size(), '0');
  *out += fraction + "Z";
}

void WriteCsv(const RunView& run, const std::vector<size_t>& tasks, bool every_attempt, const Sink& sink) {
  const std::vector<AttemptRecord>& attempts = run.history().attempts;
  std::string out(kHeading);
  for (const size_t i : tasks) {
    const auto last = run.LastAttempt(i);
    if (!last) {
      AppendCsvRow(run, i, nullptr, &out);
    } else if (!every_attempt) {
      AppendCsvRow(run, i, &attempts[*last], &out);
    } else {
      for (const size_t a : run.Attempts(i)) AppendCsvRow(run, i, &attempts[a], &out);
    }
    if (out.size() < kPiece) continue;
    if (!sink(out)) return;
    out.clear();
  }
  sink(out);
}

void WriteJson(const RunView& run, const std::vector<size_t>& tasks, const StatusContext& context,
               const Sink& sink) {
  std::string out, scratch;
  JsonWriter json(&out);
  json.BeginObject().MemberUint("version", kReportVersion);
  AppendFigures(FiguresOf(run), context, &json);
  AppendKinds(KindRows(run, tasks), &json);
  AppendNodes(NodeRows(run, tasks), &json);
  AppendAllocations(run, &json);
  AppendContinued(run, &json);
  AppendFiles(run, tasks, kFilesShown, &json);
  json.Key("task_records").BeginArray();
  for (const size_t i : tasks) {
    const journal::TaskRecord& task = run.task(i);
    json.BeginObject().Member("name", task.name).MemberUint("number", uint64_t{task.task.value} + 1);
    json.Member("kind", task.kind).Key("level").Int(task.level).MemberUint("cores", task.cores);
    json.Member("state", FateName(run.fate(i)));
    if (const std::string because = run.Because(i); !because.empty()) json.Member("because", because);
    json.Key("attempts").BeginArray();
    for (const size_t a : run.Attempts(i)) AppendAttempt(run, run.history().attempts[a], &json, &scratch);
    json.EndArray().EndObject();
    if (out.size() < kPiece) continue;
    if (!sink(out)) return;
    out.clear();
  }
  json.EndArray().EndObject();
  out.push_back('\n');
  sink(out);
}

}  // namespace harrow::report
