// WfFormat, the JSON of recorded workflows:
//
//   1.0-1.2  workflow.jobs[]: name, id?, category?, runtime, parents, children, files[{link, name, size}],
//   command?, cores? 1.3-1.4  workflow.tasks[]: the same, runtimeInSeconds and sizeInBytes as well 1.5
//   workflow.specification.tasks[]: name, id, parents, children, inputFiles, outputFiles
//            workflow.specification.files[]: id, sizeInBytes
//            workflow.execution.tasks[]: id, runtimeInSeconds, coreCount, command
//
// Beside cores, runtime and the like a task may hold what the format has no word for, and `harrow replay`
// writes: ranks, nodes and mpi, which mean what they do in a flow file. The cores are those of all ranks, or
// nodes, together.
//
// Tasks are told apart by id where every task has one, else by name; links may use either. A dependency holds
// whether the parent or the child says so. A file mentioned with several sizes has the largest. A task's kind
// is its category, else its name without the number at the end, else its program. Memory in a trace is what
// was used, not asked for, and left out.
//
// The text is read in one pass with simdjson's on-demand parser, every value visited, so that what is broken
// anywhere is found; the offset of a value in the text gives its place.
#include "formats/wf_format.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <simdjson.h>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/command_form.h"
#include "formats/file_set.h"
#include "formats/kind_cache.h"
#include "formats/negatives.h"
#include "formats/text_rules.h"

namespace harrow::formats {
namespace {

namespace od = simdjson::ondemand;

constexpr size_t kDeepest = 200;
constexpr double kLongestRun = 3e9;  // seconds
constexpr double kMostRanks = 1e8;

/// Stops reading: the text at `offset` is not what it has to be.
struct Broken {
  size_t offset;
  std::string what;
};

struct WfFile {
  std::string_view name;
  double size = -1;
  bool output = false;
};

struct WfTask {
  size_t offset = 0;
  std::string_view name, id, category, program;
  std::vector<std::string_view> arguments, parents, children;
  std::vector<WfFile> files;
  bool has_program = false;
  double run_time = -1;           // seconds
  double cores = 0;               // 0: nothing is said
  uint32_t ranks = 0, nodes = 0;  // the same
  std::string_view mpi;
  bool gang() const { return ranks > 0 || nodes > 1; }
};

/// Line and column of ascending or any offsets, counting on from the last one where possible.
class Places {
 public:
  Places(uint32_t source, std::string_view text) : text_(text) {
    at_.source = source;
    at_.line = 1;
  }
  SourcePlace Of(size_t offset) {
    offset = std::min(offset, text_.size());
    if (offset < counted_) {
      counted_ = line_begin_ = 0;
      at_.line = 1;
    }
    const std::string_view until = text_.substr(0, offset);
    for (size_t newline = until.find('\n', counted_); newline != std::string_view::npos;
         newline = until.find('\n', newline + 1)) {
      ++at_.line;
      line_begin_ = newline + 1;
    }
    counted_ = offset;
    at_.column = static_cast<uint32_t>(std::min<size_t>(offset - line_begin_ + 1, UINT32_MAX));
    return at_;
  }

 private:
  std::string_view text_;
  SourcePlace at_;
  size_t counted_ = 0, line_begin_ = 0;
};

class WfReader {
 public:
  WfReader(uint32_t source, std::string_view text, const LoadOptions& options, graph::Graph* graph,
           Problems* problems)
      : text_(text),
        options_(options),
        graph_(graph),
        problems_(problems),
        places_(source, text),
        json_(text) {}

  std::string Read(std::vector<std::string>* notices) {
    try {
      Parse();
      if (problems_->empty()) AddTasks();
      if (problems_->empty()) {
        NoteCommands(notices);
        negatives_.Tell(*graph_, notices);
      }
    } catch (const Broken& broken) {
      problems_->AddLast(places_.Of(broken.offset), broken.what);
    } catch (const simdjson::simdjson_error& error) {
      const size_t offset = ErrorOffset(error.error());
      const bool cut = text_.find_first_not_of(" \t\r\n", offset) == std::string_view::npos &&
                       error.error() == simdjson::TAPE_ERROR;
      problems_->AddLast(places_.Of(offset),
                         JsonError(cut ? simdjson::INCOMPLETE_ARRAY_OR_OBJECT : error.error()));
    }
    return std::string(name_);
  }

