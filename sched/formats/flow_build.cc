// From templates to tasks, in three rounds, because a task may name files and tasks that stand further down.
//
//   1. outputs of every task are declared
//   2. tasks are added; a pattern in `in` means the declared outputs it matches, its own left out; if there
//   is none, files
//      that exist; nothing at all is an error. A text that is itself a declared output or an existing file is
//      no pattern.
//   3. streams are connected; `after` and `after_any` are linked: a task's name, a template's name as written, which means all its
//   tasks, or a pattern
//
// Patterns are resolved here and never again: the graph holds names only.
#include "formats/flow_build.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "formats/brace_text.h"
#include "formats/command_form.h"
#include "formats/file_set.h"
#include "formats/kind_cache.h"
#include "formats/models.h"
#include "formats/pattern.h"
#include "formats/streams.h"
#include "formats/text_rules.h"

namespace harrow::formats {
namespace {

// More than any real flow has; each costs memory.

/// Texts of one template with their braces parsed; none where one was wrong.
struct ParsedText {
  BraceText text;
  SourcePlace place;
};

std::vector<std::string_view> KeyNames(const std::vector<EachKey>& each) {
  std::vector<std::string_view> names;
  for (const EachKey& key : each) names.push_back(key.name);
  return names;
}

bool IsShellProgram(std::string_view word) {
  word = word.substr(word.rfind('/') + 1);
  return word.ends_with("sh") && word.size() <= 4;
}

/// "sim-{a}-{b}" is "sim": a name without what is filled in.
std::string FamilyName(std::string_view name) {
  constexpr std::string_view kBetween = "-_.:/,=+ ";
  std::string family;
  while (!name.empty()) {
    std::string_view piece = name.substr(0, name.find('{'));
    const size_t close = name.find('}', piece.size());
    name.remove_prefix(close == std::string_view::npos ? name.size() : close + 1);
    const size_t begin = piece.find_first_not_of(kBetween);
    if (begin == std::string_view::npos) continue;
    piece = piece.substr(begin, piece.find_last_not_of(kBetween) + 1 - begin);
    family += StrCat(family.empty() ? "" : "-", piece);
  }
  return family;
}

/// -c, -lc, -ec: the next word is what the shell reads.
bool IsCodeOption(std::string_view word) {
  return word.size() >= 2 && word.starts_with('-') && word.ends_with('c') && !word.starts_with("--");
}

}  // namespace

EachWalk::EachWalk(const std::vector<EachKey>& each) : each_(each), at_(each.size()), values_(each.size()) {
  for (size_t key = 0; key < each.size(); ++key) SetText(key);
}

void EachWalk::SetText(size_t key) {
  const EachKey& k = each_[key];
  const Position& p = at_[key];
  if (k.ranges.empty()) {
    values_[key] = k.values[p.item];
    return;
  }
  const ArraySpec::Range& range = k.ranges[p.item];
  std::string& text = values_[key] = StrCat(range.first + p.step * range.step);
  if (text.size() < range.width) text.insert(0, range.width - text.size(), '0');
}

void EachWalk::Next() {
  for (size_t key = each_.size(); key-- > 0;) {
    const EachKey& k = each_[key];
    Position& p = at_[key];
    bool wrapped = false;
    if (k.ranges.empty() || ++p.step == k.ranges[p.item].count()) {
      p.step = 0;
      if (++p.item == (k.ranges.empty() ? k.values.size() : k.ranges.size())) {
        p.item = 0;
        wrapped = true;
      }
    }
    SetText(key);
    if (!wrapped) return;
  }
}

struct FlowBuilder::Impl {
  Impl(os::FileSystem& file_system, const LoadOptions& load_options, graph::Graph* g, Problems* p)
      : fs(file_system),
        options(load_options),
        graph(g),
        problems(p),
        streams(g, p),
        matcher(file_system, load_options.directory),
        kinds(g),
        shell(load_options.shell) {
    if (options.part_of_run) streams.AllowUnwritten();
  }

  struct After {
    TaskId task;
    std::string name;
    SourcePlace place;
    graph::WaitsFor what;
    std::string_view key() const { return what == graph::WaitsFor::kEnd ? "after_any" : "after"; }
  };
  struct Tasks {
    TaskId first;
    uint64_t count = 0;
  };

