#include "formats/models.h"

#include <algorithm>
#include <charconv>
#include <variant>

#include "base/text.h"
#include "cost/from_graph.h"
#include "cost/meta_program.h"

namespace harrow::formats {

SourcePlace ModelBegin(std::string_view content, SourcePlace quotes) {
  size_t at = 0;
  for (uint32_t line = 1; line < quotes.line && at < content.size(); ++line)
    at = std::min(content.find('\n', at), content.size() - 1) + 1;
  at += quotes.column - 1;
  const std::string_view rest = content.substr(std::min(at, content.size()));
  const bool three = rest.starts_with("\"\"\"") || rest.starts_with("'''");
  const std::string_view behind = rest.substr(std::min<size_t>(rest.size(), 3));
  if (three && (behind.starts_with('\n') || behind.starts_with("\r\n")))
    return {quotes.source, quotes.line + 1, 1};
  return {quotes.source, quotes.line, quotes.column + (three ? 3 : 1)};
}

bool ReadModel(const TaskTemplate& task, const std::string& directory, os::FileSystem& fs,
               graph::Graph* graph, Problems* problems, Model* model) {
  model->place = task.model.place;
  model->text = task.model.text;
  SourcePlace begin = task.model_begin;
  if (task.model.text.starts_with('@')) {
    const std::string name = task.model.text.substr(1);
    const std::string path = directory.empty() || name.starts_with("/") ? name : StrCat(directory, "/", name);
    Result<std::string> text = name.empty() ? Status(Code::kInvalid, "@ names no file") : fs.Read(path);
    if (!text) {
      problems->Add(model->place,
                    StrCat("model: ", Printable(text.status().message(), 300),
                           "; @file names a file with a meta-program, from where harrow is started"));
      return false;
    }
    model->text = std::move(*text);
    begin = {graph->AddSource(Printable(name, 1000)), 1, 1};
  }
  const auto parsed = cost::ParseMetaProgram(model->text);
  if (const auto* problem = std::get_if<cost::MetaProblem>(&parsed)) {
    const uint32_t column = problem->line == 1 ? begin.column + problem->column - 1 : problem->column;
    problems->Add({begin.source, begin.line + problem->line - 1, column}, problem->text);
    return false;
  }
  const auto& costs = std::get<cost::CostFunctions>(parsed);
  for (const cost::Expression* e : {&costs.in, &costs.compute, &costs.out}) e->NoteArguments(&model->needs);
  return true;
}

bool CheckModelArguments(const Model& model, TaskId task, const graph::Graph& graph, Problems* problems) {
  const auto words = cost::ArgumentsOf(graph.command(task), graph.form(task));
  if (!words) return true;
  for (size_t a = 0; a < model.needs.size(); ++a) {
    if (!model.needs[a]) continue;
    const std::string name = Printable(graph.TaskName(task), 60);
    if (a >= words->size()) {
      problems->Add(model.place,
                    StrCat("the model needs @arg[", a, "], and the command of task \"", name, "\" has ",
                           words->size(), words->size() == 1 ? " argument" : " arguments",
                           "; @arg[0] is the first behind the program"));
      return false;
    }
    double number = 0;
    const std::string_view word = (*words)[a];
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error == std::errc() && end == word.data() + word.size() && cost::IsKnown(number)) continue;
    problems->Add(model.place,
                  StrCat("the model needs @arg[", a, "], which of task \"", name, "\" is \"",
                         Printable(word, 60), "\" and no number; correct the model or the command"));
    return false;
  }
  return true;
}

}  // namespace harrow::formats
