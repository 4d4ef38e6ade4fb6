#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"

/// The names of all that lies in a run directory. Nobody else spells them (tests/support/names_check). `dir` is a path of
/// the directory that a thing lies in: a part of the run, but for the flow.
namespace harrow::run_dir {

/// What one allocation does of a run lies in a directory of its own (part.h), called by a number, from this on.
inline constexpr const char* kFirstPart = "0";
inline bool IsPart(std::string_view name) {
  return IsDigits(name);
}
inline std::string PartPath(const std::string& run, std::string_view name) {
  return StrCat(run, "/", name);
}

/// The n-th run, from 1 on, that a job (or what stands for one) has begun where nobody named it.
inline std::string NameOfRun(std::string_view job, int n = 1) {
  return StrCat("harrow-", job, n == 1 ? "" : StrCat("-", n));
}

/// What is to be run, and how (flow_format.md): with the run as it was begun, and from its first resume on with the
/// part.
inline constexpr const char* kFlow = "flow";
inline std::string FlowPath(const std::string& dir) {
  return StrCat(dir, "/", kFlow);
}

/// Tasks that were submitted while the part went on (flow_format.md).
inline std::string AddedPath(const std::string& dir) {
  return dir + "/added";
}

/// The best value that the part knows (run/best.h).
inline std::string BestPath(const std::string& dir) {
  return dir + "/best";
}

/// The checkpoints of a task (migrate/checkpoint_format.md), of a run.
inline std::string CheckpointsPath(const std::string& run, std::string_view task) {
  return StrCat(run, "/checkpoints/", task);
}

/// What allocations leave for each other of files on the nodes' own disks (server/exchange.h), of a run; and under which numbering of
/// its tasks.
inline std::string ExchangesPath(const std::string& run) {
  return run + "/exchange";
}
inline std::string ExchangePath(const std::string& run, std::string_view flow_id) {
  return StrCat(ExchangesPath(run), "/", flow_id);
}

/// The script of an array, as it was when the run began: what its elements execute.
inline std::string ScriptPath(const std::string& run) {
  return run + "/script";
}

/// Which keeper may write there (run_dir/owner.h).
inline std::string OwnerPath(const std::string& dir) {
  return dir + "/owner";
}
/// Held by one who is about to take the place of the owner whose file has this hash.
inline std::string OwnerClaimPath(const std::string& dir, std::string_view hash) {
  return StrCat(OwnerPath(dir), ".claim-", hash);
}

/// How to reach the server (run_dir/rendezvous.h); there while it runs.
inline std::string ServerPath(const std::string& dir) {
  return dir + "/server";
}

/// The journal (journal/journal_format.md), and what lies beside it: SQLite's two logs, and the mark of what was
/// acknowledged.
inline constexpr const char* kJournal = "journal.db";
inline std::string JournalPath(const std::string& dir) {
  return StrCat(dir, "/", kJournal);
}
inline std::string JournalWalPath(const std::string& dir) {
  return JournalPath(dir) + "-wal";
}
inline std::string AcknowledgedPath(const std::string& dir) {
  return dir + "/journal.acknowledged";
}
/// The mark comes first: a copy that is taken in this order holds at least what was acknowledged.
inline std::array<std::string, 4> JournalFiles(const std::string& dir) {
  return {AcknowledgedPath(dir), JournalPath(dir), JournalWalPath(dir), JournalPath(dir) + "-journal"};
}
/// Whether a name of that directory is one of these; the journal itself is.
inline bool IsOfJournal(std::string_view name) {
  return name.starts_with("journal.");
}
/// What a file of the journal, IsOfJournal, is called when another has taken its place; `number` from 1.
inline std::string KeptName(std::string_view name, int number) {
  return StrCat("journal-", number, name.substr(std::string_view("journal").size()));
}

/// What tasks wrote (output/output_format.md), and what attempts found and made (made/made_format.md): files of one
/// number an agent.
inline std::string OutputDirectory(const std::string& dir) {
  return dir + "/output";
}
inline std::string OutputPath(const std::string& dir, uint32_t number) {
  return StrCat(OutputDirectory(dir), "/", number, ".out");
}
inline std::string OutputIndexPath(const std::string& dir, uint32_t number) {
  return StrCat(OutputDirectory(dir), "/", number, ".idx");
}
inline std::string MadePath(const std::string& dir, uint32_t number) {
  return StrCat(OutputDirectory(dir), "/", number, ".made");
}
/// The number of a file of OutputDirectory, whichever of the three it is; none: another file.
inline std::optional<uint32_t> OutputNumber(std::string_view name, std::string_view* end = nullptr) {
  uint32_t number = 0;
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc()) return {};
  if (end != nullptr) *end = name.substr(static_cast<size_t>(rest - name.data()));
  return number;
}
inline bool IsOutput(std::string_view name) {
  std::string_view end;
  return OutputNumber(name, &end) && end == ".out";
}
inline bool IsMade(std::string_view name) {
  return name.ends_with(".made");
}
/// The temporary files of results that an agent copies out (made/copies.h); gone when it ends.
inline std::string CopiesPath(const std::string& dir, uint32_t number) {
  return StrCat(OutputDirectory(dir), "/", number, ".copies");
}
inline bool IsCopies(std::string_view name) {
  return name.ends_with(".copies");
}
/// What was made under an earlier numbering of the tasks, brought under the present one.
inline std::string EarlierMadePath(const std::string& dir) {
  return dir + "/made";
}

/// Logs, and the records of the directories that hold the tasks' temporary ones, one a node.
inline constexpr const char* kKeeperLog = "keeper.log";
inline constexpr const char* kServerLog = "server.log";
inline constexpr const char* kSrunLog = "srun.log";
inline std::string AgentFileStem(std::string node) {
  for (char& c : node) c = c == '/' ? '_' : c;
  return "agent-" + node;
}
inline std::string AgentLog(const std::string& node) {
  return AgentFileStem(node) + ".log";
}
inline std::string LogDirectory(const std::string& dir) {
  return dir + "/log";
}
inline std::string LogPath(const std::string& dir, std::string_view name) {
  return StrCat(LogDirectory(dir), "/", name);
}
inline std::string TmpRecordPath(const std::string& dir, const std::string& node) {
  return LogPath(dir, AgentFileStem(node) + ".tmp");
}
/// Of a name of LogDirectory.
inline bool IsTmpRecord(std::string_view name) {
  return name.starts_with("agent-") && name.ends_with(".tmp");
}

/// What a resume prepares, and what it has decided on (run/resume.cc).
inline std::string ResumeTemporaryPath(const std::string& dir) {
  return dir + "/resume.tmp";
}
inline std::string ResumeReadyPath(const std::string& dir) {
  return dir + "/resume.ready";
}

}  // namespace harrow::run_dir
