// Batch scripts of Slurm. sbatch reads the lines that begin with #SBATCH up to the first line that is neither
// blank nor a comment; each holds options as a shell would split them, and a word that begins with # ends it.
// Long options may be shortened as far as they stay unambiguous, and take their argument after = or as the
// next word; letters take theirs joined or as the next word.
//
// Many options say what a *job* is. Of a job of an array these mean each element, and are honoured here; the
// others say which allocation there is to be, which Harrow is given, not asked for: their names are told
// once.
#include "formats/batch_script.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>

#include "base/text.h"
#include "formats/text_rules.h"

namespace harrow::formats {
namespace {

using Argument = BatchOption::Argument;
using Of = BatchOption::Of;

constexpr auto kNo = Argument::kNone;
constexpr auto kMust = Argument::kRequired;
constexpr auto kMay = Argument::kOptional;

// As of Slurm 24.05.
constexpr BatchOption kOptions[] = {
    {"account", 'A', kMust},
    {"acctg-freq", kMust, Of::kSubmission},
    {"array", 'a', kMust, Of::kElement},
    {"batch", kMust},
    {"bb", kMust},
    {"bbf", kMust},
    {"begin", 'b', kMust},
    {"chdir", 'D', kMust, Of::kElement},
    {"cluster-constraint", kMust},
    {"clusters", 'M', kMust},
    {"comment", kMust, Of::kSubmission},
    {"constraint", 'C', kMust},
    {"container", kMust, Of::kUnmet},
    {"container-id", kMust, Of::kUnmet},
    {"contiguous", kNo},
    {"core-spec", 'S', kMust},
    {"cores-per-socket", kMust},
    {"cpu-freq", kMust},
    {"cpus-per-gpu", kMust, Of::kUnmet},
    {"cpus-per-task", 'c', kMust, Of::kElement},
    {"deadline", kMust},
    {"delay-boot", kMust},
    {"dependency", 'd', kMust},
    {"distribution", 'm', kMust},
    {"error", 'e', kMust, Of::kElement},
    {"exclude", 'x', kMust},
    {"exclusive", kMay, Of::kElement},
    {"export", kMust, Of::kElement},
    {"export-file", kMust, Of::kUnmet},
    {"extra", kMust},
    {"extra-node-info", 'B', kMust},
    {"get-user-env", kMay, Of::kSubmission},
    {"gid", kMust},
    {"gpu-bind", kMust},
    {"gpu-freq", kMust},
    {"gpus", 'G', kMust, Of::kElement},
    {"gpus-per-node", kMust, Of::kElement},
    {"gpus-per-socket", kMust, Of::kUnmet},
    {"gpus-per-task", kMust, Of::kElement},
    {"gres", kMust, Of::kElement},
    {"gres-flags", kMust},
    {"harrow", kMay},
    {"hint", kMust},
    {"hold", 'H', kNo},
    {"ignore-pbs", kNo, Of::kSubmission},
    {"input", 'i', kMust, Of::kElement},
    {"job-name", 'J', kMust, Of::kElement},
    {"kill-on-invalid-dep", kMust},
    {"licenses", 'L', kMust, Of::kUnmet},
    {"mail-type", kMust},
    {"mail-user", kMust},
    {"mcs-label", kMust},
    {"mem", kMust, Of::kElement},
    {"mem-bind", kMust},
    {"mem-per-cpu", kMust, Of::kElement},
    {"mem-per-gpu", kMust, Of::kUnmet},
    {"mincpus", kMust, Of::kUnmet},
    {"network", kMust},
    {"nice", kMay},
    {"no-kill", 'k', kMay},
    {"no-requeue", kNo, Of::kSubmission},
    {"nodefile", 'F', kMust},
    {"nodelist", 'w', kMust},
    {"nodes", 'N', kMust, Of::kElement},
    {"ntasks", 'n', kMust, Of::kElement},
    {"ntasks-per-core", kMust},
    {"ntasks-per-gpu", kMust, Of::kUnmet},
    {"ntasks-per-node", kMust, Of::kElement},
    {"ntasks-per-socket", kMust, Of::kUnmet},
    {"open-mode", kMust, Of::kElement},
    {"output", 'o', kMust, Of::kElement},
    {"overcommit", 'O', kNo},
    {"oversubscribe", 's', kNo},
    {"parsable", kNo, Of::kSubmission},
    {"partition", 'p', kMust},
    {"power", kMust},
    {"prefer", kMust},
    {"priority", kMust},
    {"profile", kMust},
    {"propagate", kMay},
    {"qos", 'q', kMust},
    {"quiet", 'Q', kNo, Of::kSubmission},
    {"reboot", kNo},
    {"requeue", kNo, Of::kSubmission},
    {"reservation", kMust},
    {"segment", kMust},
    {"signal", kMust, Of::kElement},
    {"sockets-per-node", kMust},
    {"spread-job", kNo},
    {"stepmgr", kNo},
    {"switches", kMust},
    {"test-only", kNo, Of::kSubmission},
    {"thread-spec", kMust},
    {"threads-per-core", kMust, Of::kUnmet},
    {"time", 't', kMust, Of::kElement},
    {"time-min", kMust},
    {"tmp", kMust, Of::kUnmet},
    {"tres-bind", kMust},
    {"tres-per-task", kMust, Of::kUnmet},
    {"uid", kMust},
    {"use-min-nodes", kNo},
    {"verbose", 'v', kNo, Of::kSubmission},
    {"wait", 'W', kNo, Of::kSubmission},
    {"wait-all-nodes", kMust},
    {"wckey", kMust},
    {"wrap", kMust, Of::kElement},
};

const BatchOption* FindLong(std::string_view name) {
  const BatchOption* found = nullptr;
  for (const BatchOption& option : kOptions) {
    if (option.name == name) return &option;
    if (!option.name.starts_with(name)) continue;
    if (found != nullptr) return nullptr;  // ambiguous
    found = &option;
  }
  return found;
}

const BatchOption* FindLetter(char letter) {
  const auto* const found = std::find_if(std::begin(kOptions), std::end(kOptions),
                                         [&](const BatchOption& option) { return option.letter == letter; });
  return found == std::end(kOptions) ? nullptr : found;
}

/// The words of a line's options, as a shell splits them. False: a quote stays open.
bool SplitWords(std::string_view text, std::vector<std::string>* words) {
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else if (c == '\\' && quote == '"' && i + 1 < text.size() &&
                 (text[i + 1] == '"' || text[i + 1] == '\\')) {
        word += text[++i];
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == '\\' && i + 1 < text.size()) {
      word += text[++i];
      in_word = true;
    } else if (IsBlankOrReturn(c)) {
      if (in_word) words->push_back(std::exchange(word, {}));
      in_word = false;
    } else if (c == '#' && !in_word) {
      break;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (in_word) words->push_back(word);
  return quote == 0;
}

/// Options of one line; a problem's text, or nothing.
std::string TakeOptions(const std::vector<std::string>& words, const std::string& place,
                        std::vector<GivenOption>* options) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const BatchOption* option = nullptr;
    GivenOption given{.name = {}, .value = {}, .place = place};
    bool has_value = false;
    if (!word.starts_with('-') || word == "-" || word == "--") {
      // The argument of an option of the site's, maybe.
      if (!options->empty() && options->back().place == place && FindLong(options->back().name) == nullptr)
        continue;
      return StrCat("\"", Printable(word, 60), "\" is no option; write --name=value");
    }
    if (word.starts_with("--")) {
      const size_t equals = word.find('=');
      const std::string_view name = word.substr(2, equals == std::string_view::npos ? equals : equals - 2);
      option = FindLong(name);
      given.name = option != nullptr ? option->name : name;
      has_value = equals != std::string_view::npos;
      if (has_value) given.value = word.substr(equals + 1);
    } else {
      option = FindLetter(word[1]);
      given.name = option != nullptr ? std::string(option->name) : std::string(1, word[1]);
      has_value = word.size() > 2;
      if (has_value) given.value = word.substr(2);
      if (has_value && option != nullptr && option->argument == kNo) {
        return StrCat("\"", Printable(word, 60), "\" is more than one option; write each on its own");
      }
    }
    if (option != nullptr && option->argument == kMust && !has_value) {
      if (i + 1 == words.size())
        return StrCat("--", given.name, " needs a value; write --", given.name, "=VALUE");
      given.value = words[++i];
    }
    options->push_back(std::move(given));
  }
  return {};
}

Result<uint32_t> Count(std::string_view text, std::string_view what, uint32_t least = 1) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least) {
    return Status(Code::kInvalid,
                  StrCat(what, " cannot be \"", Printable(text, 40), "\"; write a number from ", least));
  }
  return number;
}