  std::optional<ParsedText> Parse(const Placed& placed, BraceText::Use use,
                                  const std::vector<std::string_view>& keys,
                                  std::string_view command_shell = {}) {
    Result<BraceText> parsed = BraceText::Parse(placed.text, use, keys, command_shell);
    if (!parsed) {
      problems->Add(placed.place, parsed.status().message());
      return std::nullopt;
    }
    return ParsedText{std::move(*parsed), placed.place};
  }

  /// A text with these values; where there is none, what is wrong is told once for the text.
  void Fill(const ParsedText& text, std::span<const std::string> values, std::string* out) {
    const Status filled = text.text.Expand(values, out);
    if (!filled.ok() && unfilled.emplace(text.place.source, text.place.line, text.place.column).second)
      problems->Add(text.place, filled.message());
  }

  std::vector<ParsedText> ParseAll(const std::vector<Placed>& all, BraceText::Use use,
                                   const std::vector<std::string_view>& keys) {
    std::vector<ParsedText> parsed;
    for (const Placed& placed : all) {
      if (auto text = Parse(placed, use, keys)) parsed.push_back(std::move(*text));
    }
    return parsed;
  }

  /// A command text, or its words. What follows a shell's -c is a text for that shell, unless all of it is a
  /// value.
  std::vector<ParsedText> ParseCommand(const TaskTemplate& task, const std::vector<std::string_view>& keys) {
    std::vector<ParsedText> parsed;
    std::string_view reader;
    for (size_t i = 0; i < task.command.size(); ++i) {
      const std::string& text = task.command[i].text;
      const bool code = task.is_list && i > 0 && !reader.empty() && IsCodeOption(task.command[i - 1].text) &&
                        !(text.starts_with('{') && text.find('}') + 1 == text.size());
      const std::string& own = task.attributes.profile.shell;
      const auto use = task.is_list && !code ? BraceText::Use::kArgument : BraceText::Use::kShell;
      const std::string_view by = code          ? reader
                                  : own.empty() ? std::string_view(shell)
                                                : std::string_view(own);
      if (auto one = Parse(task.command[i], use, keys, by)) parsed.push_back(std::move(*one));
      if (IsShellProgram(text)) reader = text;
    }
    return parsed;
  }

  /// Several tasks of one template cannot share `what`: each key with several values has to be in the text.
  bool NamesEach(const ParsedText& text, const std::string& written, const std::vector<EachKey>& each,
                 uint64_t count, std::string_view what) {
    for (size_t key = 0; key < each.size(); ++key) {
      if (each[key].count < 2 || text.text.Uses(key)) continue;
      problems->Add(text.place, StrCat(what, " \"", Printable(written), "\" lacks {", each[key].name, "}: ",
                                       count, " tasks would share it; put {", each[key].name, "} into it"));
      return false;
    }
    return true;
  }

  /// An expanded name of a file; false: it is no name.
  bool CheckFileName(std::string_view name, SourcePlace place, std::string_view key) {
    if (!name.empty() && name.size() <= 4096) return true;
    problems->Add(place, name.empty() ? StrCat(key, " names a file with an empty name; leave it out")
                                      : StrCat(key, " names a file of ", name.size(),
                                               " bytes; a path has at most 4096"));
    return false;
  }

  void DeclareOutputs(const FlowFile& file) {
    for (const FlowSetting& setting : file.settings) {
      const bool same = setting.key.size() == 5 && std::equal(setting.key.begin(), setting.key.end(), "shell",
                                                              [](char a, char b) { return (a | 32) == b; });
      if (same) shell = setting.value;
    }
    for (const TaskTemplate& task : file.tasks) {
      if (problems->full()) return;
      if (task.broken) continue;
      const std::vector<std::string_view> keys = KeyNames(task.each);
      const std::vector<ParsedText> outs = ParseAll(task.out, BraceText::Use::kName, keys);
      bool good = outs.size() == task.out.size();
      for (size_t i = 0; i < outs.size() && good; ++i) {
        good &= NamesEach(outs[i], task.out[i].text, task.each, task.count, "out");
        if (IsPattern(task.out[i].text) && task.out[i].text.find('[') == std::string::npos) {
          problems->Add(
              outs[i].place,
              "a pattern cannot stand in out; name each file, or a directory that this task alone makes");
          good = false;
        }
      }
      if (!good) bad.insert(&task);
      if (!good || outs.empty()) continue;
      EachWalk walk(task.each);
      std::string name;
      for (uint64_t n = 0; n < task.count && !problems->full(); ++n, walk.Next()) {
        for (const ParsedText& out : outs) {
          name.clear();
          Fill(out, walk.values(), &name);
          if (CheckFileName(name, out.place, "out")) outputs.push_back(graph->AddFile(name));
        }
      }
    }
  }

