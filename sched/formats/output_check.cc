// Names of files are compared as text, after normalisation. Two names of one file are found where the disk
// tells them now: every directory that holds outputs is resolved once. Nearly always it is where its name
// says; what lies in the others ("strays": through a link, "..", absolute) is looked up by its resolved name
// as well. Directories are remembered by name, so that each costs one look, and each file a hash.
//
// Files that are links are looked at only where that decides what is lost: a task's file of stdout or stderr
// is emptied when it begins, if it is an output of that task (agent/task_runner.cc), and else added to. So
// where a flow names such files, they and all outputs are told apart by device and inode.
#include "formats/output_check.h"

#include <algorithm>
#include <fnmatch.h>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/text.h"
#include "os/file_identity.h"

namespace harrow::formats {
namespace {

std::string_view ParentOf(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return {};
  return slash == 0 ? name.substr(0, 1) : name.substr(0, slash);
}

std::string_view LastOf(std::string_view name) {
  return name.substr(name.rfind('/') + 1);  // npos + 1 is 0
}

std::string Join(std::string_view directory, std::string_view name) {
  if (name.starts_with('/') || directory.empty()) return std::string(name);
  return directory == "/" ? StrCat("/", name) : StrCat(directory, "/", name);
}

class OutputChecker {
 public:
  OutputChecker(os::FileSystem& fs, const graph::Graph& graph, const std::string& submit_dir, bool look,
                const OutputPlaces* places, Problems* problems)
      : fs_(fs), graph_(graph), look_(look), places_(places), problems_(problems) {
    const Result<std::string> resolved = fs.Resolve(submit_dir.empty() ? "." : submit_dir);
    submit_ = resolved.ok() ? *resolved : submit_dir;
  }

  void Run(const std::vector<Input>& inputs, const std::string& directory) {
    FindStrays();
    for (uint32_t n = 0; n < graph_.task_count() && !problems_->full(); ++n) {
      const TaskId task(n);
      const auto outputs = graph_.outputs(task);
      for (size_t i = 0; i < outputs.size(); ++i) CheckOutput(task, i, outputs[i]);
      if (!outputs.empty()) CheckOwn(task);
      CheckStreams(task);
    }
    for (const Input& input : inputs) {
      if (input.path != "-" && !input.text) CheckSource(Join(directory, input.path), input.path);
    }
    for (const auto& [file, place] : places_->found) CheckFound(file, place);
    if (look_) CheckLinks();
  }

  /// The output that is or holds the directory or file `path`, which is absolute.
  std::optional<FileId> Holding(const std::string& path) {
    const auto above = Above(Shorten(RealPath(path)));
    return above ? above : Above(Shorten(path));
  }

  void FindStrays() {
    for (uint32_t n = 0; n < graph_.file_count(); ++n) {
      const FileId file(n);
      if (!IsOutput(file)) continue;
      const std::string_view name = graph_.file_name(file);
      const std::string& directory = DirectoryOf(name).real;
      if (directory.empty() && !name.starts_with("..") && !name.starts_with('/')) continue;
      strays_.try_emplace(RealName(file), file);
    }
  }

 private:
  struct Directory {
    std::string real;      // empty: where its name says, below the submit directory
    bool missing = false;  // not there yet
  };

  bool IsOutput(FileId file) const { return graph_.producer(file) && !graph_.below_output(file); }

  std::string Shorten(const std::string& path) const {
    if (path == submit_) return ".";
    return path.size() > submit_.size() && IsOrHolds(submit_, path) && submit_ != "/"
               ? path.substr(submit_.size() + 1)
               : path;
  }

  /// Of the directory that a file of that name is in.
  const Directory& DirectoryOf(std::string_view name) {
    const std::string_view parent = ParentOf(name);
    const auto [at, added] = directories_.try_emplace(parent);
    if (!added || parent.empty()) return at->second;
    const bool leads_out = parent.starts_with('/') || parent.starts_with("..");
    if (!look_) {
      if (leads_out) at->second.real = Lexical(parent);
      return at->second;
    }
    // A missing directory has nothing below it that could lead elsewhere.
    const std::string_view above_name = ParentOf(parent);
    Directory made, above;
    if (above_name != parent) above = DirectoryOf(parent);
    const std::string plain = Join(submit_, parent);
    // Most are not there yet, and to learn that is one call of the system instead of one for each part.
    const bool there = !above.missing && fs_.Stat(plain).ok();
    const Result<std::string> resolved = there ? fs_.Resolve(plain) : Status(Code::kNotFound, "");
    made.missing = !resolved.ok();
    const std::string real = resolved.ok()         ? *resolved
                             : !above.real.empty() ? Join(above.real, LastOf(parent))
                                                   : plain;
    if (real != plain || leads_out) made.real = real;
    return directories_.find(parent)->second = made;
  }

