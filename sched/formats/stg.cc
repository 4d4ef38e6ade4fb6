#include <string>
#include <vector>

#include "base/text.h"
#include "formats/recorded.h"
#include "formats/trace.h"

namespace harrow::formats {
namespace {

struct Word {
  std::string_view text;
  SourcePlace place;
};

std::vector<Word> Words(uint32_t source, std::string_view text) {
  std::vector<Word> words;
  SourcePlace place{source, 0, 0};
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++place.line;
    for (size_t at = line.find_first_not_of(" \t\r"); at != std::string_view::npos;
         at = line.find_first_not_of(" \t\r", at)) {
      if (line[at] == '#') {
        if (words.empty()) break;  // a comment at the head
        return words;
      }
      const size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
      place.column = static_cast<uint32_t>(at + 1);
      words.push_back({line.substr(at, end - at), place});
      at = end;
    }
  }
  return words;
}

}  // namespace

void ReadStg(uint32_t source, std::string_view text, const LoadOptions& options, graph::Graph* graph,
             Problems* problems) {
  const std::vector<Word> words = Words(source, text);
  Trace trace(options, "standard task graph", graph, problems);
  struct Link {
    uint32_t task;
    Word before;
  };
  std::vector<Link> links;
  size_t at = 0;
  if (words.empty()) {
    problems->Add({source, 1, 1}, "the file is empty; a standard task graph begins with its number of tasks");
    return;
  }
  (void)TraceNumber(words[at].text, "the number of tasks", 0, 1e9, words[at].place, problems);
  ++at;
  while (at < words.size() && !problems->full()) {
    const Word& id = words[at];
    if (at + 2 >= words.size()) {
      problems->AddLast(
          id.place, "the file ends within a task; a task is: id, time, number of predecessors, their ids");
      break;
    }
    const auto seconds =
        TraceNumber(words[at + 1].text, "a task's time", 0, 3e9, words[at + 1].place, problems);
    const auto count =
        TraceNumber(words[at + 2].text, "the number of predecessors", 0, 1e9, words[at + 2].place, problems);
    if (!seconds || !count) return;  // what follows cannot be told apart
    const auto before = static_cast<size_t>(*count);
    if (at + 3 + before > words.size()) {
      problems->AddLast(words[at + 2].place,
                        StrCat("there are not ", before, " predecessors after it; the file ends"));
      break;
    }
    const auto task = trace.AddTask(id.place, id.text, "task", *seconds, 1);
    for (size_t i = 0; i < before && task; ++i) links.push_back({*task, words[at + 3 + i]});
    at += 3 + before;
  }
  for (const Link& link : links) {
    if (problems->full()) return;
    if (const auto before = trace.Find(link.before.text)) {
      trace.AddEdge(*before, link.task);
    } else {
      problems->Add(link.before.place, StrCat("there is no task \"", Printable(link.before.text),
                                              "\"; predecessors are ids of the same file"));
    }
  }
  std::vector<std::string> none;  // it has no measured times
  trace.Finish(&none);
}

}  // namespace harrow::formats