 private:
  // --- JSON, value by value

  size_t OffsetOf(od::value value) const {
    const char* token = value.raw_json_token().data();
    return Offset(token);
  }
  size_t Offset(const char* at) const {
    const char* begin = json_.data();
    return at >= begin && at <= begin + text_.size() ? static_cast<size_t>(at - begin) : text_.size();
  }

  static std::string JsonError(simdjson::error_code error) {
    const std::string_view message = simdjson::error_message(error);
    std::string_view what = message;
    switch (error) {
      case simdjson::EMPTY:
        what = "the file is empty";
        break;
      case simdjson::UNCLOSED_STRING:
        what = "a text has no closing \"";
        break;
      case simdjson::INCOMPLETE_ARRAY_OR_OBJECT:
        what = "it ends within a list or object";
        break;
      case simdjson::TAPE_ERROR:
        what = "a comma, colon, key or bracket is missing or too many here";
        break;
      case simdjson::INCORRECT_TYPE:
        what = "this is neither a text, a number, true, false, null, a list nor an object";
        break;
      case simdjson::CAPACITY:
        what = "it is larger than 4 GB";
        break;
      default:
        break;
    }
    return StrCat("this is no JSON: ", what.substr(0, 160),
                  "; WfFormat is a JSON object with \"workflow\" (wfcommons.org/format)");
  }

  size_t ErrorOffset(simdjson::error_code error) {
    if (error == simdjson::INCOMPLETE_ARRAY_OR_OBJECT) return text_.size();
    if (error == simdjson::UNCLOSED_STRING) {
      size_t open = text_.size();
      bool inside = false;
      for (size_t i = 0; i < text_.size(); ++i) {
        if (text_[i] == '\\' && inside) {
          ++i;
        } else if (text_[i] == '"') {
          inside = !inside;
          open = i;
        }
      }
      return open;
    }
    const char* location = nullptr;
    if (document_open_ && document_.current_location().get(location) == simdjson::SUCCESS)
      return Offset(location);
    return last_offset_;
  }

  [[noreturn]] void Break(od::value value, std::string what) {
    throw Broken{OffsetOf(value), std::move(what)};
  }

  /// Visits a value nobody asked for, so that its syntax is checked.
  void Skip(od::value value, size_t depth = 0) {
    if (depth > kDeepest)
      Break(value, StrCat("lists and objects are nested more than ", kDeepest, " deep; WfFormat is flat"));
    last_offset_ = OffsetOf(value);
    switch (od::json_type type = value.type(); type) {
      case od::json_type::array:
        for (od::value item : value.get_array()) Skip(item, depth + 1);
        break;
      case od::json_type::object:
        for (od::field field : value.get_object()) Skip(field.value(), depth + 1);
        break;
      case od::json_type::number:
        (void)value.get_number().value();
        break;
      case od::json_type::string:
        (void)value.get_raw_json_string().value();
        break;
      case od::json_type::boolean:
        (void)value.get_bool().value();
        break;
      case od::json_type::null:
        if (!value.is_null())
          Break(value, "this is no JSON: null is meant here, or a value is missing; correct it");
        break;
    }
  }

  /// A text, unescaped; numbers and null are taken for texts where traces have them. Views live as long as
  /// the reader.
  std::string_view Text(od::value value, std::string_view what) {
    last_offset_ = OffsetOf(value);
    od::json_type type = value.type();
    std::string_view text;
    if (type == od::json_type::string) {
      text = value.get_string();
    } else if (type == od::json_type::number) {
      text = Trimmed(value.raw_json_token());
      (void)value.get_number().value();
    } else if (type == od::json_type::null && value.is_null()) {
      return {};
    } else {
      Break(value, StrCat(what, " is no text; write it between \" \""));
    }
    if (text.find('\0') != std::string_view::npos)
      throw Broken{last_offset_, StrCat(what, " holds a NUL byte; no text of a task may")};
    return text;
  }