  void PrepareMatching() {
    if (prepared) return;
    prepared = true;
    std::vector<std::string_view> made;
    made.reserve(outputs.size());
    for (FileId file : outputs) {
      made.push_back(graph->file_name(file));
      produced.insert(file);
    }
    matcher.SetOutputs(std::move(made));
  }

  struct Matched {
    std::vector<FileId> outputs;
    std::optional<std::vector<FileId>> existing;  // looked up only when needed
  };

  void AddExisting(const std::string& pattern, SourcePlace place, const FileSet& own, Matched* matched,
                   std::vector<FileId>* in) {
    if (!matched->existing) {
      matched->existing.emplace();
      for (const std::string& name : matcher.MatchExisting(pattern)) {
        matched->existing->push_back(graph->AddFile(name));
        places.found.emplace_back(matched->existing->back(), place);
      }
    }
    for (FileId file : *matched->existing) {
      if (!own.contains(file)) in->push_back(file);
    }
  }

  /// Appends what one text of `in` means.
  void ResolveInput(const std::string& name, const ParsedText& text, const FileSet& own,
                    std::vector<FileId>* in) {
    if (!CheckFileName(name, text.place, "in")) return;
    if (IsPattern(name)) {
      const std::optional<FileId> literal = graph->FindFile(name);
      if (!literal || !produced.contains(*literal)) {
        ResolvePattern(name, text, own, in);
        return;
      }
    }
    const FileId file = graph->AddFile(name);
    if (own.contains(file)) {
      problems->Add(
          text.place,
          StrCat("\"", Printable(name),
                 "\" is in the task's out as well; a second attempt would begin without it, so let the task "
                 "make another file"));
    }
    in->push_back(file);
    if (options.inputs_must_exist && !produced.contains(file)) needed.try_emplace(file, text.place);
  }

  void ResolvePattern(const std::string& pattern, const ParsedText& text, const FileSet& own,
                      std::vector<FileId>* in) {
    if (pattern.find("**") != std::string::npos) {
      problems->Add(text.place,
                    StrCat("\"", Printable(pattern),
                           "\" holds **, which is no pattern here; * matches within one directory"));
      return;
    }
    Matched passing;
    Matched* matched = &passing;
    if (text.text.constant()) {  // the same for all tasks of the template: looked up once
      const auto [at, added] = patterns.try_emplace(pattern);
      matched = &at->second;
      if (added) MatchOutputs(pattern, matched);
    } else {
      MatchOutputs(pattern, matched);
    }
    const size_t before = in->size();
    for (FileId file : matched->outputs) {
      if (!own.contains(file)) in->push_back(file);
    }
    if (in->size() == before) AddExisting(pattern, text.place, own, matched, in);
    if (in->size() == before && matcher.Exists(pattern)) in->push_back(graph->AddFile(pattern));
    // After another problem the output that it means may just not be known.
    if (in->size() == before && problems->empty()) {
      problems->Add(text.place, StrCat("\"", Printable(pattern),
                                       "\" matches no declared output and no existing file; correct it, or "
                                       "declare it in some task's out"));
    }
    links += in->size() - before;
    if (links > kMostLinks) {
      problems->AddLast(text.place, StrCat("patterns mean more than ", kMostLinks,
                                           " inputs; let one task gather the files for the others"));
    }
  }

  void MatchOutputs(std::string_view pattern, Matched* matched) {
    for (std::string_view name : matcher.MatchOutputs(pattern)) {
      if (const std::optional<FileId> file = graph->FindFile(name)) matched->outputs.push_back(*file);
    }
  }

  struct ProfileTexts {
    std::vector<std::pair<std::string graph::Profile::*, ParsedText>> texts;
    std::vector<std::pair<size_t, ParsedText>> env;
    std::optional<ParsedText> restart;
    bool constant = true;
  };

