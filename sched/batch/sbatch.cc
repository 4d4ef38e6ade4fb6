#include "batch/sbatch.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "base/text.h"

namespace harrow::batch {
namespace {

struct OptionName {
  std::string_view name;
  char letter = '\0';  // that: it has none
};

/// Who says one of these has thought about which part of a node the job gets.
constexpr OptionName kPartsOfNodes[] = {
    {"exclusive"},
    {"oversubscribe", 's'},
    {"ntasks", 'n'},
    {"cpus-per-task", 'c'},
    {"ntasks-per-node"},
    {"mincpus"},
    {"mem"},
    {"mem-per-cpu"},
    {"mem-per-gpu"},
    {"cpus-per-gpu"},
    {"cores-per-socket"},
    {"sockets-per-node"},
    {"extra-node-info", 'B'},
    {"gpus", 'G'},
    {"gpus-per-node"},
    {"gpus-per-socket"},
    {"gpus-per-task"},
    {"gres"},
    {"ntasks-per-gpu"},
    {"ntasks-per-core"},
    {"ntasks-per-socket"},
    {"core-spec", 'S'},
    {"thread-spec"},
};
constexpr OptionName kNodes[] = {
    {"nodes", 'N'}, {"ntasks", 'n'}, {"nodelist", 'w'}, {"nodefile", 'F'}, {"gpus", 'G'}};

bool IsLong(std::string_view word, std::string_view name) {
  return word.starts_with("--") && word.substr(2).starts_with(name) &&
         (word.size() == name.size() + 2 || word[name.size() + 2] == '=');
}

/// What sbatch takes for an option where it is not given: "gpus-per-node" is SBATCH_GPUS_PER_NODE.
std::string VariableOf(std::string_view name) {
  std::string variable = "SBATCH_";
  for (const char c : name)
    variable += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name == "mem" ? variable + "_PER_NODE" : variable;
}

bool IsShort(std::string_view word, char letter) {
  return letter != '\0' && word.size() >= 2 && word[0] == '-' && word[1] == letter;
}

uint64_t NumberOr(std::string_view text, uint64_t otherwise) {
  uint64_t value = 0;
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc() ? value : otherwise;
}

/// Of a list of generic resources: "gpu:2", "gpu:a100:4(S:0-1)".
uint32_t GpusOf(std::string_view resources) {
  const size_t gpu = resources.find("gpu:");
  if (gpu == std::string_view::npos) return 0;
  std::string_view rest = resources.substr(gpu + 4);
  rest = rest.substr(0, rest.find_first_of("(,"));
  if (const size_t colon = rest.rfind(':'); colon != std::string_view::npos) rest.remove_prefix(colon + 1);
  return static_cast<uint32_t>(NumberOr(rest, 0));
}

}  // namespace

bool SbatchWords::Has(std::string_view name, char letter) const {
  return std::any_of(words_.begin(), words_.end(),
                     [&](const std::string& word) { return IsLong(word, name) || IsShort(word, letter); });
}

std::optional<std::string> SbatchWords::Value(std::string_view name, char letter) const {
  std::optional<std::string> value;
  for (size_t i = 0; i < words_.size(); ++i) {
    const std::string& word = words_[i];
    const size_t length = IsLong(word, name) ? name.size() + 2 : IsShort(word, letter) ? 2 : 0;
    if (length == 0) continue;
    if (word.size() > length) {
      value = word.substr(length + (length > 2 ? 1 : 0));
    } else if (i + 1 < words_.size()) {
      value = words_[i + 1];
    }
  }
  return value;
}

bool SbatchWords::heterogeneous() const {
  return std::find(words_.begin(), words_.end(), ":") != words_.end();
}

bool SbatchWords::says_nodes() const {
  return heterogeneous() || std::any_of(std::begin(kNodes), std::end(kNodes), [&](const OptionName& option) {
           return Has(option.name, option.letter);
         });
}

std::vector<std::string> AddedToSbatch(const SbatchWords& given, const Environment& environment,
                                       const SbatchDefaults& defaults) {
  const auto set = [&](std::string_view variable) { return environment.contains(variable); };
  std::vector<std::string> added;
  if (!given.Has("no-kill", 'k') && !set("SBATCH_NO_KILL")) added.push_back("--no-kill");
  if (!given.Has("requeue") && !given.Has("no-requeue") && !set("SBATCH_REQUEUE") &&
      !set("SBATCH_NO_REQUEUE")) {
    added.push_back("--no-requeue");
  }
  const bool parts =
      std::any_of(std::begin(kPartsOfNodes), std::end(kPartsOfNodes), [&](const OptionName& option) {
        return given.Has(option.name, option.letter) || set(VariableOf(option.name));
      });
  if (!parts && !given.heterogeneous()) added.push_back("--exclusive");
  if (!given.says_nodes() && defaults.nodes > 0) added.push_back(StrCat("--nodes=", defaults.nodes));
  if (!given.Has("job-name", 'J') && !set("SBATCH_JOB_NAME") && !defaults.job_name.empty()) {
    added.push_back(StrCat("--job-name=", defaults.job_name));
  }
  if (!given.Has("output", 'o') && !set("SBATCH_OUTPUT")) {
    added.push_back(given.Has("array", 'a') ? "--output=harrow-%A_%a.out" : "--output=harrow-%j.out");
  }
  return added;
}

std::string SbatchScript(const std::vector<std::string>& command, std::string_view comment,
                         std::string_view input) {
  std::string script = StrCat("#!/bin/sh\n# ", Printable(comment, 200), "\nexec");
  for (const std::string& word : command) script += StrCat(" ", ShellQuote(word));
  if (input.empty()) return script + "\n";
  // No line of it may be the last one.
  std::string end = "END_OF_SCRIPT";
  while (input.find(end) != std::string_view::npos) end += '_';
  return StrCat(script, " <<'", end, "'\n", input, input.ends_with('\n') ? "" : "\n", end, "\n");
}

std::optional<std::string> SubmittedJob(std::string_view said) {
  constexpr std::string_view kSubmitted = "Submitted batch job ";
  while (!said.empty()) {
    const size_t end = std::min(said.find('\n'), said.size());
    std::string_view line = said.substr(0, end);
    said.remove_prefix(std::min(end + 1, said.size()));
    if (line.starts_with(kSubmitted)) line.remove_prefix(kSubmitted.size());
    const size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
    // "17", "17;cluster", "17 on cluster x"
    if (digits > 0 && (digits == line.size() || line[digits] == ';' || line[digits] == ' ')) {
      return std::string(line.substr(0, digits));
    }
  }
  return std::nullopt;
}

std::vector<std::string> PartitionNames(std::string_view sinfo) {
  std::vector<std::string> names;
  while (!sinfo.empty()) {
    const std::string_view line = sinfo.substr(0, sinfo.find('\n'));
    sinfo.remove_prefix(std::min(line.size() + 1, sinfo.size()));
    std::string name(line.substr(0, line.find('|')));
    const bool is_default = name.ends_with('*');
    if (is_default) name.pop_back();
    if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) continue;
    names.insert(is_default ? names.begin() : names.end(), std::move(name));
  }
  return names;
}

