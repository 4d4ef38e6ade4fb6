#include "formats/task_keys.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "formats/command_form.h"
#include "formats/problems.h"
#include "formats/text_rules.h"

namespace harrow::formats {
namespace {

Status Invalid(std::string text) {
  return Status(Code::kInvalid, std::move(text));
}

template <class Int>
Status SetInteger(std::string_view key, std::string_view value, int64_t least, int64_t most, Int* out) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool whole = end == value.data() + value.size() && !value.empty();
  if (error != std::errc() || !whole || number < least || number > most) {
    return Invalid(StrCat(key, " cannot be \"", Printable(value), "\"; write a whole number from ", least,
                          " to ", most));
  }
  *out = static_cast<Int>(number);
  return Status();
}

Status SetFlag(std::string_view key, std::string_view value, bool* out) {
  if (value != "true" && value != "false") {
    return Invalid(StrCat(key, " cannot be \"", Printable(value), "\"; write true or false"));
  }
  *out = value == "true";
  return Status();
}

Status SetTime(std::string_view key, std::string_view value, Duration* out) {
  Result<Duration> time = ParseDuration(value);
  if (!time) return Invalid(StrCat(key, ": ", time.status().message()));
  *out = *time;
  return Status();
}

Status SetMemory(std::string_view value, uint64_t* out) {
  Result<uint64_t> bytes = ParseBytes(value);
  if (!bytes) return Invalid(StrCat("memory: ", bytes.status().message()));
  if (*bytes < (uint64_t{1} << 20)) {
    return Invalid(StrCat("memory cannot be ", *bytes, " bytes; write ", Printable(value), "M or ",
                          Printable(value), "G if MiB or GiB are meant"));
  }
  if (*bytes > (uint64_t{1} << 50))
    return Invalid(StrCat("memory cannot be ", FormatBytes(*bytes), "; a node has at most 1024T"));
  *out = *bytes;
  return Status();
}

/// "1,75,SIGKILL" or "9-12": exit codes, signals as 128 + n.
Status SetRetryOn(std::string_view value, std::vector<int32_t>* out) {
  out->clear();
  while (!value.empty()) {
    const std::string_view item = value.substr(0, value.find(','));
    value.remove_prefix(std::min(value.size(), item.size() + 1));
    int32_t code = 0;
    HARROW_RETURN_IF_ERROR(SetInteger("retry_on", item, 1, 255, &code));
    out->push_back(code);
  }
  std::sort(out->begin(), out->end());
  out->erase(std::unique(out->begin(), out->end()), out->end());
  return Status();
}

/// "USR1", "SIGUSR1" or "10".
Status SetSignal(std::string_view key, std::string_view value, int32_t* out) {
  std::string_view name = value;
  if (name.starts_with("SIG")) name.remove_prefix(3);
  for (int number = 1; number < NSIG; ++number) {
    const char* const abbreviation = sigabbrev_np(number);
    if (name != StrCat(number) && (abbreviation == nullptr || name != abbreviation)) continue;
    if (number == SIGKILL || number == SIGSTOP || number == SIGCONT || number == SIGTERM || number == SIGCHLD) break;
    *out = number;
    return Status();
  }
  return Invalid(StrCat(key, " cannot be \"", Printable(value), "\"; write a signal that the program catches and that ends nothing by itself: USR1 or USR2"));
}

/// Names below the checkpoint directory, one a line, or with commas between them.
Status SetCheckpointFiles(std::string_view value, std::vector<std::string>* out) {
  const char between = value.find('\n') != std::string_view::npos ? '\n' : ',';
  out->clear();
  while (!value.empty()) {
    const std::string_view name = value.substr(0, value.find(between));
    value.remove_prefix(std::min(value.size(), name.size() + 1));
    const std::string inside = StrCat("/", name, "/");
    if (name.empty() || name.front() == '/' || inside.find("/../") != std::string::npos || inside.find("/./") != std::string::npos)
      return Invalid(StrCat("checkpoint_files cannot hold \"", Printable(name), "\"; write names below HARROW_CHECKPOINT_DIR: checkpoint_files = [\"state.*\"]"));
    out->emplace_back(name);
  }
  if (out->empty()) return Invalid("checkpoint_files names no file; leave it out where a checkpoint is all that is in HARROW_CHECKPOINT_DIR");
  return Status();
}

/// A key about checkpoints; false: it is none.
bool SetCheckpoint(std::string_view key, std::string_view value, graph::Profile* profile, Status* status) {
  using Checkpointing = graph::Checkpointing;
  Checkpointing& checkpoint = profile->checkpoint;
  const auto choose = [&](std::initializer_list<std::string_view> words, std::string_view right) -> size_t {
    const auto* const at = std::find(words.begin(), words.end(), value);
    if (at == words.end()) *status = Invalid(StrCat(key, " cannot be \"", Printable(value), "\"; ", right));
    return static_cast<size_t>(at - words.begin());
  };
  const auto time = [&](Duration* out) {
    *status = SetTime(key, value, out);
    if (status->ok() && *out < std::chrono::milliseconds(100))
      *status = Invalid(StrCat(key, " is less than a tenth of a second; write ", key, " = \"1m\""));
  };
  if (key == "checkpoint") {
    const size_t by = choose({"none", "app", "criu"}, "write app where the program writes its checkpoints itself, criu where CRIU is to dump it, or none");
    if (status->ok()) checkpoint.by = static_cast<Checkpointing::By>(by);
  } else if (key == "checkpoint_ask") {
    const size_t ask = choose({"signal", "file", "none"},
                              "write signal, file where the program looks for the file $HARROW_CHECKPOINT_REQUEST, or none where it "
                              "writes checkpoints by itself");
    if (status->ok()) checkpoint.ask = static_cast<Checkpointing::Ask>(ask);
  } else if (key == "checkpoint_ranks") {
    const size_t which = choose({"one", "all"}, "write one where rank 0 tells the others, or all where each is to be asked");
    if (status->ok()) checkpoint.ask_all = which == 1;
  } else if (key == "checkpoint_signal") {
    *status = SetSignal(key, value, &checkpoint.signal);
  } else if (key == "checkpoint_status") {
    *status = SetInteger(key, value, 1, 125, &checkpoint.status);
  } else if (key == "checkpoint_files") {
    *status = SetCheckpointFiles(value, &checkpoint.files);
  } else if (key == "checkpoint_every") {
    time(&checkpoint.every);
  } else if (key == "checkpoint_time") {
    time(&checkpoint.time);
  } else {
    return false;
  }
  return true;
}

/// What a key about checkpoints needs, and the task does not say.
Status CheckpointContradiction(std::string_view key, const graph::Profile& profile) {
  const graph::Checkpointing& checkpoint = profile.checkpoint;
  using Ask = graph::Checkpointing::Ask;
  if (key == "checkpoint") {
    if (checkpoint.by_criu() && profile.ranks > 0)
      return Invalid("CRIU dumps no MPI task, whose ranks are connected; write checkpoint = \"app\" where the program writes checkpoints itself");
    if (checkpoint.on() && checkpoint.ask == Ask::kNone && checkpoint.files.empty())
      return Invalid(
          "checkpoint_ask = \"none\" needs the names of what the program writes, else nobody knows which of it is whole; write "
          "checkpoint_files = [\"state.*\"]");
    return Status();
  }
  if (!IsCheckpointKey(key)) return Status();
  if (!checkpoint.on())
    return Invalid(StrCat(key, " is about checkpoints, and the task writes none; write checkpoint = \"app\", or leave ", key, " out"));
  if (checkpoint.by_criu() && key != "checkpoint_every" && key != "checkpoint_time")
    return Invalid(StrCat(key, " is about a program that writes checkpoints itself, and CRIU dumps this one; leave ", key, " out, or write checkpoint = \"app\""));
  if (checkpoint.ask == Ask::kNone && key == "checkpoint_every")
    return Invalid("checkpoint_every says how often the program is asked, and checkpoint_ask = \"none\" that it is not; leave one of both out");
  if (checkpoint.ask != Ask::kSignal && key == "checkpoint_signal")
    return Invalid("checkpoint_signal says what asks for a checkpoint, and checkpoint_ask that no signal does; leave one of both out");
  if (checkpoint.ask == Ask::kNone && key == "checkpoint_status")
    return Invalid("checkpoint_status is how the program ends when it was asked, and checkpoint_ask = \"none\" says that it is not; leave one of both out");
  if (key == "checkpoint_ranks" && profile.ranks == 0)
    return Invalid("checkpoint_ranks says which ranks are asked, and the task has none; write ranks = N, or leave checkpoint_ranks out");
  return Status();
}

}  // namespace