/// Megabytes, or with a unit.
Result<uint64_t> Memory(std::string_view text) {
  return ParseBytes(IsDigits(text) ? StrCat(text, "M") : std::string(text));
}

/// Takes the next of a list's words off its front.
std::string_view TakeOfList(std::string_view* list) {
  const std::string_view one = list->substr(0, list->find(','));
  list->remove_prefix(std::min(list->size(), one.size() + 1));
  return one;
}

/// The sum of a list of [type:]N; 0 asks for none. `name_is_one`: gpu and gpu:tesla are one.
Status AddGpus(std::string_view one, bool name_is_one, uint32_t* all) {
  const std::string_view last = one.substr(one.rfind(':') + 1);
  const bool name = last.empty() || last[0] < '0' || last[0] > '9';
  Result<uint32_t> count = name && name_is_one ? Result<uint32_t>(1u) : Count(last, "a number of GPUs", 0);
  if (!count.ok()) return count.status();
  *all = static_cast<uint32_t>(std::min<uint64_t>(UINT32_MAX, uint64_t{*all} + *count));
  return Status();
}

Result<uint32_t> Gpus(std::string_view list) {
  uint32_t all = 0;
  do {
    HARROW_RETURN_IF_ERROR(AddGpus(TakeOfList(&list), false, &all));
  } while (!list.empty());
  return all;
}