std::string SlurmTime(Duration time) {
  constexpr int64_t kDay = 24 * 60;
  const int64_t minutes = std::chrono::ceil<std::chrono::minutes>(time).count();
  const auto two = [](int64_t n) { return StrCat(n < 10 ? "0" : "", n); };
  return StrCat(minutes / kDay, "-", two(minutes % kDay / 60), ":", two(minutes % 60), ":00");
}

SbatchAnswer ReadSbatchAnswer(int status, std::string_view out, std::string_view err) {
  SbatchAnswer answer;
  const std::optional<std::string> job = SubmittedJob(out);
  if (status == 0 && job) return {.job = *job};
  std::vector<std::string> said;
  while (!err.empty()) {
    std::string_view line = err.substr(0, err.find('\n'));
    err.remove_prefix(std::min(line.size() + 1, err.size()));
    for (const std::string_view begin : {"sbatch: ", "error: ", "fatal: ", "Batch job submission failed: ", "allocation failure: "}) {
      if (line.starts_with(begin)) line.remove_prefix(begin.size());
    }
    if (constexpr std::string_view kStart = " to start at "; line.starts_with("Job ") && line.find(kStart) != std::string_view::npos) {
      const std::string_view at = line.substr(line.find(kStart) + kStart.size());
      if (const uint64_t seconds = NumberOr(at, 0); status == 0 && seconds > 0) answer.begins = WallTime(std::chrono::seconds(seconds));
    }
    std::string text = Printable(line, 200);
    if (!text.empty() && std::find(said.begin(), said.end(), text) == said.end()) said.push_back(std::move(text));
  }
  if (answer.begins) return answer;
  // The last one is what slurmctld says; those before tell more.
  answer.why = said.empty() ? StrCat("sbatch ended with status ", status, " and said nothing") : said.back();
  for (size_t i = 0; i + 1 < said.size() && i < 3; ++i) answer.why += StrCat(i == 0 ? " (" : "; ", said[i]);
  if (said.size() > 1) answer.why += ')';
  answer.what = SbatchAnswer::What::kRefused;
  for (const std::string_view away : {"Unable to contact slurm controller", "timed out", "standby mode", "Zero Bytes were transmitted",
                                      "temporarily unable", "Resource temporarily unavailable", "Connection refused", "Unable to connect"}) {
    if (answer.why.find(away) != std::string::npos) answer.what = SbatchAnswer::What::kNoAnswer;
  }
  return answer;
}