bool IsCheckpointKey(std::string_view key) {
  return key.starts_with("checkpoint") || key == "restart_command";
}

void FindRestartForm(graph::Profile* profile) {
  std::string argv;
  if (profile->restart_command.empty()) return;
  profile->restart_form = profile->shell.empty() ? Classify(profile->restart_command, &argv) : graph::CommandForm::kShell;
  if (profile->restart_form == graph::CommandForm::kArgv) profile->restart_command.swap(argv);
}

uint32_t TaskAttributes::NodesOfRanks() const {
  if (ranks_per_node == 0) return profile.shape.nodes;
  return profile.ranks / ranks_per_node + (profile.ranks % ranks_per_node > 0 ? 1 : 0);
}

graph::Profile TaskAttributes::Resolved() const {
  graph::Profile resolved = profile;
  FindRestartForm(&resolved);
  if (resolved.ranks > 0) {
    resolved.shape.nodes = NodesOfRanks();
    const uint64_t here = RanksOn(resolved.ranks, resolved.shape.nodes, 0);
    const auto of_all = [here](uint32_t of_one, uint32_t most) {
      return static_cast<uint32_t>(std::min<uint64_t>(most, here * of_one));
    };
    resolved.shape.cores = of_all(cores_given ? resolved.shape.cores : 1, kMostCores);
    resolved.shape.devices = of_all(resolved.shape.devices, kMostDevices);
  }
  return resolved;
}