  /// `below`: notes what is less than `least`, which is no problem then, and as if it were missing.
  double Number(od::value value, std::string_view what, double least, double most, double missing,
                Negatives* below = nullptr) {
    last_offset_ = OffsetOf(value);
    od::json_type type = value.type();
    if (type == od::json_type::null && value.is_null()) return missing;
    if (type != od::json_type::number) Break(value, StrCat(what, " is no number; write it without quotes"));
    const double number = value.get_double();
    if (below != nullptr && number < least) {
      below->Note(places_.Of(last_offset_), what, number);
      return missing;
    }
    if (!(number >= least && number <= most)) {
      problems_->Add(places_.Of(last_offset_),
                     StrCat(what, " cannot be ", number, "; write a number from ", least, " to ", most));
      return missing;
    }
    return number;
  }

  static std::string_view Trimmed(std::string_view token) {
    const size_t end = token.find_last_not_of(" \t\r\n");
    return token.substr(0, end == std::string_view::npos ? 0 : end + 1);
  }

  od::array List(od::value value, std::string_view what) {
    last_offset_ = OffsetOf(value);
    od::json_type type = value.type();
    if (type != od::json_type::array) Break(value, StrCat(what, " is no list; write it between [ ]"));
    return value.get_array();
  }
  od::object Object(od::value value, std::string_view what) {
    last_offset_ = OffsetOf(value);
    od::json_type type = value.type();
    if (type != od::json_type::object) Break(value, StrCat(what, " is no object; write it between { }"));
    return value.get_object();
  }
  static bool IsNull(od::value value) {
    od::json_type type = value.type();
    return type == od::json_type::null;
  }

  std::vector<std::string_view> Texts(od::value value, std::string_view what) {
    std::vector<std::string_view> texts;
    if (IsNull(value)) {
      Skip(value);
      return texts;
    }
    for (od::value item : List(value, what)) texts.push_back(Text(item, what));
    return texts;
  }

  // --- the instance

  void Parse() {
    document_ = parser_.iterate(json_);
    document_open_ = true;
    od::json_type type = document_.type();
    if (type != od::json_type::object)
      throw Broken{0, "this is no WfFormat; it is a JSON object with \"workflow\""};
    bool workflow = false;
    for (od::field field : document_.get_object()) {
      const std::string_view key = field.unescaped_key();
      od::value value = field.value();
      if (key == "name") {
        name_ = Text(value, "name");
      } else if (key == "workflow") {
        workflow = true;
        workflow_offset_ = OffsetOf(value);
        for (od::field part : Object(value, "workflow")) ReadPart(part);
      } else {
        Skip(value);
      }
    }
    const char* after = nullptr;
    if (document_.current_location().get(after) == simdjson::SUCCESS)
      throw Broken{Offset(after), "after the end of the JSON object stands more; a file holds one object"};
    if (!workflow)
      throw Broken{
          0, "there is no \"workflow\"; this is no WfFormat (wfcommons.org/format), a flow file is TOML"};
    if (!tasks_found_)
      throw Broken{workflow_offset_,
                   "the workflow has no tasks; WfFormat 1.5 has them in workflow.specification.tasks, older "
                   "ones in workflow.tasks or workflow.jobs"};
    if (tasks_.empty()) throw Broken{workflow_offset_, "the list of tasks is empty; there is nothing to run"};
  }

