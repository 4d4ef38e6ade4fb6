// A flow file as TOML (https://toml.io/en/v1.0.0):
//
//   [flow]    name, and settings of the run (config/run_options.h)
//   [[task]]  name, command; each, in, out, after, after_any, env, from, to, open, share, records, model and the keys of
//             task_keys.h
//   [[stream]] name, open; each: one that does not end before somebody closes it
//   [[file]]  name, size; each: a known size, for simulation
//
// Here each key's type and value is checked and kept with its place.
#include "formats/flow_file.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text.h"
#include "formats/models.h"
#include "formats/streams.h"
#include "formats/toml_values_internal.h"

namespace harrow::formats {
namespace {

bool ValidKeyName(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

class FlowReader {
 public:
  FlowReader(uint32_t source, std::string_view text, const LoadOptions& options, os::FileSystem& fs,
             const graph::Graph& graph, Problems* problems, uint32_t shift)
      : shift_(shift), source_(source), text_(text), options_(options), fs_(fs), graph_(graph), problems_(problems), places_(source, text) {}

  FlowFile Read() {
    toml::parse_result parsed = toml::parse(text_);
    if (!parsed) {
      problems_->AddLast(At(parsed.error().source()),
                         StrCat("this is no TOML: ", WhatIsWrong(parsed.error()),
                                "; write key = \"text\", key = 4 or key = [\"a\", \"b\"]"));
      return std::move(flow_);
    }
    for (const auto& [key, node] : InOrder(parsed.table())) {
      const std::string_view name = key->str();
      if (name == "flow") {
        ReadSettings(*key, *node);
      } else if (name == "task" || name == "file" || name == "stream") {
        const toml::array* tables = node->as_array();
        if (tables == nullptr || !tables->is_homogeneous(toml::node_type::table)) {
          Problem(At(key->source()),
                  StrCat(name, " is ", TypeName(*node), "; every ", name, " begins with [[", name, "]]"));
          continue;
        }
        for (const toml::node& table : *tables) {
          if (problems_->full()) break;
          if (name == "task") {
            ReadTask(*table.as_table());
          } else if (name == "stream") {
            ReadStream(*table.as_table());
          } else {
            ReadFile(*table.as_table());
          }
        }
      } else {
        const bool plural = name == "tasks" || name == "job" || name == "jobs";
        Problem(At(key->source()), plural ? StrCat("unknown table ", name, "; a task begins with [[task]]")
                                          : StrCat("unknown key ", Printable(name),
                                                   SuggestOneOf(name, {"flow", "task", "file", "stream"})));
      }
    }
    if (problems_->empty() && flow_.tasks.empty()) {
      problems_->Add({source_, 1, 1}, "there is no task; add [[task]] with name and command");
    }
    return std::move(flow_);
  }

 private:
  SourcePlace At(const toml::source_region& region) {
    SourcePlace place = places_.At(region);
    if (place.line == 1 && place.column > shift_) place.column -= shift_;
    return place;
  }

  void Problem(SourcePlace place, std::string_view text) { problems_->Add(place, text); }

  /// A text without NUL bytes.
  std::optional<Placed> Text(std::string_view key, const toml::node& node, std::string_view example) {
    const SourcePlace place = At(node.source());
    const auto text = node.value_exact<std::string_view>();
    if (!text) {
      Problem(place, StrCat(key, " is ", TypeName(node), "; write a text: ", key, " = ", example));
      return std::nullopt;
    }
    if (text->find('\0') != std::string_view::npos) {
      Problem(place, StrCat(key, " holds a NUL byte; no text of a task may"));
      return std::nullopt;
    }
    return Placed{std::string(*text), place};
  }

  /// A list of texts, or one text.
  std::vector<Placed> Texts(std::string_view key, const toml::node& node, std::string_view example) {
    std::vector<Placed> texts;
    const toml::array* list = node.as_array();
    if (list == nullptr && !node.is_string()) {
      Problem(At(node.source()),
              StrCat(key, " is ", TypeName(node), "; write a list of texts: ", key, " = ", example));
      return texts;
    }
    const auto add = [&](const toml::node& item) {
      if (!item.is_string()) {
        Problem(At(item.source()), StrCat("in ", key, " stands ", TypeName(item),
                                          "; write a list of texts: ", key, " = ", example));
      } else if (auto text = Text(key, item, example)) {
        texts.push_back(std::move(*text));
      }
    };
    if (list == nullptr) {
      add(node);
    } else {
      texts.reserve(list->size());
      for (const toml::node& item : *list) {
        if (problems_->full()) break;
        add(item);
      }
    }
    return texts;
  }

  void ReadSettings(const toml::key& flow_key, const toml::node& node) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      Problem(At(flow_key.source()), StrCat("flow is ", TypeName(node), "; settings follow a line [flow]"));
      return;
    }
    if (const toml::node* name = table->get("name")) {
      if (auto text = Text("name", *name, "\"mosaic\"")) flow_.name = text->text;
    }
    flow_.settings = SettingsOf(*table, &places_, graph_, options_.check_setting, "name", problems_);
  }