const std::vector<std::string_view>& AttributeKeys() {
  static const std::vector<std::string_view> keys = {
      "cores",  "memory",  "gpus",     "nodes",       "whole_node", "ranks",      "ranks_per_node", "mpi",
      "time",   "retries", "retry_on", "retry_delay", "cwd",        "kind",       "stdin",          "stdout",
      "stderr", "shell",   "priority", "keep",        "replicas",   "missing_ok", "run_time",
      "bound",
      "checkpoint", "checkpoint_ask", "checkpoint_ranks", "checkpoint_signal", "checkpoint_status", "checkpoint_files",
      "checkpoint_every", "checkpoint_time", "restart_command"};
  return keys;
}

Status SetAttribute(std::string_view key, std::string_view value, TaskAttributes* attributes) {
  graph::Profile& profile = attributes->profile;
  if (value.find('\0') != std::string_view::npos)
    return Invalid(StrCat(key, " holds a NUL byte; no text of a task may"));
  if (key == "cores") {
    HARROW_RETURN_IF_ERROR(SetInteger(key, value, 1, kMostCores, &profile.shape.cores));
    attributes->cores_given = true;
    return Status();
  }
  if (key == "memory") return SetMemory(value, &profile.shape.memory);
  if (key == "gpus") return SetInteger(key, value, 0, 1024, &profile.shape.devices);
  if (key == "nodes") return SetInteger(key, value, 1, 1'000'000, &profile.shape.nodes);
  if (key == "whole_node") return SetFlag(key, value, &profile.shape.whole_node);
  if (key == "ranks") return SetInteger(key, value, 1, 100'000'000, &profile.ranks);
  if (key == "ranks_per_node") return SetInteger(key, value, 1, kMostCores, &attributes->ranks_per_node);
  if (key == "mpi") {
    if (value != "pmix" && value != "pmi1" && value != "none")
      return Invalid(StrCat("mpi cannot be \"", Printable(value),
                            "\"; write pmix as for Open MPI, pmi1 as for MPICH, or none for programs that "
                            "find each other by themselves"));
    profile.mpi = value == "none"   ? graph::Mpi::kNone
                  : value == "pmi1" ? graph::Mpi::kPmi1
                                    : graph::Mpi::kPmix;
    return Status();
  }
  if (key == "time") return SetTime(key, value, &profile.time_limit);
  if (key == "retries") return SetInteger(key, value, 0, 1000, &profile.retries);
  if (key == "retry_delay") {
    Result<Duration> delay = ParseDuration(value);
    if (!delay) return Invalid(StrCat(key, ": ", delay.status().message()));
    if (*delay > std::chrono::hours(24))
      return Invalid(StrCat(key, " is more than a day; write retry_delay = \"30s\""));
    profile.retry_delay = *delay;
    return Status();
  }
  if (key == "retry_on") return SetRetryOn(value, &profile.retry_on);
  if (key == "priority") return SetInteger(key, value, -1'000'000, 1'000'000, &profile.priority);
  if (key == "keep") return SetFlag(key, value, &profile.keep);
  if (key == "replicas") return SetInteger(key, value, 1, 16, &profile.replicas);
  if (key == "missing_ok") return SetFlag(key, value, &profile.missing_ok);
  if (key == "bound") {
    const std::optional<double> bound = ParseNumber(value);
    if (!bound)
      return Invalid(StrCat("bound cannot be ", Printable(value), "; it is a number, the best value that may come of the task (harrow best): write bound = 3.25"));
    attributes->bound = *bound;
    return Status();
  }
  if (key == "run_time") {
    Duration time{};
    HARROW_RETURN_IF_ERROR(SetTime(key, value, &time));
    attributes->run_time = time;
    return Status();
  }
  if (Status status; SetCheckpoint(key, value, &profile, &status)) return status;
  const std::pair<std::string_view, std::string*> texts[] = {
      {"cwd", &profile.cwd},          {"kind", &attributes->kind},      {"shell", &profile.shell},
      {"stdin", &profile.stdin_path}, {"stdout", &profile.stdout_path}, {"stderr", &profile.stderr_path},
      {"restart_command", &profile.restart_command}};
  for (const auto& [name, text] : texts) {
    if (name != key) continue;
    if (value.empty()) return Invalid(StrCat(key, " is empty; leave it out for its default"));
    if (value.size() > 4096)
      return Invalid(StrCat(key, " has ", value.size(), " bytes; at most 4096 are taken"));
    *text = value;
    return Status();
  }
  return Invalid(StrCat("unknown key ", Printable(key), SuggestKey(key, AttributeKeys())));
}