  /// Resolved as far as there is something.
  std::string RealPath(const std::string& path) {
    const Result<std::string> resolved = fs_.Resolve(path);
    if (resolved.ok()) return *resolved;
    const std::string parent(ParentOf(path));
    return parent.empty() || parent == path ? path : Join(RealPath(parent), LastOf(path));
  }

  /// Absolute, without "..", as text says.
  std::string Lexical(std::string_view name) const {
    std::string buffer;
    return std::string(graph::NormalFileName(Join(submit_, name), &buffer));
  }

  std::string RealName(FileId file) {
    const std::string_view name = graph_.file_name(file);
    if (name == "." || name == "/" || LastOf(name) == "..") return Lexical(name);
    const Directory& directory = DirectoryOf(name);
    return Join(directory.real.empty() ? Join(submit_, ParentOf(name)) : directory.real, LastOf(name));
  }

  /// The output of that name, or else the nearest one above it.
  std::optional<FileId> Above(std::string_view name) const {
    for (;; name = ParentOf(name)) {
      if (const auto file = Output(name)) return file;
      if (name.empty() || name == "/" || name == "." || ParentOf(name) == name) return std::nullopt;
    }
  }
  std::optional<FileId> Output(std::string_view name) const {
    const std::optional<FileId> file = name.empty() ? std::nullopt : graph_.FindFile(name);
    if (file && IsOutput(*file)) return file;
    if (strays_.empty()) return std::nullopt;
    const auto stray = strays_.find(name.starts_with('/') ? std::string(name) : Join(submit_, name));
    return stray == strays_.end() ? std::nullopt : std::optional(stray->second);
  }

  SourcePlace PlaceOf(TaskId task, size_t output) const {
    const OutputPlaces::Family* family = FamilyOf(task);
    const bool known = family != nullptr && family->out.size() == graph_.outputs(task).size();
    return known ? family->out[output] : graph_.place(task);
  }
  SourcePlace PlaceOf(FileId file) const {
    const auto outputs = graph_.outputs(graph_.producer(file));
    const auto at = std::find(outputs.begin(), outputs.end(), file);
    return PlaceOf(graph_.producer(file), static_cast<size_t>(at - outputs.begin()));
  }
  const OutputPlaces::Family* FamilyOf(TaskId task) const {
    if (places_ == nullptr) return nullptr;
    const auto& families = places_->families;
    auto at = std::upper_bound(families.begin(), families.end(), task,
                               [](TaskId t, const auto& family) { return t < family.first; });
    if (at == families.begin()) return nullptr;
    --at;
    return task.value - at->first.value < at->count ? &*at : nullptr;
  }

  std::string Quoted(FileId file) const { return StrCat("\"", Printable(graph_.file_name(file), 200), "\""); }
  std::string Named(TaskId task) const {
    return StrCat("task '", Printable(graph_.TaskName(task)), "' (", graph_.PlaceText(graph_.place(task)),
                  ")");
  }

  /// Once for each output that holds others.
  void Tell(FileId holder, SourcePlace place, const std::string& text) {
    if (told_.insert(holder.value).second) problems_->Add(place, text);
  }