/// The GPUs in a list of generic resources; the names of the others are appended to `others`.
Result<uint32_t> GpusOfGres(std::string_view list, std::vector<std::string>* others) {
  uint32_t all = 0;
  while (!list.empty()) {
    std::string_view one = TakeOfList(&list);
    if (one.starts_with("gres/")) one.remove_prefix(5);
    const std::string_view name = one.substr(0, one.find_first_of(":="));
    if (name == "gpu") {
      HARROW_RETURN_IF_ERROR(AddGpus(one.substr(one.starts_with("gpu=") ? 4 : 0), true, &all));
    } else if (!name.empty() && name != "none" && others != nullptr) {
      others->push_back(StrCat("--gres=", name));
    }
  }
  return all;
}

/// [R][B:]SIGNAL[@SECONDS]
Status SetSignal(std::string_view text, ElementRequest* request) {
  const auto bad = [&] {
    return Status(Code::kInvalid, StrCat("signal cannot be \"", Printable(text, 40), "\"; write B:USR1@120"));
  };
  std::string_view rest = text;
  request->signal_alone = false;
  for (size_t colon; (colon = rest.find(':')) != std::string_view::npos; rest.remove_prefix(colon + 1)) {
    const std::string_view flags = rest.substr(0, colon);
    if (flags.find_first_not_of("RB") != std::string_view::npos) return bad();
    request->signal_alone = request->signal_alone || flags.find('B') != std::string_view::npos;
  }
  uint32_t seconds = 60;
  if (const size_t at = rest.find('@'); at != std::string_view::npos) {
    const std::string_view number = rest.substr(at + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), seconds);
    if (error != std::errc() || end != number.data() + number.size() || seconds > 65535) return bad();
    rest = rest.substr(0, at);
  }
  request->signal_before = std::chrono::seconds(seconds);
  std::string name = UpperCase(rest);
  if (name.starts_with("SIG")) name.erase(0, 3);
  int32_t signal = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), signal);
  if (error != std::errc() || end != name.data() + name.size()) {
    signal = 0;
    for (int number = 1; number < SIGRTMIN; ++number) {
      const char* const abbreviation = sigabbrev_np(number);
      if (abbreviation != nullptr && name == abbreviation) signal = number;
    }
  }
  if (signal <= 0 || signal > SIGRTMAX) return bad();
  request->signal = signal;
  return Status();
}