Status SetVariable(std::string_view name, std::string_view value, TaskAttributes* attributes) {
  if (name.empty() || name.find('=') != std::string_view::npos || name.find('\0') != std::string_view::npos) {
    return Invalid(
        StrCat("env cannot set \"", Printable(name), "\"; a variable's name has no = and is not empty"));
  }
  if (value.find('\0') != std::string_view::npos)
    return Invalid(StrCat("env ", Printable(name), " holds a NUL byte; no variable may"));
  auto& env = attributes->profile.env;
  const auto at = std::lower_bound(env.begin(), env.end(), name,
                                   [](const auto& pair, std::string_view n) { return pair.first < n; });
  if (at != env.end() && at->first == name) {
    at->second = value;
  } else {
    env.emplace(at, name, value);
  }
  return Status();
}

Status Contradiction(std::string_view key, const TaskAttributes& attributes) {
  const graph::Profile& profile = attributes.profile;
  const auto written = [](uint32_t count, std::string_view what) {
    return StrCat(count, " ", what, count == 1 ? "" : "s");
  };
  if (key == "mpi" && profile.ranks == 0)
    return Invalid(
        "mpi says how ranks find each other, and the task has none; write ranks = N, or leave mpi out");
  if (key == "ranks_per_node") {
    if (profile.ranks == 0)
      return Invalid(
          "ranks_per_node says how ranks lie on nodes, and the task has none; write ranks = N, or leave "
          "ranks_per_node out");
    if (profile.shape.nodes > 1 && profile.shape.nodes != attributes.NodesOfRanks())
      return Invalid(StrCat("ranks_per_node = ", attributes.ranks_per_node, " puts ",
                            written(profile.ranks, "rank"), " on ",
                            written(attributes.NodesOfRanks(), "node"), ", and nodes says ",
                            profile.shape.nodes, "; leave one of both out"));
  }
  if (key == "nodes" && profile.ranks > 0 && profile.shape.nodes > profile.ranks)
    return Invalid(StrCat("nodes are ", profile.shape.nodes, ", and the task has only ",
                          written(profile.ranks, "rank"),
                          ", one of a node at least; write nodes = ", profile.ranks, " or fewer"));
  HARROW_RETURN_IF_ERROR(CheckpointContradiction(key, profile));
  if (key != "ranks" || profile.ranks == 0) return Status();
  const uint32_t nodes = attributes.NodesOfRanks();
  if (profile.shape.whole_node && nodes == 1)
    return Invalid(
        "ranks and whole_node exclude each other; give each rank its part of the node with cores = N");
  const uint32_t here = RanksOn(profile.ranks, nodes, 0);
  const uint32_t cores = attributes.cores_given ? profile.shape.cores : 1;
  if (uint64_t{here} * cores > kMostCores)
    return Invalid(StrCat(written(here, "rank"), " of ", written(cores, "core"),
                          " on a node are more than the ", kMostCores,
                          " cores that one may have; write fewer, or more nodes"));
  return Status();
}