  ProfileTexts ParseProfile(const TaskTemplate& task, const std::vector<std::string_view>& keys) {
    ProfileTexts parsed;
    const graph::Profile& profile = task.attributes.profile;
    static constexpr std::pair<std::string_view, std::string graph::Profile::*> kTexts[] = {
        {"cwd", &graph::Profile::cwd},
        {"stdin", &graph::Profile::stdin_path},
        {"stdout", &graph::Profile::stdout_path},
        {"stderr", &graph::Profile::stderr_path}};
    for (const auto& [key, member] : kTexts) {
      const auto at = task.places.find(key);
      if (at == task.places.end()) continue;
      if (auto text = Parse({profile.*member, at->second}, BraceText::Use::kName, keys)) {
        parsed.constant &= text->text.constant();
        parsed.texts.emplace_back(member, std::move(*text));
      }
    }
    for (size_t i = 0; i < profile.env.size(); ++i) {
      // A value may well hold braces of its own (JSON, formats): only known keys are filled in.
      if (auto text = Parse({profile.env[i].second, task.place}, BraceText::Use::kTask, keys)) {
        parsed.constant &= text->text.constant();
        parsed.env.emplace_back(i, std::move(*text));
      }
    }
    if (const auto at = task.places.find("restart_command"); at != task.places.end()) {
      parsed.restart = Parse({profile.restart_command, at->second}, BraceText::Use::kShell, keys);
      parsed.constant &= !parsed.restart || parsed.restart->text.constant();
    }
    return parsed;
  }

  ProfileId AddProfile(const TaskTemplate& task, const ProfileTexts& parsed,
                       std::span<const std::string> values) {
    graph::Profile profile = task.attributes.Resolved();
    for (const auto& [member, text] : parsed.texts) {
      (profile.*member).clear();
      Fill(text, values, &(profile.*member));
    }
    for (const auto& [index, text] : parsed.env) {
      profile.env[index].second.clear();
      Fill(text, values, &profile.env[index].second);
    }
    if (parsed.restart) {
      profile.restart_command.clear();
      const Status filled = parsed.restart->text.ExpandCommand(values, &profile.restart_command);
      if (!filled.ok() && problems->empty()) problems->Add(parsed.restart->place, filled.message());
      FindRestartForm(&profile);
    }
    return graph->AddProfile(profile);
  }

  /// Fills a command in; its form follows from what it then is. `*told`: a value was refused already.
  graph::CommandForm Command(const TaskTemplate& task, const std::vector<ParsedText>& command,
                             std::span<const std::string> values, std::string* text, std::string* argv,
                             bool* told) {
    text->clear();
    for (size_t i = 0; i < command.size(); ++i) {
      if (i > 0) text->push_back('\0');
      const Status filled = command[i].text.ExpandCommand(values, text);
      if (filled.ok() || *told) continue;
      *told = true;
      problems->Add(command[i].place, filled.message());
    }
    if (task.is_list) {
      if (text->starts_with('\0') || text->empty()) {
        if (!std::exchange(*told, true))
          problems->Add(command[0].place,
                        "the program's name is empty for one of these tasks; name a program");
      }
      return graph::CommandForm::kArgv;
    }
    if (!task.attributes.profile.shell.empty()) return graph::CommandForm::kShell;
    const graph::CommandForm form = Classify(*text, argv);
    if (form == graph::CommandForm::kArgv) text->swap(*argv);
    return form;
  }

  void AddPlaces(const TaskTemplate& task, TaskId first) {
    OutputPlaces::Family family{
        .first = first, .count = task.count, .out = {}, .stdout_place = {}, .stderr_place = {}};
    for (const Placed& out : task.out) family.out.push_back(out.place);
    if (const auto at = task.places.find("stdout"); at != task.places.end()) family.stdout_place = at->second;
    if (const auto at = task.places.find("stderr"); at != task.places.end()) family.stderr_place = at->second;
    places.families.push_back(std::move(family));
  }

  bool CheckKeys(const TaskTemplate& task) {
    for (const auto& [key, place] : task.places) {
      const Status status = Contradiction(key, task.attributes);
      if (status.ok()) continue;
      problems->Add(place, status.message());
      return false;
    }
    return true;
  }