void SetExport(std::string_view text, ElementRequest* request) {
  request->export_all = text == "ALL";
  request->export_nothing = text == "NIL";
  request->exported.clear();
  if (text == "ALL" || text == "NONE" || text == "NIL") return;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view one = rest.substr(0, comma);
    rest.remove_prefix(std::min(rest.size(), comma + 1));
    if (one.empty()) continue;
    if (one == "ALL") {
      request->export_all = true;
      continue;
    }
    const size_t equals = one.find('=');
    request->exported.emplace_back(
        one.substr(0, equals),
        equals == std::string_view::npos ? std::nullopt : std::optional(std::string(one.substr(equals + 1))));
  }
}

Status SetNumber(std::string_view name, std::string_view value, uint32_t* number) {
  Result<uint32_t> count = Count(value, name);
  if (!count.ok()) return count.status();
  *number = *count;
  return Status();
}

Status SetMemory(std::string_view value, uint64_t* memory, ElementRequest* request) {
  Result<uint64_t> bytes = Memory(value);
  if (!bytes.ok()) return Status(Code::kInvalid, StrCat("memory: ", bytes.status().message()));
  request->memory = request->memory_per_cpu = 0;
  // All that the node has.
  request->all_memory = *bytes == 0;
  *memory = *bytes;
  return Status();
}

Status SetOption(const GivenOption& given, ElementRequest* r) {
  const std::string& name = given.name;
  const std::string& value = given.value;
  if (name == "array") {
    r->array = value;
    r->array_place = given.place;
    return Status();
  }
  if (name == "cpus-per-task") return SetNumber(name, value, &r->cpus_per_task);
  if (name == "ntasks") return SetNumber(name, value, &r->tasks);
  if (name == "ntasks-per-node") return SetNumber(name, value, &r->tasks_per_node);
  if (name == "nodes") {
    if (value == "1" || value == "1-1") return Status();
    return Status(Code::kInvalid,
                  StrCat("nodes: an element has one node here, not \"", Printable(value, 20),
                         "\"; ask for the cores of one (--ntasks, --cpus-per-task), or leave it out"));
  }
  if (name == "mem") return SetMemory(value, &r->memory, r);
  if (name == "mem-per-cpu") return SetMemory(value, &r->memory_per_cpu, r);
  if (name == "gpus" || name == "gpus-per-node" || name == "gpus-per-task" || name == "gres") {
    Result<uint32_t> gpus = name == "gres" ? GpusOfGres(value, nullptr) : Gpus(value);
    if (!gpus.ok()) return gpus.status();
    if (name == "gpus-per-task") {
      r->gpus_per_task = *gpus;
    } else {
      r->gpus = *gpus;
    }
    return Status();
  }
  if (name == "time") {
    r->time = Duration(0);
    if (value == "UNLIMITED" || value == "INFINITE" || value == "-1" || value == "0") return Status();
    Result<Duration> time = ParseDuration(value);
    if (!time.ok()) return Status(Code::kInvalid, StrCat("time: ", time.status().message()));
    r->time = *time;
    return Status();
  }
  if (name == "open-mode") {
    // sbatch looks at the first letter.
    if (!value.starts_with('a') && !value.starts_with('t')) {
      return Status(Code::kInvalid,
                    StrCat("open-mode cannot be \"", Printable(value, 20), "\"; write append or truncate"));
    }
    r->append = value.starts_with('a');
    return Status();
  }
  if (name == "exclusive") {
    r->whole_node = true;
    return Status();
  }
  if (name == "signal") return SetSignal(value, r);
  if (name == "export") {
    SetExport(value, r);
    return Status();
  }
  static constexpr std::pair<std::string_view, std::string ElementRequest::*> kTexts[] = {
      {"input", &ElementRequest::input}, {"output", &ElementRequest::output},
      {"error", &ElementRequest::error}, {"job-name", &ElementRequest::job_name},
      {"chdir", &ElementRequest::chdir}, {"wrap", &ElementRequest::wrap},
  };
  for (const auto& [key, member] : kTexts) {
    if (key == name) r->*member = value;
  }
  return Status();
}