std::string SuggestKey(std::string_view word, const std::vector<std::string_view>& known) {
  static constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
      {"cpus", "cores"},
      {"cpus_per_task", "cores"},
      {"ncpus", "cores"},
      {"threads", "cores"},
      {"mem", "memory"},
      {"ram", "memory"},
      {"gres", "gpus"},
      {"devices", "gpus"},
      {"ntasks", "ranks"},
      {"np", "ranks"},
      {"processes", "ranks"},
      {"walltime", "time"},
      {"ppn", "ranks_per_node"},
      {"ntasks_per_node", "ranks_per_node"},
      {"tasks_per_node", "ranks_per_node"},
      {"timeout", "time"},
      {"time_limit", "time"},
      {"duration", "run_time"},
      {"runtime", "run_time"},
      {"exclusive", "whole_node"},
      {"input", "in"},
      {"inputs", "in"},
      {"output", "out"},
      {"outputs", "out"},
      {"depends", "after"},
      {"depends_on", "after"},
      {"needs", "after"},
      {"dependency", "after"},
      {"dependencies", "after"},
      {"dir", "cwd"},
      {"afterok", "after"},
      {"afterany", "after_any"},
      {"order_only", "after_any"},
      {"chdir", "cwd"},
      {"workdir", "cwd"},
      {"cmd", "command"},
      {"run", "command"},
      {"script", "command"},
      {"id", "name"},
      {"foreach", "each"},
      {"matrix", "each"},
      {"array", "each"},
      {"environment", "env"},
      {"retry", "retries"},
      {"ckpt", "checkpoint"},
      {"checkpoint_interval", "checkpoint_every"},
      {"restart", "restart_command"},
      {"nice", "priority"}};
  for (const auto& [elsewhere, here] : kElsewhere) {
    if (elsewhere == word && std::find(known.begin(), known.end(), here) != known.end())
      return StrCat("; here it is called ", here);
  }
  return SuggestOneOf(word, known);
}

}  // namespace harrow::formats