  void ReadPart(od::field part) {
    const std::string_view key = part.unescaped_key();
    od::value value = part.value();
    if (key == "tasks" || key == "jobs") {
      ReadTasks(value);
    } else if (key == "specification") {
      for (od::field field : Object(value, "specification")) {
        const std::string_view inner = field.unescaped_key();
        od::value inner_value = field.value();
        if (inner == "tasks") {
          ReadTasks(inner_value);
        } else if (inner == "files") {
          if (IsNull(inner_value)) {
            Skip(inner_value);
          } else {
            for (od::value file : List(inner_value, "files")) files_.push_back(ReadFile(file));
          }
        } else {
          Skip(inner_value);
        }
      }
    } else if (key == "execution") {
      for (od::field field : Object(value, "execution")) {
        const bool tasks = field.unescaped_key().value() == "tasks";
        od::value inner_value = field.value();
        if (!tasks) {
          Skip(inner_value);
        } else {
          for (od::value task : List(inner_value, "tasks")) executions_.push_back(ReadTask(task));
        }
      }
    } else {
      Skip(value);
    }
  }

  void ReadTasks(od::value value) {
    tasks_found_ = true;
    for (od::value task : List(value, "tasks")) {
      if (tasks_.size() >= options_.max_tasks) {
        throw Broken{OffsetOf(task), StrCat("there are more than ", options_.max_tasks,
                                            " tasks; split them into several runs")};
      }
      tasks_.push_back(ReadTask(task));
    }
  }

  WfTask ReadTask(od::value value) {
    WfTask task;
    task.offset = OffsetOf(value);
    for (od::field field : Object(value, "a task")) {
      const std::string_view key = field.unescaped_key();
      od::value v = field.value();
      if (key == "name") {
        task.name = Text(v, "name");
      } else if (key == "id") {
        task.id = Text(v, "id");
      } else if (key == "category") {
        task.category = Text(v, "category");
      } else if (key == "runtime" || key == "runtimeInSeconds") {
        task.run_time = Number(v, key, 0, kLongestRun, -1, &negatives_);
      } else if (key == "cores" || key == "coreCount") {
        task.cores = Number(v, key, 0, kMostCores, 0);
      } else if (key == "ranks" || key == "nodes") {
        (key == "ranks" ? task.ranks : task.nodes) =
            static_cast<uint32_t>(std::ceil(Number(v, key, 1, kMostRanks, 0)));
      } else if (key == "mpi") {
        task.mpi = Text(v, "mpi");
      } else if (key == "parents") {
        task.parents = Texts(v, "parents");
      } else if (key == "children") {
        task.children = Texts(v, "children");
      } else if (key == "files") {
        ReadFiles(v, &task);
      } else if (key == "inputFiles" || key == "outputFiles") {
        const bool output = key == "outputFiles";
        for (std::string_view name : Texts(v, key)) task.files.push_back({name, -1, output});
      } else if (key == "command") {
        ReadCommand(v, &task);
      } else {
        Skip(v);
      }
    }
    return task;
  }

  void ReadFiles(od::value value, WfTask* task) {
    if (IsNull(value)) {
      Skip(value);
      return;
    }
    for (od::value file : List(value, "files")) task->files.push_back(ReadFile(file));
  }

  WfFile ReadFile(od::value value) {
    WfFile file;
    const size_t offset = OffsetOf(value);
    std::string_view id;
    for (od::field field : Object(value, "a file")) {
      const std::string_view key = field.unescaped_key();
      od::value v = field.value();
      if (key == "name") {
        file.name = Text(v, "a file's name");
      } else if (key == "id") {
        id = Text(v, "a file's id");
      } else if (key == "size" || key == "sizeInBytes") {
        file.size = std::max(file.size, Number(v, key, 0, 4e18, -1, &negatives_));
      } else if (key == "link") {
        const std::string_view link = Text(v, "link");
        if (link != "input" && link != "output")
          throw Broken{offset, StrCat("link cannot be \"", Printable(link), "\"; write input or output")};
        file.output = link == "output";
      } else {
        Skip(v);
      }
    }
    if (file.name.empty()) file.name = id;
    if (file.name.empty()) throw Broken{offset, "the file has no name; add \"name\" (1.5: \"id\")"};
    return file;
  }