  void AddTemplate(const TaskTemplate& task) {
    const std::vector<std::string_view> keys = KeyNames(task.each);
    const std::optional<ParsedText> name = Parse(task.name, BraceText::Use::kName, keys);
    const std::vector<ParsedText> command = ParseCommand(task, keys);
    const std::vector<ParsedText> ins = ParseAll(task.in, BraceText::Use::kName, keys);
    const std::vector<ParsedText> outs = ParseAll(task.out, BraceText::Use::kName, keys);
    const std::pair<graph::WaitsFor, std::vector<ParsedText>> afters[] = {
        {graph::WaitsFor::kSuccess, ParseAll(task.after, BraceText::Use::kTask, keys)},
        {graph::WaitsFor::kEnd, ParseAll(task.after_any, BraceText::Use::kTask, keys)}};
    const std::vector<ParsedText> froms = ParseAll(task.from, BraceText::Use::kName, keys);
    const std::vector<ParsedText> tos = ParseAll(task.to, BraceText::Use::kName, keys);
    const std::vector<ParsedText> opens = ParseAll(task.open, BraceText::Use::kName, keys);
    const ProfileTexts profile_texts = ParseProfile(task, keys);
    if (!problems->empty() &&
        (!name || command.size() != task.command.size() || ins.size() != task.in.size()))
      return;
    if (!NamesEach(*name, task.name.text, task.each, task.count, "name")) return;
    if (!CheckKeys(task)) return;
    Model model;
    if (!task.model.text.empty() && !ReadModel(task, options.directory, fs, graph, problems, &model)) return;
    if (graph->task_count() + task.count > options.max_tasks) {
      problems->AddLast(task.place, StrCat("with this task's ", task.count, " there are ",
                                           graph->task_count() + task.count, " tasks; at most ",
                                           options.max_tasks, " are taken: split them into several runs"));
      return;
    }
    const TaskId first(static_cast<uint32_t>(graph->task_count()));
    templates.try_emplace(task.name.text, Tasks{first, task.count});
    AddPlaces(task, first);
    if (!model.text.empty()) graph->SetModel(first, static_cast<uint32_t>(task.count), model.text);
    std::string family = task.attributes.kind;
    if (family.empty() && !task.each.empty()) family = FamilyName(task.name.text);
    const KindId kind = family.empty() ? KindId() : graph->AddKind(family);
    ProfileId profile;
    EachWalk walk(task.each);
    std::string name_text, text, argv, file;
    bool told = false, model_told = model.needs.empty();
    std::vector<FileId> in, out;
    for (uint64_t n = 0; n < task.count && !problems->full(); ++n, walk.Next()) {
      const std::vector<std::string>& values = walk.values();
      if (n == 0 || !profile_texts.constant) profile = AddProfile(task, profile_texts, values);
      name_text.clear();
      Fill(*name, values, &name_text);
      in.clear();
      out.clear();
      for (const ParsedText& o : outs) {
        file.clear();
        Fill(o, values, &file);
        out.push_back(graph->AddFile(file));
      }
      const FileSet own(out);
      for (const ParsedText& i : ins) {
        file.clear();
        Fill(i, values, &file);
        ResolveInput(file, i, own, &in);
      }
      RemoveRepeated(&in);
      RemoveRepeated(&out);
      graph::TaskSpec spec;
      spec.name = name_text;
      spec.form = Command(task, command, values, &text, &argv, &told);
      spec.command = text;
      spec.profile = profile;
      spec.kind = kind ? kind : kinds.Of(KindName(text, spec.form));
      spec.in = in;
      spec.out = out;
      spec.place = task.name.place;
      spec.recorded_run_time = task.attributes.run_time;
      spec.bound = task.attributes.bound;
      if (Status size = CheckCommandSize(text, spec.form); !size.ok())
        problems->Add(command[0].place, size.message());
      if (name_text.size() > 1024)
        problems->Add(task.name.place,
                      StrCat("name has ", name_text.size(), " bytes; at most 1024 are taken"));
      const TaskId id = graph->AddTask(spec);
      model_told = model_told || !CheckModelArguments(model, id, *graph, problems);
      for (const auto* ends : {&tos, &froms}) {
        for (const ParsedText& end : *ends) {
          std::string stream;
          Fill(end, values, &stream);
          if (ends == &tos) {
            streams.AddWriter(id, std::move(stream), end.place, task.records);
          } else {
            streams.AddReader(id, std::move(stream), end.place, task.split);
          }
        }
      }
      for (const ParsedText& open : opens) {
        std::string stream;
        Fill(open, values, &stream);
        streams.AddHolder(id, std::move(stream), open.place);
      }
      for (const auto& [what, texts] : afters) {
        for (const ParsedText& a : texts) {
          After after{id, {}, a.place, what};
          Fill(a, values, &after.name);
          waits.push_back(std::move(after));
        }
      }
    }
  }

