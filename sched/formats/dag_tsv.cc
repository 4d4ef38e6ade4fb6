#include <array>
#include <string>
#include <vector>

#include "base/text.h"
#include "formats/recorded.h"
#include "formats/trace.h"

namespace harrow::formats {
namespace {

struct Field {
  std::string_view text;
  uint32_t column = 0;
};

struct Line {
  std::array<Field, 5> fields;
  size_t count = 0;  // 6: more than five
  SourcePlace place;

  Line(std::string_view text, SourcePlace where) : place(where) {
    size_t at = 0;
    for (;;) {
      const size_t tab = std::min(text.find('\t', at), text.size());
      if (count == fields.size()) {
        ++count;
        return;
      }
      fields[count++] = {text.substr(at, tab - at), static_cast<uint32_t>(at + 1)};
      if (tab == text.size()) return;
      at = tab + 1;
    }
  }
  SourcePlace At(size_t field) const { return {place.source, place.line, fields[field].column}; }
};

class TsvReader {
 public:
  TsvReader(uint32_t source, const LoadOptions& options, graph::Graph* graph, Problems* problems)
      : source_(source), problems_(problems), trace_(options, "table of tasks", graph, problems) {}

  void Read(std::string_view text, std::vector<std::string>* notices) {
    // Tasks first: lines may name them before they are told.
    Each(text, [this](const Line& line) { ReadTask(line); });
    Each(text, [this](const Line& line) { ReadRest(line); });
    trace_.Finish(notices);
  }

 private:
  template <class Do>
  void Each(std::string_view text, const Do& take) {
    SourcePlace place{source_, 0, 1};
    while (!text.empty() && !problems_->full()) {
      std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      ++place.line;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty() || line.front() == '#') continue;
      take(Line(line, place));
    }
  }

  bool Expect(const Line& line, size_t least, size_t most, std::string_view form) {
    bool good = line.count >= least && line.count <= most;
    for (size_t i = 1; good && i < line.count; ++i) good = !line.fields[i].text.empty();
    if (!good)
      problems_->Add(line.place, StrCat("this line is cut or too long; write ", form, ", with tabs between"));
    return good;
  }

  void ReadTask(const Line& line) {
    if (line.fields[0].text != "T") return;
    if (!Expect(line, 4, 5, "T id kind seconds [cores]")) return;
    const auto seconds =
        trace_.Measure(line.fields[3].text, "a task's time in seconds", 3e9, line.At(3));
    std::optional<double> cores = 1;
    if (line.count == 5)
      cores = TraceNumber(line.fields[4].text, "a task's cores", 0, 65536, line.At(4), problems_);
    if (seconds && cores)
      trace_.AddTask(line.place, line.fields[1].text, line.fields[2].text, *seconds, *cores);
  }

  void ReadRest(const Line& line) {
    const std::string_view what = line.fields[0].text;
    if (what == "T") return;
    if (what == "F") {
      if (!Expect(line, 3, 3, "F file bytes")) return;
      const auto bytes =
          trace_.Measure(line.fields[2].text, "a file's size in bytes", 4e18, line.At(2));
      if (bytes && *bytes >= 0) trace_.SetSize(line.fields[1].text, static_cast<int64_t>(*bytes));
    } else if (what == "I" || what == "O") {
      if (!Expect(line, 3, 3, what == "I" ? "I task file" : "O task file")) return;
      const auto task = Task(line, 1);
      if (!task) return;
      if (what == "I") {
        trace_.AddInput(*task, line.fields[2].text);
      } else {
        trace_.AddOutput(*task, line.fields[2].text);
      }
    } else if (what == "E") {
      if (!Expect(line, 3, 3, "E parent child")) return;
      const auto parent = Task(line, 1), child = Task(line, 2);
      if (parent && child) trace_.AddEdge(*parent, *child);
    } else {
      problems_->Add(
          line.place,
          StrCat("a line cannot begin with \"", Printable(what),
                 "\"; lines begin with T (task), F (file), I (input), O (output) or E (edge), then a tab"));
    }
  }

  std::optional<uint32_t> Task(const Line& line, size_t field) {
    const auto task = trace_.Find(line.fields[field].text);
    if (!task) {
      problems_->Add(line.At(field), StrCat("there is no task \"", Printable(line.fields[field].text),
                                            "\"; a line T tells each task"));
    }
    return task;
  }

  uint32_t source_;
  Problems* problems_;
  Trace trace_;
};

}  // namespace

void ReadDagTsv(uint32_t source, std::string_view text, const LoadOptions& options, graph::Graph* graph,
                Problems* problems, std::vector<std::string>* notices) {
  TsvReader(source, options, graph, problems).Read(text, notices);
}

}  // namespace harrow::formats