  void CheckOutput(TaskId task, size_t number, FileId file) {
    const std::string_view name = graph_.file_name(file);
    const bool stray = !strays_.empty() &&
                       (name.starts_with('/') || name.starts_with("..") || !DirectoryOf(name).real.empty());
    const std::string real = stray ? RealName(file) : std::string();
    if (name == "." || (stray && IsOrHolds(real, submit_))) {
      Tell(file, PlaceOf(task, number),
           StrCat("out ", Quoted(file),
                  " is or holds the directory that the flow runs in; name the files that "
                  "the task makes, or a directory that it alone makes"));
      return;
    }
    if (stray) {  // two names of one file, or one inside the other
      const std::string here = Shorten(real);
      const auto first = strays_.find(real);
      std::optional<FileId> other = graph_.FindFile(here);
      if (!other || *other == file || !IsOutput(*other))
        other = first != strays_.end() && first->second != file ? std::optional(first->second) : std::nullopt;
      if (other && graph_.producer(*other) != task) {
        Tell(file, PlaceOf(task, number),
             StrCat("out ", Quoted(file), " is the file ", Quoted(*other), " of ",
                    Named(graph_.producer(*other)), " under another name; one task should make a file"));
        return;
      }
      CheckInside(task, number, file, Above(ParentOf(here)));
    }
    CheckInside(task, number, file, AboveDirectory(ParentOf(name)));
  }

  /// As Above, remembered.
  std::optional<FileId> AboveDirectory(std::string_view directory) {
    if (directory.empty() || directory == "/") return Output(directory);
    const auto [at, added] = above_.try_emplace(directory);
    if (!added) return at->second;
    std::optional<FileId> above = Output(directory);
    if (!above) above = AboveDirectory(ParentOf(directory));
    return above_.find(directory)->second = above;
  }

  void CheckInside(TaskId task, size_t number, FileId file, std::optional<FileId> above) {
    if (!above || *above == file || graph_.producer(*above) == task) return;
    Tell(*above, PlaceOf(*above),
         StrCat("out ", Quoted(*above), " holds ", Quoted(file), ", the output of task '",
                Printable(graph_.TaskName(task)), "' (", graph_.PlaceText(PlaceOf(task, number)),
                "); let the task name its own files, or a directory that it alone makes"));
  }

  /// What the task itself needs.
  void CheckOwn(TaskId task) {
    const graph::Profile& profile = graph_.profile(task);
    if (!profile.cwd.empty()) {
      const std::optional<FileId> above = Above(NormalOf(profile.cwd));
      if (above && graph_.producer(*above) == task) {
        Tell(*above, PlaceOf(*above),
             StrCat("out ", Quoted(*above),
                    " is or holds the task's working directory (cwd); name the files that "
                    "the task makes"));
      }
    }
    for (const FileId input : graph_.inputs(task)) {
      if (graph_.producer(input) != task || IsOutput(input)) continue;
      const std::optional<FileId> above = Above(graph_.file_name(input));
      if (above) TellInput(*above, graph_.file_name(input));
    }
    if (!profile.stdin_path.empty()) {
      const std::string path = StreamName(profile, profile.stdin_path);
      const std::optional<FileId> above = Above(path);
      if (above && graph_.producer(*above) == task) TellInput(*above, path);
    }
  }

  void TellInput(FileId output, std::string_view input) {
    Tell(output, PlaceOf(output),
         StrCat("out ", Quoted(output), " is or holds \"", Printable(input, 200),
                "\", which the task reads; let it make its files somewhere else"));
  }

  void CheckSource(const std::string& path, const std::string& shown) {
    const std::optional<FileId> above = Holding(Lexical(path));
    if (!above) return;
    Tell(*above, PlaceOf(*above),
         StrCat("out ", Quoted(*above), " is or holds ", Printable(shown, 200),
                ", which tells the flow; name the files that the task makes, or a directory that it alone "
                "makes"));
  }

  void CheckFound(FileId file, SourcePlace place) {
    if (!graph_.producer(file) || IsOutput(file)) return;
    const std::optional<FileId> above = Above(graph_.file_name(file));
    if (!above) return;
    Tell(*above, PlaceOf(*above),
         StrCat("out ", Quoted(*above), " holds ", Quoted(file), ", which is there already and is read (",
                graph_.PlaceText(place), "); let the task make its files in another directory"));
  }

  std::string NormalOf(const std::string& name) const {
    std::string buffer;
    return Shorten(std::string(graph::NormalFileName(name, &buffer)));
  }

  std::string StreamName(const graph::Profile& profile, const std::string& path) const {
    return NormalOf(path.starts_with('/') || profile.cwd.empty() ? path : StrCat(profile.cwd, "/", path));
  }