  void AddFiles(const FlowFile& flow) {
    for (const FileTemplate& file : flow.files) {
      const std::optional<ParsedText> name = Parse(file.name, BraceText::Use::kName, KeyNames(file.each));
      if (!name) continue;
      EachWalk walk(file.each);
      std::string text;
      for (uint64_t n = 0; n < file.count && !problems->full(); ++n, walk.Next()) {
        text.clear();
        Fill(*name, walk.values(), &text);
        if (CheckFileName(text, file.name.place, "file")) graph->SetFileSize(graph->AddFile(text), file.size);
      }
    }
  }

  void AddStreams(const FlowFile& flow) {
    for (const StreamTemplate& stream : flow.streams) {
      const std::optional<ParsedText> name = Parse(stream.name, BraceText::Use::kName, KeyNames(stream.each));
      if (!name || !stream.open) continue;
      EachWalk walk(stream.each);
      for (uint64_t n = 0; n < stream.count && !problems->full(); ++n, walk.Next()) {
        std::string text;
        Fill(*name, walk.values(), &text);
        streams.AddOpen(std::move(text), stream.name.place);
      }
    }
  }

  /// The tasks that a pattern of `after` means, by their names; none: it is no pattern, but a name.
  const std::vector<TaskId>& Matching(const std::string& pattern) {
    static const std::vector<TaskId> kNone;
    if (!IsPattern(pattern) || FindNamed(pattern)) return kNone;
    const auto [at, added] = matching.try_emplace(pattern);
    if (!added) return at->second;
    if (!name_index) {
      std::vector<std::string_view> given;
      given.reserve(names.size());
      for (const auto& [name, task] : names) given.push_back(name);
      name_index.emplace(std::move(given));
    }
    for (const std::string_view name : name_index->Candidates(pattern)) {
      if (!name.empty() && MatchesPattern(pattern, name)) at->second.push_back(names.at(name));
    }
    std::sort(at->second.begin(), at->second.end());
    return at->second;
  }

  void Link() {
    streams.Link();
    if (!LinksAreFew()) return;
    for (const After& after : waits) {
      if (problems->full()) return;
      const std::vector<TaskId>& matched = Matching(after.name);
      for (TaskId task : matched) {
        if (task != after.task) graph->AddDependency(task, after.task, after.what);
      }
      if (!matched.empty()) continue;
      if (const auto named = templates.find(after.name); named != templates.end()) {
        for (uint64_t n = 0; n < named->second.count; ++n) {
          graph->AddDependency(TaskId(named->second.first.value + static_cast<uint32_t>(n)), after.task,
                               after.what);
        }
      } else if (const std::optional<TaskId> task = FindNamed(after.name)) {
        graph->AddDependency(*task, after.task, after.what);
      } else {
        std::vector<std::string_view> known;
        for (const auto& [name, tasks] : templates) known.push_back(name);
        std::sort(known.begin(), known.end());
        problems->Add(after.place, StrCat(after.key(), " names no task: \"", Printable(after.name), "\"",
                                          SuggestOneOf(after.name, known)));
      }
    }
    CheckNeeded();
  }

  bool LinksAreFew() {
    for (const After& after : waits) {
      const auto named = templates.find(after.name);
      links += named != templates.end() ? named->second.count : Matching(after.name).size();
      if (links <= kMostLinks) continue;
      problems->AddLast(after.place, StrCat(after.key(), " means more than ", kMostLinks,
                                            " pairs of tasks; put one task between the two families"));
      return false;
    }
    return true;
  }