std::string NeverBegins(std::string_view reason) {
  constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
      {"PartitionNodeLimit", "more nodes than a job of the partition may have"},
      {"PartitionTimeLimit", "a longer time limit than a job of the partition may have"},
      {"PartitionConfig", "more than the partition has"},
      {"BadConstraints", "no node has what it asks for"},
      {"AccountNotAllowed", "the account may not use the partition"},
      {"InvalidAccount", "the account is not valid"},
      {"InvalidQOS", "the QOS is not valid"},
      {"QOSNotAllowed", "the QOS may not be used there"}};
  for (const auto& [name, words] : kReasons) {
    if (reason == name) return StrCat(words, " (", name, ")");
  }
  // AssocMaxNodePerJobLimit, QOSMaxWallDurationPerJobLimit: a limit of each job, whatever else runs.
  if (reason.ends_with("PerJobLimit") || reason.ends_with("PerJob")) return StrCat("more than a limit of the association or QOS allows a job (", Printable(reason, 60), ")");
  return {};
}

std::optional<Partition> ParsePartitions(std::string_view sinfo, std::string_view wanted) {
  wanted = wanted.substr(0, wanted.find(','));
  uint64_t nodes = 0, most_of_a_kind = 0;
  uint64_t limit = UINT64_MAX;
  Partition most;
  while (!sinfo.empty()) {
    std::string_view line = sinfo.substr(0, sinfo.find('\n'));
    sinfo.remove_prefix(std::min(line.size() + 1, sinfo.size()));
    std::array<std::string_view, 8> field;
    for (std::string_view& each : field) {
      each = line.substr(0, line.find('|'));
      line.remove_prefix(std::min(each.size() + 1, line.size()));
    }
    const bool is_default = field[0].ends_with('*');
    if (is_default) field[0].remove_suffix(1);
    if (wanted.empty() ? !is_default : field[0] != wanted) continue;
    const uint64_t count = NumberOr(field[3], 0), cpus = NumberOr(field[1], 0);
    if (count == 0 || cpus == 0) continue;
    nodes += count;
    const size_t dash = field[5].find('-');  // "1-infinite", "4"
    limit = NumberOr(dash == std::string_view::npos ? field[5] : field[5].substr(dash + 1), UINT64_MAX);
    // "n/a" where the partition has no default: the most that a job may have is what it gets.
    if (const Result<Duration> time = ParseDuration(field[7]); time.ok()) most.most_time = *time;
    for (const std::string_view text : {field[6], field[7]}) {
      const Result<Duration> time = ParseDuration(text);
      if (most.default_time == Duration(0) && time.ok()) most.default_time = *time;
    }
    const uint64_t memory = NumberOr(field[2], 0) << 20;
    const uint32_t gpus = GpusOf(field[4]);
    most.most_cpus = std::max(most.most_cpus, static_cast<uint32_t>(cpus));
    most.most_memory = std::max(most.most_memory, memory);
    most.most_gpus = std::max(most.most_gpus, gpus);
    if (count > most_of_a_kind) {
      most_of_a_kind = count;
      most.name = field[0];
      most.cpus = static_cast<uint32_t>(cpus);
      most.memory = memory;
      most.gpus = gpus;
    }
  }
  if (nodes == 0) return std::nullopt;
  most.most_nodes = static_cast<uint32_t>(std::min({nodes, limit, uint64_t{UINT32_MAX}}));
  return most;
}

}  // namespace harrow::batch