  /// Whether the pattern names a file of each task's own (agent/steps/file_pattern.h).
  static bool VariesByTask(std::string_view pattern) {
    if (pattern.find('\\') != std::string_view::npos) return false;
    for (size_t at = 0; (at = pattern.find('%', at)) != std::string_view::npos;) {
      at = pattern.find_first_not_of("0123456789", at + 1);
      if (at == std::string_view::npos) return false;
      if (pattern[at] == 'a' || pattern[at] == 'J') return true;
      ++at;
    }
    return false;
  }

  void CheckStreams(TaskId task) {
    const graph::Profile& profile = graph_.profile(task);
    if (profile.stdout_path.empty() && profile.stderr_path.empty()) return;
    const OutputPlaces::Family* family = FamilyOf(task);
    const auto place_of = [&](SourcePlace OutputPlaces::Family::*place) {
      return family != nullptr && (family->*place).line > 0 ? family->*place : graph_.place(task);
    };
    CheckStream(task, profile, profile.stdout_path, "stdout", place_of(&OutputPlaces::Family::stdout_place));
    CheckStream(task, profile, profile.stderr_path, "stderr", place_of(&OutputPlaces::Family::stderr_place));
  }

  void CheckStream(TaskId task, const graph::Profile& profile, const std::string& pattern, const char* what,
                   SourcePlace place) {
    if (pattern.empty() || VariesByTask(pattern)) return;
    const std::string name = StreamName(profile, pattern);
    if (name.starts_with("/dev/")) return;
    const auto tell = [&](const std::string& text) {
      if (told_streams_.insert(name).second) {
        problems_->Add(place, StrCat(what, " \"", Printable(pattern, 200), "\" ", text));
      }
    };
    const size_t hash = std::hash<std::string>()(name);
    const auto known = stream_index_.Find(hash, [&](uint32_t n) { return streams_[n].first == name; });
    if (!known) {
      stream_index_.Insert(hash, static_cast<uint32_t>(streams_.size()));
      streams_.emplace_back(name, task);
    } else if (const TaskId first = streams_[*known].second; first != task) {
      tell(StrCat(
          "is written by ", Named(first),
          " as well; put a key of each or %a into it, or leave it out: harrow logs shows what every task "
          "wrote"));
      return;
    }
    if (const auto above = Above(name); above && graph_.producer(*above) != task) {
      tell(StrCat("is or lies in ", Quoted(*above), ", the output of ", Named(graph_.producer(*above)),
                  "; name another file"));
      return;
    }
    const std::optional<FileId> input = graph_.FindFile(name);
    if (input && !graph_.producer(*input)) tell("is an input of the flow; name another file");
  }

  /// A name of a file that a task writes.
  struct Written {
    TaskId task;
    std::string name;
    SourcePlace place;
    bool stream = false;
    std::optional<FileId> output;
  };

  /// Can the pattern of a stream mean that file? Each %x stands for anything.
  static bool CanBe(std::string_view pattern, const std::string& name) {
    std::string glob;
    for (size_t at = 0; at < pattern.size(); ++at) {
      const size_t letter =
          pattern[at] == '%' ? pattern.find_first_not_of("0123456789", at + 1) : std::string::npos;
      if (letter != std::string::npos) {
        glob += '*';
        at = letter;
      } else {
        if (std::string_view("*?[\\").find(pattern[at]) != std::string_view::npos) glob += '\\';
        glob += pattern[at];
      }
    }
    return fnmatch(glob.c_str(), name.c_str(), FNM_PATHNAME) == 0;
  }

  std::vector<Written> AllWritten() const {
    std::vector<Written> all;
    bool streams = false;
    for (uint32_t n = 0; n < graph_.task_count(); ++n) {
      const TaskId task(n);
      const graph::Profile& profile = graph_.profile(task);
      const OutputPlaces::Family* family = FamilyOf(task);
      const auto outputs = graph_.outputs(task);
      std::vector<std::string> patterns;
      for (const auto& [pattern, place] :
           {std::pair(&profile.stdout_path, &OutputPlaces::Family::stdout_place),
            std::pair(&profile.stderr_path, &OutputPlaces::Family::stderr_place)}) {
        if (pattern->empty()) continue;
        streams = true;
        patterns.push_back(StreamName(profile, *pattern));
        const std::string& name = patterns.back();
        if (name.starts_with("/dev/") || name.find('%') != std::string::npos) continue;
        if (std::any_of(outputs.begin(), outputs.end(),
                        [&](FileId file) { return graph_.file_name(file) == name; }))
          continue;
        const bool placed = family != nullptr && (family->*place).line > 0;
        all.push_back({task, name, placed ? family->*place : graph_.place(task), true, std::nullopt});
      }
      for (size_t i = 0; i < outputs.size(); ++i) {
        const std::string name(graph_.file_name(outputs[i]));
        const bool stream =
            std::any_of(patterns.begin(), patterns.end(), [&](const auto& p) { return CanBe(p, name); });
        all.push_back({task, name, PlaceOf(task, i), stream, outputs[i]});
      }
    }
    if (!streams) all.clear();
    return all;
  }

