// The subset of XML that a DAX is written in is read here: elements, attributes, the five named entities and
// numbers, comments, processing instructions, a document type without inner part, CDATA (skipped: a DAX says
// nothing in text).

#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/recorded.h"
#include "formats/trace.h"

namespace harrow::formats {
namespace {

constexpr size_t kDeepest = 100;

struct Element {
  std::string_view name;  // without a namespace's prefix
  SourcePlace place;
  std::vector<std::pair<std::string_view, std::string_view>> attributes;

  std::string_view Get(std::string_view key) const {
    for (const auto& [name_of, value] : attributes) {
      if (name_of == key) return value;
    }
    return {};
  }
};

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool EndsName(char c) {
  return IsBlank(c) || c == '=' || c == '/' || c == '>' || c == '<' || c == '"' || c == '\'';
}

void AppendUtf8(std::string* out, uint32_t c) {
  const auto put = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 63));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 63));
    put(0x80 | (c & 63));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 63));
    put(0x80 | (c >> 6 & 63));
    put(0x80 | (c & 63));
  }
}

class DaxReader {
 public:
  DaxReader(uint32_t source, std::string_view text, const LoadOptions& options, graph::Graph* graph,
            Problems* problems)
      : text_(text), problems_(problems), trace_(options, "DAX", graph, problems) {
    place_.source = source;
    place_.line = 1;
  }

  void Read(std::vector<std::string>* notices) {
    bool began = false;
    while (!problems_->full()) {
      const size_t open = text_.find('<', at_);
      MoveTo(open == std::string_view::npos ? text_.size() : open);
      if (open == std::string_view::npos) break;
      if (Skip("<!--", "-->", "a comment") || Skip("<![CDATA[", "]]>", "a CDATA section") ||
          Skip("<?", "?>", "an instruction") || Skip("<!", ">", "the document type")) {
        continue;
      }
      if (text_.substr(at_).starts_with("</")) {
        Close();
        continue;
      }
      Element element;
      bool empty = false;
      if (!Open(&element, &empty)) return;
      if (!began && element.name != "adag") {
        problems_->AddLast(element.place, StrCat("a DAX begins with <adag>, not <", Printable(element.name),
                                                 ">; give a Pegasus DAX of version 2 or 3"));
        return;
      }
      if (path_.empty() && began) {
        Last("after the end of <adag> stands more; a file holds one");
        return;
      }
      began = true;
      Take(element);
      if (!empty) {
        path_.push_back(element.name);
        if (path_.size() > kDeepest)
          Last(StrCat("elements are nested more than ", kDeepest, " deep; a DAX is flat"));
      }
    }
    if (problems_->full()) return;
    if (!path_.empty()) Last(StrCat("<", Printable(path_.back()), "> is not closed; the file is cut"));
    Link();
    trace_.Finish(notices);
  }

 private:
  struct Edge {
    std::string_view parent, child;
    SourcePlace place;
  };

  void Last(std::string_view what) {
    problems_->AddLast(place_, StrCat("this is no XML as a DAX is written in: ", what));
  }

  /// Goes on to an offset, counting lines.
  void MoveTo(size_t to) {
    for (const char* newline;
         at_ < to && (newline = static_cast<const char*>(std::memchr(text_.data() + at_, '\n', to - at_)));) {
      at_ = static_cast<size_t>(newline - text_.data()) + 1;
      line_begin_ = at_;
      ++place_.line;
    }
    at_ = to;
    place_.column = static_cast<uint32_t>(at_ - line_begin_ + 1);
  }

  bool Skip(std::string_view begin, std::string_view end, std::string_view what) {
    if (!text_.substr(at_).starts_with(begin)) return false;
    const size_t close = text_.find(end, at_ + begin.size());
    if (close == std::string_view::npos) {
      Last(StrCat(what, " is not closed; write ", end, " at its end"));
    } else {
      MoveTo(close + end.size());
    }
    return true;
  }

  void Blanks() {
    size_t to = at_;
    while (to < text_.size() && IsBlank(text_[to])) ++to;
    MoveTo(to);
  }
  std::string_view Name() {
    size_t to = at_;
    while (to < text_.size() && !EndsName(text_[to])) ++to;
    std::string_view name = text_.substr(at_, to - at_);
    MoveTo(to);
    if (const size_t colon = name.find(':'); colon != std::string_view::npos) name.remove_prefix(colon + 1);
    return name;
  }

  void Close() {
    const SourcePlace place = place_;
    MoveTo(at_ + 2);
    const std::string_view name = Name();
    Blanks();
    if (path_.empty() || path_.back() != name || at_ >= text_.size() || text_[at_] != '>') {
      problems_->AddLast(
          place,
          StrCat("</", Printable(name), "> closes nothing that is open; ",
                 path_.empty() ? "remove it" : StrCat("</", Printable(path_.back()), "> would be right")));
      return;
    }
    path_.pop_back();
    MoveTo(at_ + 1);
  }

  bool Open(Element* element, bool* empty) {
    element->place = place_;
    MoveTo(at_ + 1);
    element->name = Name();
    if (element->name.empty()) {
      Last("an element has no name; < in text is written &lt;");
      return false;
    }
    for (;;) {
      Blanks();
      if (at_ >= text_.size()) {
        Last("it ends within an element; the file is cut");
        return false;
      }
      if (text_[at_] == '>') {
        MoveTo(at_ + 1);
        return true;
      }
      if (text_.substr(at_).starts_with("/>")) {
        *empty = true;
        MoveTo(at_ + 2);
        return true;
      }
      const std::string_view key = Name();
      Blanks();
      if (key.empty() || at_ >= text_.size() || text_[at_] != '=') {
        Last("an attribute is no name=\"value\"; write it so");
        return false;
      }
      MoveTo(at_ + 1);
      Blanks();
      const char quote = at_ < text_.size() ? text_[at_] : ' ';
      const size_t close =
          quote == '"' || quote == '\'' ? text_.find(quote, at_ + 1) : std::string_view::npos;
      if (close == std::string_view::npos) {
        Last("an attribute's value is not between quotes; write name=\"value\"");
        return false;
      }
      element->attributes.emplace_back(key, Decode(text_.substr(at_ + 1, close - at_ - 1)));
      MoveTo(close + 1);
    }
  }