  void ReadTask(const toml::table& table) {
    TaskTemplate task;
    task.place = At(table.source());
    task.attributes = options_.defaults;
    const size_t problems_before = problems_->count();
    static const std::vector<std::string_view> known = [] {
      std::vector<std::string_view> keys = {"name",  "command",   "each", "in",   "out",   "after",
                                            "after_any", "env", "from", "to", "open", "share", "records", "model"};
      keys.insert(keys.end(), AttributeKeys().begin(), AttributeKeys().end());
      return keys;
    }();
    bool command_given = false;
    for (const auto& [key_node, node] : InOrder(table)) {
      const std::string_view key = key_node->str();
      if (key == "name") {
        if (auto text = Text(key, *node, "\"project-{i}\"")) task.name = std::move(*text);
      } else if (key == "command") {
        command_given = true;
        ReadCommand(*node, &task);
      } else if (key == "each") {
        ReadEach(*node, &task.each, &task.count);
      } else if (key == "in") {
        task.in = Texts(key, *node, "[\"raw/{i}.fits\"]");
      } else if (key == "out") {
        task.out = Texts(key, *node, "[\"p/{i}.fits\"]");
      } else if (key == "after") {
        task.after = Texts(key, *node, "[\"name\"]");
      } else if (key == "after_any") {
        task.after_any = Texts(key, *node, "[\"name\"]");
      } else if (key == "from") {
        task.from = Texts(key, *node, "[\"lines-{i}\"]");
      } else if (key == "to") {
        task.to = Texts(key, *node, "[\"lines-{i}\"]");
      } else if (key == "open") {
        task.open = Texts(key, *node, "[\"lines-{i}\"]");
      } else if (key == "share") {
        ReadShare(*node, &task);
      } else if (key == "records") {
        ReadRecords(*node, &task);
      } else if (key == "model") {
        if (auto text = Text(key, *node, "\"compute(100)\"")) {
          task.model = std::move(*text);
          task.model_begin = ModelBegin(text_, task.model.place);
          if (task.model.text.empty()) Problem(task.model.place, "model is empty; leave it out where nothing is known");
        }
      } else if (key == "env") {
        ReadEnv(*node, &task.attributes);
      } else if (std::find(known.begin(), known.end(), key) != known.end()) {
        ReadAttribute(key, *node, &task.attributes);
        task.places.emplace(key, At(node->source()));
      } else {
        Problem(At(key_node->source()), StrCat("unknown key ", Printable(key), SuggestKey(key, known)));
      }
    }
    if (!table.contains("name")) {
      Problem(task.place, "the task has no name; add name = \"...\"");
    } else if (task.name.text.empty() && table.get("name")->is_string()) {
      Problem(At(table.get("name")->source()), "name is empty; every task has a name of its own");
    }
    if (!command_given) Problem(task.place, "the task has no command; add command = \"...\"");
    if (task.is_list && !task.attributes.profile.shell.empty()) {
      Problem(task.place,
              "a list of arguments is started without a shell; leave shell out, or write the command as one "
              "text");
    }
    CheckStreams(task);
    task.broken = problems_->count() > problems_before;
    flow_.tasks.push_back(std::move(task));
  }

  void ReadShare(const toml::node& node, TaskTemplate* task) {
    const auto text = Text("share", node, "\"split\"");
    if (!text) return;
    task->share_place = text->place;
    const Result<bool> split = ParseShare(text->text);
    if (!split.ok()) return Problem(text->place, split.status().message());
    task->split = *split;
  }