/// "#PBS -J 1-10", "#PBS -t", "#$ -t": the elements; empty: none.
std::string ForeignArray(std::string_view line) {
  const bool pbs = line.starts_with("#PBS "), grid = line.starts_with("#$ ");
  if (!pbs && !grid) return {};
  std::vector<std::string> words;
  if (!SplitWords(line.substr(pbs ? 5 : 3), &words)) return {};
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "-t" || (pbs && words[i] == "-J")) return words[i + 1];
  }
  return {};
}

}  // namespace

std::span<const BatchOption> BatchOptions() {
  return kOptions;
}

Result<BatchScript> ReadBatchScript(std::string_view path, std::string_view text) {
  BatchScript script;
  for (const std::string_view name : {"SLURM_JOB_ID", "SLURM_JOBID"})
    script.uses_job_id = script.uses_job_id || text.find(name) != std::string_view::npos;
  std::string problems;
  const auto problem = [&](size_t line, std::string_view what) {
    problems += StrCat(problems.empty() ? "" : "\n", path, ":", line, ": ", what);
  };
  if (!text.starts_with("#!")) {
    problem(1, "the first line names no interpreter; write #!/bin/bash, or another one, there");
  } else if (text.substr(0, text.find('\n')).ends_with('\r')) {
    problem(1, "lines end as on Windows, and no interpreter would be found; dos2unix mends that");
  }
  if (text.find('\0') != std::string_view::npos)
    problem(1, "it holds NUL bytes; name a script, not a program");
  if (!problems.empty()) return Status(Code::kInvalid, problems);
  for (size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) continue;
    if (line[begin] != '#') break;
    if (const std::string array = ForeignArray(line); !array.empty() && script.foreign_array.empty()) {
      script.foreign_array = array;
      script.foreign_place = StrCat(path, ":", number);
    }
    constexpr std::string_view kMark = "#SBATCH";
    if (!line.starts_with(kMark) || (line.size() > kMark.size() && !IsBlankOrReturn(line[kMark.size()])))
      continue;
    std::vector<std::string> words;
    if (!SplitWords(line.substr(kMark.size()), &words)) {
      problem(number, "a quote is not closed; close it in the same line");
      continue;
    }
    if (!words.empty() && (words[0] == "hetjob" || words[0] == "packjob")) {
      problem(number,
              "parts of a heterogeneous job are no elements of an array; run each part's script by itself");
      continue;
    }
    const std::string wrong = TakeOptions(words, StrCat(path, ":", number), &script.options);
    if (!wrong.empty()) problem(number, wrong);
  }
  if (!problems.empty()) return Status(Code::kInvalid, problems);
  return script;
}

Status ApplyBatchOptions(std::span<const GivenOption> options, ElementRequest* request,
                         std::vector<std::string>* others) {
  std::string problems;
  const auto tell_in = [](std::vector<std::string>* names, const std::string& name) {
    if (std::find(names->begin(), names->end(), name) == names->end()) names->push_back(name);
  };
  const auto tell = [&](const std::string& name) { tell_in(others, name); };
  for (const GivenOption& given : options) {
    const BatchOption* const option = FindLong(given.name);
    if (option != nullptr && option->of == Of::kSubmission) continue;
    const bool of_user = given.name == "exclusive" && !given.value.empty();
    if (option == nullptr || option->of == Of::kAllocation || of_user) {
      tell(StrCat(given.name.size() == 1 ? "-" : "--", given.name));
      continue;
    }
    if (option->of == Of::kUnmet) {
      tell_in(&request->unmet, StrCat("--", option->name));
      continue;
    }
    if (given.name == "gres") {
      std::vector<std::string> foreign;
      (void)GpusOfGres(given.value, &foreign);
      for (const std::string& name : foreign) tell_in(&request->unmet, name);
    }
    if (const Status set = SetOption(given, request); !set.ok())
      problems += StrCat(problems.empty() ? "" : "\n", given.place, ": ", set.message());
  }
  return problems.empty() ? Status() : Status(Code::kInvalid, problems);
}

}  // namespace harrow::formats