  /// By its full name. Graph::FindTask is for a sealed graph, and takes numbers as well.
  std::optional<TaskId> FindNamed(const std::string& name) {
    if (names.empty()) {
      for (uint32_t n = 0; n < graph->task_count(); ++n)
        names.try_emplace(graph->given_name(TaskId(n)), TaskId(n));
    }
    const auto at = names.find(name);
    return at == names.end() || name.empty() ? std::nullopt : std::optional(at->second);
  }

  /// Files that nobody makes and that are not there: one problem for each text of `in`.
  void CheckNeeded() {
    struct Missing {
      FileId first;
      uint64_t more = 0;
    };
    std::vector<std::pair<FileId, SourcePlace>> files(needed.begin(), needed.end());
    std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Missing> missing;
    for (const auto& [file, place] : files) {
      const std::string_view name = graph->file_name(file);
      if (InsideOutput(name) || matcher.Exists(name)) continue;
      const auto [at, added] = missing.try_emplace({place.source, place.line, place.column}, Missing{file});
      if (!added) ++at->second.more;
    }
    if (missing.empty()) return;
    std::vector<std::string_view> made;
    for (size_t i = 0; i < outputs.size() && i < 1000; ++i) made.push_back(graph->file_name(outputs[i]));
    for (const auto& [place, files_there] : missing) {
      if (problems->full()) return;
      const std::string_view name = graph->file_name(files_there.first);
      const auto near = files_there.more == 0 ? Suggest(name, made) : std::nullopt;
      problems->Add(
          {std::get<0>(place), std::get<1>(place), std::get<2>(place)},
          StrCat("no task makes \"", Printable(name, 200), "\", and there is no such file",
                 files_there.more > 0 ? StrCat(" (nor ", files_there.more, " more of this kind)") : "",
                 near ? StrCat("; did you mean \"", Printable(*near), "\"?")
                      : "; create it, or declare it in the out of the task that makes it"));
    }
  }

  /// Below a directory that some task declares as its output?
  bool InsideOutput(std::string_view name) const {
    for (size_t slash = name.rfind('/'); slash != std::string_view::npos && slash > 0;
         slash = name.rfind('/', slash - 1)) {
      const std::optional<FileId> directory = graph->FindFile(name.substr(0, slash));
      if (directory && produced.contains(*directory)) return true;
    }
    return false;
  }

  os::FileSystem& fs;
  const LoadOptions& options;
  graph::Graph* graph;
  Problems* problems;
  StreamEnds streams;
  FileMatcher matcher;
  KindCache kinds;
  std::string shell;  // of tasks that name none; empty: /bin/sh
  std::vector<FileId> outputs;
  std::unordered_set<FileId> produced;
  std::unordered_set<const TaskTemplate*> bad;  // a problem with its outputs has been told
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> unfilled;  // texts of which that has been told
  bool prepared = false;
  std::unordered_map<std::string, Matched> patterns;
  std::unordered_map<std::string, Tasks> templates;
  std::unordered_map<std::string_view, TaskId> names;  // filled when first needed
  std::unordered_map<FileId, SourcePlace> needed;      // has to exist; the place that names it first
  std::unordered_map<std::string, std::vector<TaskId>> matching;  // of patterns in after
  std::optional<PatternIndex> name_index;                         // for these
  std::vector<After> waits;
  OutputPlaces places;
  uint64_t links = 0;
};

FlowBuilder::FlowBuilder(os::FileSystem& fs, const LoadOptions& options, graph::Graph* graph,
                         Problems* problems)
    : impl_(std::make_unique<Impl>(fs, options, graph, problems)) {}
FlowBuilder::~FlowBuilder() = default;

void FlowBuilder::DeclareOutputs(const FlowFile& file) {
  impl_->DeclareOutputs(file);
}

void FlowBuilder::AddTasks(const FlowFile& file) {
  impl_->PrepareMatching();
  for (const TaskTemplate& task : file.tasks) {
    if (impl_->problems->full()) return;
    if (!task.broken && !impl_->bad.contains(&task)) impl_->AddTemplate(task);
  }
  impl_->AddFiles(file);
  impl_->AddStreams(file);
}

StreamEnds& FlowBuilder::streams() {
  return impl_->streams;
}

const OutputPlaces& FlowBuilder::places() const {
  return impl_->places;
}

void FlowBuilder::Link() {
  if (impl_->problems->empty()) impl_->Link();
}

}  // namespace harrow::formats