  void ReadRecords(const toml::node& node, TaskTemplate* task) {
    const auto text = Text("records", node, "\"lines\"");
    if (!text) return;
    task->records_place = text->place;
    const Result<Records> records = ParseRecords(text->text);
    if (!records.ok()) return Problem(text->place, records.status().message());
    task->records = *records;
  }

  /// Streams are standard input and output of one process.
  void CheckStreams(const TaskTemplate& task) {
    const auto place = [&](std::string_view key) {
      const auto at = task.places.find(key);
      return at == task.places.end() ? SourcePlace() : at->second;
    };
    if (task.share_place.line > 0 && task.from.empty())
      Problem(task.share_place, "share is of the streams that a task reads, and this one has no from; leave it out");
    if (task.records_place.line > 0 && task.to.empty())
      Problem(task.records_place, "records is of the streams that a task writes, and this one has no to; leave it out");
    if (task.from.empty() && task.to.empty()) return;
    if (!task.from.empty() && place("stdin").line > 0)
      Problem(place("stdin"), "from and stdin exclude each other, as a task has one standard input; leave one of them out");
    if (!task.to.empty() && place("stdout").line > 0)
      Problem(place("stdout"), "to and stdout exclude each other, as a task has one standard output; leave one of them out");
    if (const std::string_view why = WhyNoStreams(task.attributes.profile); !why.empty())
      Problem((task.from.empty() ? task.to : task.from).front().place, why);
  }

  void ReadCommand(const toml::node& node, TaskTemplate* task) {
    task->command = Texts("command", node, "\"mAdd -p p images.tbl\" or [\"mAdd\", \"-p\", \"p\"]");
    task->is_list = node.is_array();
    if (task->is_list) {
      if (node.as_array()->empty() || (!task->command.empty() && task->command[0].text.empty())) {
        Problem(At(node.source()), "command names no program; the first text of the list is the program");
      }
      return;
    }
    if (task->command.empty()) return;
    std::string& text = task->command[0].text;
    const size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string::npos) {
      Problem(At(node.source()), "command is empty; write what the task runs");
      return;
    }
    text = text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
  }