  void ReadCommand(od::value value, WfTask* task) {
    od::json_type type = value.type();
    if (type != od::json_type::object) {
      Skip(value);
      return;
    }
    for (od::field field : Object(value, "command")) {
      const std::string_view key = field.unescaped_key();
      od::value v = field.value();
      if (key == "program") {
        task->program = Text(v, "program");
        task->has_program = !task->program.empty();
      } else if (key == "arguments") {
        if (od::json_type t = v.type(); t == od::json_type::array) {
          task->arguments = Texts(v, "arguments");
        } else {
          task->arguments = {Text(v, "arguments")};
        }
      } else {
        Skip(v);
      }
    }
  }

  // --- the graph

  using Index = std::unordered_map<std::string_view, size_t>;

  /// By id or name; false when one is missing or there twice.
  bool IndexBy(std::string_view WfTask::*key, Index* index) const {
    index->reserve(tasks_.size());
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if ((tasks_[i].*key).empty() || !index->emplace(tasks_[i].*key, i).second) return false;
    }
    return true;
  }

  /// "NFCORE:FASTQC (sample 1)" is a FASTQC.
  static std::string_view KindOf(const WfTask& task) {
    if (!task.category.empty()) return task.category;
    std::string_view name = task.name.empty() ? task.id : task.name;
    if (const size_t of = name.rfind(" ("); of != std::string_view::npos && of > 0 && name.ends_with(')'))
      name = name.substr(0, of);
    if (const size_t colon = name.rfind(':'); colon != std::string_view::npos && colon + 1 < name.size())
      name = name.substr(colon + 1);
    name = WithoutNumber(name);
    const bool named = name.find_first_not_of("0123456789") != std::string_view::npos;
    return named || !task.has_program ? name : ProgramName(task.program, graph::CommandForm::kArgv);
  }

  static std::string_view WithoutNumber(std::string_view name) {
    const size_t end = name.find_last_not_of("0123456789");
    if (end == std::string_view::npos || end + 1 == name.size()) return name;
    name = name.substr(0, end + 1);
    constexpr std::string_view kId = "_ID";
    if (name.size() > kId.size() && name.ends_with(kId)) name.remove_suffix(kId.size());
    while (name.size() > 1 && (name.ends_with("_") || name.ends_with("-") || name.ends_with(".")))
      name.remove_suffix(1);
    return name;
  }

  void AddTasks() {
    Index by_id, by_name;
    const bool ids = IndexBy(&WfTask::id, &by_id), names = IndexBy(&WfTask::name, &by_name);
    if (!ids && !names) {
      ReportUnnamed();
      return;
    }
    MergeExecutions(by_id, by_name);
    for (const WfFile& file : files_) SetSize(file);
    KindCache kinds(graph_);
    const graph::Profile defaults = options_.defaults.Resolved();
    std::map<std::tuple<uint32_t, uint32_t, uint32_t, std::string_view>, ProfileId> profiles;
    const uint32_t first = static_cast<uint32_t>(graph_->task_count());
    std::string command;
    std::vector<FileId> in, out;
    size_t without_command = 0, without_command_at = 0;
    for (const WfTask& task : tasks_) {
      const uint32_t cores = options_.one_core  ? 1
                             : task.cores > 0.0 ? static_cast<uint32_t>(std::ceil(task.cores))
                                                : defaults.shape.cores;
      const bool gang = task.gang() && !options_.one_core;
      auto [profile, added] =
          gang ? profiles.try_emplace({task.cores > 0 ? cores : 0, task.ranks, task.nodes, task.mpi})
               : profiles.try_emplace({cores, 0, 0, {}});
      if (added) {
        graph::Profile p = defaults;
        p.shape.cores = cores;
        profile->second = graph_->AddProfile(gang ? ProfileOfGang(task) : p);
      }
      command.assign(task.program);
      for (std::string_view argument : task.arguments) command.append(1, '\0').append(argument);
      in.clear();
      out.clear();
      for (const WfFile& file : task.files) {
        const FileId id = SetSize(file);
        (file.output ? out : in).push_back(id);
      }
      RemoveRepeated(&in);
      RemoveRepeated(&out);
      graph::TaskSpec spec;
      spec.name = names ? task.name : task.id;
      spec.form = task.has_program ? graph::CommandForm::kArgv : graph::CommandForm::kNone;
      if (task.has_program) spec.command = command;
      spec.profile = profile->second;
      spec.kind = kinds.Of(KindOf(task));
      spec.in = in;
      spec.out = out;
      spec.place = places_.Of(task.offset);
      if (task.run_time >= 0) spec.recorded_run_time = FromSeconds(task.run_time);
      graph_->AddTask(spec);
      if (!task.has_program && without_command++ == 0) without_command_at = task.offset;
    }
    if (options_.need_commands && without_command > 0) {
      problems_->Add(places_.Of(without_command_at),
                     StrCat(without_command, " of ", tasks_.size(),
                            " tasks have no command to run; use harrow replay, which stands in for them"));
    }
    for (size_t i = 0; i < tasks_.size() && !problems_->full(); ++i) {
      for (std::string_view parent : tasks_[i].parents) Link(Find(parent, i, by_id, by_name), i, first);
      for (std::string_view child : tasks_[i].children) Link(i, Find(child, i, by_id, by_name), first);
    }
  }

