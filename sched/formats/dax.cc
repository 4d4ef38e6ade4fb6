// Jobs, what they use, and which is whose child, as Pegasus DAX of version 2 and 3 says it; all else in it is passed over.

#include <cctype>
#include <cstring>
#include <pugixml.hpp>
#include <string>
#include <vector>

#include "base/text.h"
#include "formats/recorded.h"
#include "formats/trace.h"

namespace harrow::formats {
namespace {

std::string_view WithoutPrefix(std::string_view name) {
  const size_t colon = name.find(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

class DaxReader {
 public:
  DaxReader(uint32_t source, std::string_view text, const LoadOptions& options, graph::Graph* graph,
            Problems* problems)
      : source_(source), text_(text), problems_(problems), trace_(options, "DAX", graph, problems) {}

  void Read(std::vector<std::string>* notices) {
    const pugi::xml_parse_result parsed =
        document_.load_buffer(text_.data(), text_.size(), pugi::parse_default | pugi::parse_doctype, pugi::encoding_utf8);
    if (!parsed) {
      std::string what = parsed.description();
      what[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(what[0])));
      problems_->AddLast(PlaceAt(parsed.offset), StrCat("this is no XML: ", what, "; is the file cut?"));
      return;
    }
    for (const pugi::xml_node& node : document_.children()) {
      if (node.type() != pugi::node_doctype || std::strchr(node.value(), '[') == nullptr) continue;
      problems_->AddLast(PlaceAt(node.offset_debug()),
                         "entities of a file's own are not read; write what they stand for instead");
      return;
    }
    const pugi::xml_node root = document_.document_element();
    if (WithoutPrefix(root.name()) != "adag") {
      problems_->AddLast(PlaceOf(root), StrCat("a DAX begins with <adag>, not <", Printable(WithoutPrefix(root.name())),
                                               ">; give a Pegasus DAX of version 2 or 3"));
      return;
    }
    for (pugi::xml_node next = root.next_sibling(); next; next = next.next_sibling()) {
      if (next.type() != pugi::node_element) continue;
      problems_->AddLast(PlaceOf(next), "after the end of <adag> stands more; a file holds one");
      return;
    }
    for (const pugi::xml_node& node : root.children()) {
      if (problems_->full()) return;
      if (Is(node, "job")) Job(node);
      if (!Is(node, "child")) continue;
      for (const pugi::xml_node& parent : node.children()) {
        if (Is(parent, "parent")) edges_.push_back({Get(parent, "ref"), Get(node, "ref"), PlaceOf(parent)});
      }
    }
    if (problems_->full()) return;
    Link();
    trace_.Finish(notices);
  }

 private:
  struct Edge {
    std::string_view parent, child;
    SourcePlace place;
  };

  static bool Is(const pugi::xml_node& node, std::string_view name) {
    return node.type() == pugi::node_element && WithoutPrefix(node.name()) == name;
  }
  static std::string_view Get(const pugi::xml_node& node, std::string_view key) {
    for (const pugi::xml_attribute& attribute : node.attributes()) {
      if (WithoutPrefix(attribute.name()) == key) return attribute.value();
    }
    return {};
  }

  /// Lines are counted from the last place on, as places are asked for in their order.
  SourcePlace PlaceAt(ptrdiff_t offset) {
    const size_t to = std::min(static_cast<size_t>(std::max<ptrdiff_t>(offset, 0)), text_.size());
    if (to < looked_) {
      looked_ = line_begin_ = 0;
      line_ = 1;
    }
    const void* newline = nullptr;
    while ((newline = std::memchr(text_.data() + looked_, '\n', to - looked_)) != nullptr) {
      looked_ = line_begin_ = static_cast<size_t>(static_cast<const char*>(newline) - text_.data()) + 1;
      ++line_;
    }
    looked_ = to;
    SourcePlace place;
    place.source = source_;
    place.line = line_;
    place.column = static_cast<uint32_t>(to - line_begin_ + 1);
    return place;
  }
  /// Where its < stands.
  SourcePlace PlaceOf(const pugi::xml_node& node) { return PlaceAt(node.offset_debug() - 1); }

  void Job(const pugi::xml_node& node) {
    const SourcePlace place = PlaceOf(node);
    const std::string_view id = Get(node, "id"), name = Get(node, "name"), runtime = Get(node, "runtime");
    if (id.empty()) {
      problems_->Add(place, "the job has no id; write <job id=\"...\">");
      return;
    }
    double seconds = -1;
    if (!runtime.empty()) {
      const auto number = trace_.Measure(runtime, "runtime", 3e9, place);
      if (!number) return;
      seconds = *number;
    }
    const auto job = trace_.AddTask(place, id, name.empty() ? "job" : name, seconds, 1);
    if (!job) return;
    for (const pugi::xml_node& use : node.children()) {
      if (Is(use, "uses")) Uses(use, *job);
    }
  }

  void Uses(const pugi::xml_node& node, uint32_t job) {
    const std::string_view file = Get(node, "file").empty() ? Get(node, "name") : Get(node, "file");
    if (file.empty()) {
      problems_->Add(PlaceOf(node), "uses names no file; write <uses file=\"...\" link=\"input\">");
      return;
    }
    const std::string_view link = Get(node, "link");
    const bool in = link == "input" || link == "inout", out = link == "output" || link == "inout";
    if (!in && !out) {  // an executable, a checkpoint: neither read nor made by the flow
      if (!link.empty() && link != "none" && link != "checkpoint") {
        problems_->Add(PlaceOf(node), StrCat("link cannot be \"", Printable(link),
                                             "\"; write input, output, inout or none"));
      }
      return;
    }
    if (const std::string_view size = Get(node, "size"); !size.empty()) {
      const auto bytes = trace_.Measure(size, "size", 4e18, PlaceOf(node));
      if (bytes && *bytes >= 0) trace_.SetSize(file, static_cast<int64_t>(*bytes));
    }
    if (in) trace_.AddInput(job, file);
    if (out) trace_.AddOutput(job, file);
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

  uint32_t source_;
  std::string_view text_;
  Problems* problems_;
  Trace trace_;
  pugi::xml_document document_;
  size_t looked_ = 0, line_begin_ = 0;
  uint32_t line_ = 1;
  std::vector<Edge> edges_;
};

}  // namespace

void ReadDax(uint32_t source, std::string_view text, const LoadOptions& options, graph::Graph* graph,
             Problems* problems, std::vector<std::string>* notices) {
  DaxReader(source, text, options, graph, problems).Read(notices);
}

}  // namespace harrow::formats