  void ReadEnv(const toml::node& node, TaskAttributes* attributes) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      Problem(At(node.source()), StrCat("env is ", TypeName(node), "; write env = { NAME = \"value\" }"));
      return;
    }
    for (const auto& [key, value] : InOrder(*table)) {
      const std::optional<std::string> text = ScalarText(*value);
      const Status status =
          text ? SetVariable(key->str(), *text, attributes)
               : Status(Code::kInvalid, StrCat("env ", Printable(key->str()), " is ", TypeName(*value),
                                               "; write a text: ", Printable(key->str()), " = \"value\""));
      if (!status.ok()) Problem(At(value->source()), status.message());
    }
  }

  void ReadAttribute(std::string_view key, const toml::node& node, TaskAttributes* attributes) {
    const SourcePlace place = At(node.source());
    if (key == "retry_on" && node.is_array()) {
      std::string codes;
      for (const toml::node& item : *node.as_array()) {
        codes += StrCat(codes.empty() ? "" : ",", ScalarText(item).value_or("?"));
      }
      if (const Status status = SetAttribute(key, codes, attributes); !status.ok())
        Problem(place, status.message());
      return;
    }
    if (key == "bound" && node.is_floating_point() && std::isfinite(*node.value<double>())) {
      attributes->bound = *node.value<double>();
      return;
    }
    if (key == "checkpoint_files" && node.is_array()) {
      std::string names;
      // Each ends a line, so that one alone may hold commas.
      for (const toml::node& item : *node.as_array()) names += StrCat(ScalarText(item).value_or(""), "\n");
      if (const Status status = SetAttribute(key, names, attributes); !status.ok()) Problem(place, status.message());
      return;
    }
    const std::optional<std::string> text = ScalarText(node);
    const bool number = node.is_number();
    if (!text || node.is_floating_point()) {
      Problem(place, StrCat(key, " is ", TypeName(node), "; write ", Example(key)));
    } else if (key == "run_time" && number) {
      Problem(place, StrCat("run_time has no unit; write run_time = \"", *text, "s\""));
    } else if (const Status status = SetAttribute(key, *text, attributes); !status.ok()) {
      Problem(place, status.message());
    }
  }

  static std::string Example(std::string_view key) {
    if (key == "memory") return "memory = \"4G\"";
    if (key == "time" || key == "run_time" || key == "retry_delay") return StrCat(key, " = \"10m\"");
    if (key == "keep" || key == "whole_node") return StrCat(key, " = true");
    if (key == "retry_on") return "retry_on = [1, 137]";
    if (key == "bound") return "a number: bound = 3.25";
    if (key == "checkpoint") return "checkpoint = \"app\"";
    if (key == "checkpoint_files") return "checkpoint_files = [\"state.*\"]";
    if (key == "checkpoint_every" || key == "checkpoint_time") return StrCat(key, " = \"10m\"");
    for (std::string_view text : {"cwd", "kind", "stdin", "stdout", "stderr", "shell", "restart_command", "checkpoint_ask", "checkpoint_ranks", "checkpoint_signal"}) {
      if (key == text) return StrCat("a text: ", key, " = \"", key == "shell" ? "bash" : "...", "\"");
    }
    return StrCat("a whole number: ", key, " = 1");
  }

  void ReadEach(const toml::node& node, std::vector<EachKey>* each, uint64_t* count) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      Problem(At(node.source()), StrCat("each is ", TypeName(node), "; write each = { i = \"0-420\" }"));
      return;
    }
    *count = 1;
    for (const auto& [key_node, value] : InOrder(*table)) {
      EachKey key;
      key.name = key_node->str();
      key.place = At(value->source());
      if (!ValidKeyName(key.name)) {
        Problem(At(key_node->source()),
                StrCat("\"", Printable(key.name), "\" cannot be a key of each; use letters, digits and _"));
        continue;
      }
      if (!ReadValues(*value, &key)) continue;
      if (key.count > 0 && *count > UINT64_MAX / key.count) {
        Problem(key.place,
                StrCat("each means more than 10^19 tasks; at most ", options_.max_tasks, " are taken"));
        *count = 1;
        return;
      }
      *count *= key.count;
      each->push_back(std::move(key));
    }
    if (*count > options_.max_tasks) {
      Problem(At(node.source()),
              StrCat("each means ", *count, " tasks; at most ", options_.max_tasks, " are taken"));
      *count = 1;
    }
  }

  bool ReadValues(const toml::node& node, EachKey* key) {
    if (const toml::array* list = node.as_array()) {
      for (const toml::node& item : *list) {
        const std::optional<std::string> text = ScalarText(item);
        if (!text || text->find('\0') != std::string::npos) {
          Problem(At(item.source()),
                  StrCat("in each.", key->name, " stands ", text ? "a NUL byte" : TypeName(item),
                         "; write texts or numbers"));
          return false;
        }
        key->values.push_back(*text);
      }
    } else if (const auto text = node.value_exact<std::string_view>()) {
      if (text->starts_with("@")) {
        if (!ReadListFile(std::string(text->substr(1)), key)) return false;
      } else {
        Result<ArraySpec> spec = ParseArraySpec(*text, options_.max_tasks);
        if (!spec) {
          Problem(key->place, StrCat("each.", key->name, ": ", spec.status().message(),
                                     text->find_first_of("0123456789") == 0
                                         ? ""
                                         : ", values as a list [\"a\", \"b\"], or \"@file\""));
          return false;
        }
        if (spec->limit > 0) {
          flow_.notices.push_back(
              StrCat(graph_.PlaceText(key->place), ": %", spec->limit,
                     " has no effect here: slots, cores and memory limit what runs at once"));
        }
        key->ranges = std::move(spec->ranges);
        key->count = spec->count;
      }
    } else {
      Problem(key->place,
              StrCat("each.", key->name, " is ", TypeName(node), "; write \"0-420\", a list or \"@file\""));
      return false;
    }
    if (key->ranges.empty()) key->count = key->values.size();
    if (key->count == 0) {
      Problem(key->place, StrCat("each.", key->name, " has no value; name at least one"));
      return false;
    }
    return true;
  }

  /// "@file": a value a line; blank lines are skipped.
  bool ReadListFile(const std::string& name, EachKey* key) {
    const std::string path =
        options_.directory.empty() || name.starts_with("/") ? name : StrCat(options_.directory, "/", name);
    Result<std::string> text = name.empty() ? Status(Code::kInvalid, "@ names no file") : fs_.Read(path);
    if (!text) {
      Problem(key->place, StrCat("each.", key->name, ": ", Printable(text.status().message(), 300),
                                 "; @file names a file of one value a line, from where harrow is started"));
      return false;
    }
    const std::string_view all = *text;
    const size_t bad = std::min(all.find('\0'), FindInvalidUtf8(all));
    if (bad != std::string_view::npos) {
      const SourcePlace place = PlaceAt(source_, all, bad);
      Problem(key->place, StrCat("each.", key->name, ": line ", place.line, " of ", Printable(name),
                                 " holds ", all[bad] == '\0' ? "a NUL byte" : "bytes that are no UTF-8",
                                 "; it has to be text, one value a line"));
      return false;
    }
    for (size_t begin = 0; begin < all.size();) {
      const size_t end = std::min(all.find('\n', begin), all.size());
      std::string_view line = all.substr(begin, end - begin);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) key->values.emplace_back(line);
      begin = end + 1;
    }
    return true;
  }

  void ReadStream(const toml::table& table) {
    StreamTemplate stream;
    stream.place = At(table.source());
    bool told = false;
    for (const auto& [key_node, node] : InOrder(table)) {
      const std::string_view key = key_node->str();
      if (key == "name") {
        if (auto text = Text(key, *node, "\"lines-{i}\"")) stream.name = std::move(*text);
      } else if (key == "each") {
        ReadEach(*node, &stream.each, &stream.count);
      } else if (key == "open") {
        told = true;
        const std::optional<bool> open = node->value_exact<bool>();
        if (!open) Problem(At(node->source()), StrCat("open is ", TypeName(*node), "; write open = true"));
        stream.open = open.value_or(false);
      } else {
        Problem(At(key_node->source()),
                StrCat("unknown key ", Printable(key), SuggestOneOf(key, {"name", "each", "open"}),
                       "; share and records are written with the tasks that read and write a stream"));
      }
    }
    if (stream.name.text.empty() || !told)
      Problem(stream.place, "a stream has name and open; write name = \"lines\" and open = true");
    if (problems_->empty()) flow_.streams.push_back(std::move(stream));
  }

  void ReadFile(const toml::table& table) {
    FileTemplate file;
    file.place = At(table.source());
    bool sized = false;
    for (const auto& [key_node, node] : InOrder(table)) {
      const std::string_view key = key_node->str();
      if (key == "name") {
        if (auto text = Text(key, *node, "\"raw/{i}.fits\"")) file.name = std::move(*text);
      } else if (key == "each") {
        ReadEach(*node, &file.each, &file.count);
      } else if (key == "size") {
        sized = true;
        const std::optional<std::string> text = ScalarText(*node);
        Result<uint64_t> bytes = ParseBytes(text.value_or(""));
        if (!text || node->is_boolean() || !bytes) {
          Problem(At(node->source()),
                  StrCat("size: ", text ? bytes.status().message() : "write size = \"4M\""));
        } else {
          file.size = static_cast<int64_t>(*bytes);
        }
      } else {
        Problem(At(key_node->source()),
                StrCat("unknown key ", Printable(key), SuggestOneOf(key, {"name", "each", "size"})));
      }
    }
    if (file.name.text.empty() || !sized)
      Problem(file.place, "a file has name and size; write name = \"raw.fits\" and size = \"4M\"");
    if (problems_->empty()) flow_.files.push_back(std::move(file));
  }

  const uint32_t shift_;
  uint32_t source_;
  std::string_view text_;
  const LoadOptions& options_;
  os::FileSystem& fs_;
  const graph::Graph& graph_;
  Problems* problems_;
  FlowFile flow_;
  TomlPlaces places_;
};

}  // namespace

FlowFile ReadFlowFile(uint32_t source, std::string_view text, const LoadOptions& options, os::FileSystem& fs,
                      const graph::Graph& graph, Problems* problems, uint32_t shift) {
  return FlowReader(source, text, options, fs, graph, problems, shift).Read();
}

}  // namespace harrow::formats