  /// Of a task with ranks, or of several nodes.
  graph::Profile ProfileOfGang(const WfTask& task) {
    TaskAttributes attributes = options_.defaults;
    Shape& shape = attributes.profile.shape;
    attributes.profile.ranks = task.ranks;
    attributes.ranks_per_node = 0;
    shape.nodes = std::max(1u, task.nodes);
    if (task.cores > 0) {
      shape.cores = static_cast<uint32_t>(std::ceil(task.cores / std::max(task.ranks, shape.nodes)));
      attributes.cores_given = true;
    }
    const auto said = [&](const Status& status) {
      if (!status.ok()) problems_->Add(places_.Of(task.offset), status.message());
      return status.ok();
    };
    if (!task.mpi.empty()) said(SetAttribute("mpi", task.mpi, &attributes));
    if (said(Contradiction("nodes", attributes)) && said(Contradiction("ranks", attributes)))
      return attributes.Resolved();
    return {};
  }

  /// Commands that are written down well enough for people, and do not start what they mean.
  void NoteCommands(std::vector<std::string>* notices) {
    struct Seen {
      size_t count = 0, offset = 0;
      std::string_view text;
      void Add(size_t at, std::string_view what) {
        if (count++ > 0) return;
        offset = at;
        text = what;
      }
    } joined, scripts;
    for (const WfTask& task : tasks_) {
      if (task.program.find_first_of("\n;|&<>$`") != std::string_view::npos)
        scripts.Add(task.offset, task.program);
      for (std::string_view argument : task.arguments) {
        if (!IsOptionWithValue(argument)) continue;
        joined.Add(task.offset, argument);
        break;
      }
    }
    const auto note = [&](const Seen& seen, std::string_view what, std::string_view right) {
      if (seen.count == 0) return;
      notices->push_back(StrCat(
          graph_->PlaceText(places_.Of(seen.offset)), ": ", what, " \"", Printable(seen.text), "\"",
          seen.count > 1
              ? StrCat(" (and the like in ", seen.count - 1, seen.count == 2 ? " more task)" : " more tasks)")
              : "",
          right));
    };
    note(joined, "the argument",
         " is an option and its value in one, as WfBench writes them, and reaches the program as one word; "
         "where that is not "
         "meant, write two arguments");
    note(scripts, "the program",
         " is a shell's text, and no program is called so; run would look for one: make it [\"sh\", \"-c\", "
         "...], or use harrow "
         "replay");
  }

  /// "--mem 10"
  static bool IsOptionWithValue(std::string_view argument) {
    constexpr std::string_view kName = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
    const size_t end = argument.find_first_not_of(kName);
    return argument.starts_with("--") && end > 2 && end != std::string_view::npos && argument[end] == ' ';
  }