  /// Different names of one file, of which one is emptied or added to under the eyes of another task.
  void CheckLinks() {
    std::vector<Written> all = AllWritten();
    std::vector<const Written*> missing;
    std::unordered_map<std::string, std::vector<const Written*>> by_identity;
    bool leads_to_nothing = false;
    const auto look = [&](const Written& written, bool also_missing) {
      const Result<std::string> identity = os::FileIdentity(Join(submit_, written.name), also_missing);
      if (!identity.ok()) {
        if (identity.status().code() == Code::kNotFound) missing.push_back(&written);
        return;
      }
      leads_to_nothing = leads_to_nothing || identity->find('/') != std::string::npos;
      std::vector<const Written*>& same = by_identity[*identity];
      for (const Written* other : same) {
        if (Harms(*other, written)) return TellLink(*other, written);
      }
      same.push_back(&written);
    };
    for (const Written& written : all) look(written, false);
    if (!leads_to_nothing) return;
    for (const Written* written : std::exchange(missing, {})) look(*written, true);
  }

  bool Harms(const Written& a, const Written& b) const {
    if (a.task == b.task || a.name == b.name || (!a.stream && !b.stream) || (!a.output && !b.output))
      return false;
    // What a task makes of its own input follows from it: a link to the newest log.
    const auto reads = [this](const Written& reader, const Written& maker) {
      const auto inputs = graph_.inputs(reader.task);
      return !reader.stream && maker.output &&
             std::find(inputs.begin(), inputs.end(), *maker.output) != inputs.end();
    };
    return !reads(a, b) && !reads(b, a);
  }

  void TellLink(const Written& first, const Written& second) {
    if (!told_streams_.insert(second.name).second) return;
    problems_->Add(
        second.place,
        StrCat(second.output ? "out \"" : "stdout or stderr \"", Printable(second.name, 200),
               "\" is, through a link, the file \"", Printable(first.name, 200), "\" that ",
               Named(first.task),
               " writes as well, and the text of one would be lost; remove the link, or name another file"));
  }

  os::FileSystem& fs_;
  const graph::Graph& graph_;
  const bool look_;
  const OutputPlaces* places_;
  Problems* problems_;
  std::string submit_;
  std::unordered_map<std::string_view, Directory> directories_;        // by name as in the flow
  std::unordered_map<std::string_view, std::optional<FileId>> above_;  // of directories, by name
  std::unordered_map<std::string, FileId> strays_;                     // by resolved name
  std::vector<std::pair<std::string, TaskId>> streams_;                // who writes a file first
  graph::NameIndex stream_index_;                                      // of streams_
  std::unordered_set<std::string> told_streams_;
  std::unordered_set<uint32_t> told_;
};

}  // namespace

void CheckOutputs(os::FileSystem& fs, const std::vector<Input>& inputs, const LoadOptions& options,
                  const OutputPlaces& places, const graph::Graph& graph, Problems* problems) {
  OutputChecker(fs, graph, options.directory, options.inputs_must_exist, &places, problems)
      .Run(inputs, options.directory);
}

Status CheckRunDirectory(os::FileSystem& fs, const graph::Graph& graph, const std::string& submit_dir,
                         const std::string& run_dir) {
  Problems problems(&graph, 20);
  OutputChecker checker(fs, graph, submit_dir, true, nullptr, &problems);
  checker.FindStrays();
  if (const std::optional<FileId> file = checker.Holding(run_dir)) {
    problems.Add(graph.place(graph.producer(*file)),
                 StrCat("out \"", Printable(graph.file_name(*file), 200), "\" is or holds the run directory ",
                        Printable(run_dir, 200), "; name another with --run-dir"));
  }
  return problems.status();
}

}  // namespace harrow::formats