  std::string_view Decode(std::string_view value) {
    if (value.find('&') == std::string_view::npos) return value;
    std::string& out = decoded_.emplace_back();
    while (!value.empty()) {
      const size_t amp = std::min(value.find('&'), value.size());
      out.append(value.substr(0, amp));
      value.remove_prefix(amp);
      if (value.empty()) break;
      const size_t end = value.find(';');
      const std::string_view name =
          end == std::string_view::npos ? value.substr(1) : value.substr(1, end - 1);
      uint32_t code = 0;
      if (name == "amp") code = '&';
      if (name == "lt") code = '<';
      if (name == "gt") code = '>';
      if (name == "quot") code = '"';
      if (name == "apos") code = '\'';
      if (name.starts_with("#")) {
        const bool hex = name.starts_with("#x");
        for (const char c : name.substr(hex ? 2 : 1)) {
          const uint32_t digit = c >= '0' && c <= '9'          ? static_cast<uint32_t>(c - '0')
                                 : hex && c >= 'a' && c <= 'f' ? static_cast<uint32_t>(c - 'a' + 10)
                                 : hex && c >= 'A' && c <= 'F' ? static_cast<uint32_t>(c - 'A' + 10)
                                                               : UINT32_MAX;
          if (digit == UINT32_MAX || code > 0x10FFFF) {
            code = 0;
            break;
          }
          code = code * (hex ? 16 : 10) + digit;
        }
      }
      if (end == std::string_view::npos || code == 0 || code > 0x10FFFF ||
          (code >= 0xD800 && code < 0xE000)) {
        problems_->Add(place_, StrCat("\"&", Printable(name), "\" is no character; & is written &amp;"));
        return out;
      }
      AppendUtf8(&out, code);
      value.remove_prefix(end + 1);
    }
    return out;
  }

  void Take(const Element& element) {
    if (element.name == "job" && path_.size() == 1) {
      job_.reset();
      const std::string_view id = element.Get("id"), name = element.Get("name"),
                             runtime = element.Get("runtime");
      if (id.empty()) {
        problems_->Add(element.place, "the job has no id; write <job id=\"...\">");
        return;
      }
      double seconds = -1;
      if (!runtime.empty()) {
        const auto number = trace_.Measure(runtime, "runtime", 3e9, element.place);
        if (!number) return;
        seconds = *number;
      }
      job_ = trace_.AddTask(element.place, id, name.empty() ? "job" : name, seconds, 1);
    } else if (element.name == "uses" && path_.size() == 2 && path_.back() == "job" && job_) {
      Uses(element);
    } else if (element.name == "child" && path_.size() == 1) {
      child_ = element.Get("ref");
    } else if (element.name == "parent" && path_.size() == 2 && path_.back() == "child") {
      edges_.push_back({element.Get("ref"), child_, element.place});
    }
  }

  void Uses(const Element& element) {
    const std::string_view file = element.Get("file").empty() ? element.Get("name") : element.Get("file");
    if (file.empty()) {
      problems_->Add(element.place, "uses names no file; write <uses file=\"...\" link=\"input\">");
      return;
    }
    const std::string_view link = element.Get("link");
    const bool in = link == "input" || link == "inout", out = link == "output" || link == "inout";
    if (!in && !out) {  // an executable, a checkpoint: neither read nor made by the flow
      if (!link.empty() && link != "none" && link != "checkpoint") {
        problems_->Add(element.place, StrCat("link cannot be \"", Printable(link),
                                             "\"; write input, output, inout or none"));
      }
      return;
    }
    if (const std::string_view size = element.Get("size"); !size.empty()) {
      const auto bytes = trace_.Measure(size, "size", 4e18, element.place);
      if (bytes && *bytes >= 0) trace_.SetSize(file, static_cast<int64_t>(*bytes));
    }
    if (in) trace_.AddInput(*job_, file);
    if (out) trace_.AddOutput(*job_, file);
  }

  void Link() {
    for (const Edge& edge : edges_) {
      if (problems_->full()) return;
      const auto parent = trace_.Find(edge.parent), child = trace_.Find(edge.child);
      if (parent && child) {
        trace_.AddEdge(*parent, *child);
      } else {
        problems_->Add(edge.place, StrCat("there is no job \"", Printable(parent ? edge.child : edge.parent),
                                          "\"; parents and children are ids of jobs of the same file"));
      }
    }
  }

  std::string_view text_;
  Problems* problems_;
  Trace trace_;
  SourcePlace place_;
  size_t at_ = 0, line_begin_ = 0;
  std::vector<std::string_view> path_;
  std::deque<std::string> decoded_;
  std::optional<uint32_t> job_;
  std::string_view child_;
  std::vector<Edge> edges_;
};

}  // namespace

void ReadDax(uint32_t source, std::string_view text, const LoadOptions& options, graph::Graph* graph,
             Problems* problems, std::vector<std::string>* notices) {
  DaxReader(source, text, options, graph, problems).Read(notices);
}

}  // namespace harrow::formats