  void ReportUnnamed() {
    Index seen;
    for (const WfTask& task : tasks_) {
      if (problems_->full()) return;
      const std::string_view name = task.id.empty() ? task.name : task.id;
      if (name.empty()) {
        problems_->Add(places_.Of(task.offset),
                       "the task has neither name nor id; every task has one of its own");
      } else if (const auto [at, added] = seen.emplace(name, task.offset); !added) {
        problems_->Add(places_.Of(task.offset),
                       StrCat("there are two tasks \"", Printable(name), "\", the other one at line ",
                              places_.Of(at->second).line, "; every task has a name or id of its own"));
      }
    }
    if (!problems_->empty()) return;
    const auto without =
        std::find_if(tasks_.begin(), tasks_.end(), [](const WfTask& task) { return task.id.empty(); });
    problems_->Add(places_.Of(without == tasks_.end() ? 0 : without->offset),
                   "the task has no id, others have no name of their own; give all of them ids, or names");
  }

  void MergeExecutions(const Index& by_id, const Index& by_name) {
    for (WfTask& execution : executions_) {
      const std::string_view name = execution.id.empty() ? execution.name : execution.id;
      auto at = by_id.find(name);
      if (at == by_id.end()) {
        at = by_name.find(name);
        if (at == by_name.end()) {
          problems_->Add(places_.Of(execution.offset),
                         StrCat("execution names an unknown task \"", Printable(name),
                                "\"; specification.tasks has to hold it"));
          if (problems_->full()) return;
          continue;
        }
      }
      WfTask& task = tasks_[at->second];
      if (execution.run_time >= 0) task.run_time = execution.run_time;
      if (execution.cores > 0) task.cores = execution.cores;
      if (execution.gang()) {
        task.ranks = execution.ranks;
        task.nodes = execution.nodes;
        task.mpi = execution.mpi;
      }
      task.has_program = execution.has_program;
      task.program = execution.program;
      task.arguments = std::move(execution.arguments);
    }
  }

  FileId SetSize(const WfFile& file) {
    const FileId id = graph_->AddFile(file.name);
    const int64_t size = static_cast<int64_t>(file.size);
    if (size > graph_->file_size(id)) graph_->SetFileSize(id, size);
    return id;
  }

  static constexpr size_t kNowhere = SIZE_MAX;
  size_t Find(std::string_view name, size_t task, const Index& by_id, const Index& by_name) {
    for (const Index* index : {&by_id, &by_name}) {
      if (const auto at = index->find(name); at != index->end()) return at->second;
    }
    problems_->Add(places_.Of(tasks_[task].offset),
                   StrCat("the task is linked to an unknown task \"", Printable(name),
                          "\"; parents and children name tasks of the same file"));
    return kNowhere;
  }

  void Link(size_t parent, size_t child, uint32_t first) {
    if (parent == kNowhere || child == kNowhere) return;
    graph_->AddDependency(TaskId(first + static_cast<uint32_t>(parent)),
                          TaskId(first + static_cast<uint32_t>(child)));
  }

  std::string_view text_;
  const LoadOptions& options_;
  graph::Graph* graph_;
  Problems* problems_;
  Places places_;
  simdjson::padded_string json_;
  od::parser parser_;
  od::document document_;
  bool document_open_ = false;
  size_t last_offset_ = 0;  // of the value read last
  size_t workflow_offset_ = 0;
  std::string_view name_;
  bool tasks_found_ = false;
  std::vector<WfTask> tasks_, executions_;
  std::vector<WfFile> files_;
  Negatives negatives_;
};

}  // namespace

void ReadWfFormat(uint32_t source, std::string_view text, const LoadOptions& options, graph::Graph* graph,
                  Problems* problems, std::string* name, std::vector<std::string>* notices) {
  *name = WfReader(source, text, options, graph, problems).Read(notices);
}

}  // namespace harrow::formats
