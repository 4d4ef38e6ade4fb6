#include "formats/load.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "formats/command_form.h"
#include "formats/detect.h"
#include "formats/flow_build.h"
#include "formats/flow_file.h"
#include "formats/json_lines.h"
#include "formats/line_file.h"
#include "formats/output_check.h"
#include "formats/problems.h"
#include "formats/recorded.h"
#include "formats/streams.h"
#include "formats/wf_format.h"

namespace harrow::formats {

Result<std::string> ReadStandardInput(uint64_t limit) {
  std::string text;
  size_t size = 0;
  while (size < limit) {
    text.resize(std::min<uint64_t>(limit, std::max<uint64_t>(size * 2, 65536)));
    const ssize_t n = TEMP_FAILURE_RETRY(read(STDIN_FILENO, text.data() + size, text.size() - size));
    if (n < 0) return Status(Code::kInvalid, StrCat("cannot read standard input: ", strerror(errno)));
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  text.resize(size);
  return text;
}

namespace {

constexpr uint64_t kMostBytes = uint64_t{4} << 30;  // of a file; a device may go on for ever

Status TooLarge(const std::string& what) {
  return Status(Code::kInvalid, StrCat(what, " holds more than ", FormatBytes(kMostBytes)));
}

Result<std::string> ReadFile(os::FileSystem& fs, const std::string& path) {
  Result<std::string> text = fs.Read(path, kMostBytes + 1);
  return text.ok() && text->size() > kMostBytes ? TooLarge(path) : std::move(text);
}

Result<std::string> ReadInput() {
  Result<std::string> text = ReadStandardInput(kMostBytes + 1);
  return text.ok() && text->size() > kMostBytes ? TooLarge("standard input") : std::move(text);
}

/// One input with what has been read of it.
struct Source {
  uint32_t number = 0;
  std::string text;
  std::string_view content;  // of text, without a byte order mark
  Format format = Format::kLines;
  FlowFile flow;
};

class Loader {
 public:
  Loader(os::FileSystem& fs, const LoadOptions& options, graph::Graph* graph, Flow* flow)
      : fs_(fs),
        options_(options),
        graph_(graph),
        flow_(flow),
        problems_(graph, options.max_problems),
        builder_(fs, options, graph, &problems_) {}

  Status Load(const std::vector<Input>& inputs) {
    if (inputs.empty())
      return Status(Code::kInvalid, "no input is named; name a line file, a flow file or WfFormat");
    std::vector<Source> sources(inputs.size());
    for (size_t i = 0; i < inputs.size() && !problems_.full(); ++i) Open(inputs[i], &sources[i]);
    HARROW_RETURN_IF_ERROR(problems_.status());
    for (Source& source : sources) {
      if (source.format == Format::kJsonLines) {
        source.text = JsonLinesAsToml(source.number, source.content, &problems_);
        source.content = source.text;
        if (!problems_.empty()) continue;
      } else if (source.format != Format::kFlow) {
        continue;
      }
      source.flow = ReadFlowFile(source.number, source.content, options_, fs_, *graph_, &problems_,
                                 source.format == Format::kJsonLines ? kBeforeJsonLines : 0);
      if (!problems_.full()) builder_.DeclareOutputs(source.flow);
    }
    for (size_t i = 0; i < sources.size() && !problems_.full(); ++i) Add(&sources[i]);
    builder_.Link();
    HARROW_RETURN_IF_ERROR(problems_.status());
    if (graph_->task_count() == 0) {
      problems_.Add({sources[0].number, 1, 1},
                    StrCat("there is no task in it; ",
                           sources[0].format == Format::kLines ? "write one command a line"
                                                               : "a flow has one task at least"));
      return problems_.status();
    }
    NameFlow(inputs);
    HARROW_RETURN_IF_ERROR(graph_->Seal(options_.max_problems));
    CheckSharers(*graph_, &problems_);
    NoteLaunchers();
    if (options_.check_outputs)
      CheckOutputs(fs_, inputs, options_, builder_.places(), *graph_, &problems_);
    return problems_.status();
  }

 private:
  void Open(const Input& input, Source* source) {
    source->number = graph_->AddSource(input.path == "-" ? "standard input" : Printable(input.path, 1000));
    const SourcePlace start{source->number, 1, 1};
    Result<std::string> text = input.text          ? Result<std::string>(*input.text)
                               : input.path == "-" ? ReadInput()
                                                   : ReadFile(fs_, input.path);
    if (!text) {
      problems_.Add(start, StrCat(Printable(text.status().message(), 1000),
                                  "; name a readable file, or - for standard input"));
      return;
    }
    source->text = std::move(*text);
    source->content = source->text;
    if (source->content.starts_with("\xEF\xBB\xBF")) source->content.remove_prefix(3);
    Result<Format> format = Detect(input.path, input.lines, source->content);
    if (!format) {
      problems_.Add(start, format.status().message());
      return;
    }
    source->format = *format;
    flow_->formats.push_back(*format);
    CheckBytes(*source);
  }

  void CheckBytes(const Source& source) {
    const std::string_view text = source.content;
    if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
      const bool wide = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
      problems_.Add(
          PlaceAt(source.number, text, nul),
          wide ? "this is UTF-16 text; save it as UTF-8" : "there is a NUL byte; a flow is text, remove it");
    } else if (const size_t bad = FindInvalidUtf8(text); bad != std::string_view::npos) {
      problems_.Add(PlaceAt(source.number, text, bad),
                    StrCat("\"", Printable(text.substr(bad, 1)),
                           "\" is no UTF-8; save the file as UTF-8 (iconv -f latin1 -t utf8)"));
    }
  }

  void Add(Source* source) {
    switch (source->format) {
      case Format::kLines:
        ReadLines(source->number, source->content, options_, graph_, &builder_.streams(), &problems_);
        break;
      case Format::kFlow:
      case Format::kJsonLines:
        builder_.AddTasks(source->flow);
        flow_->settings.insert(flow_->settings.end(), source->flow.settings.begin(),
                               source->flow.settings.end());
        flow_->notices.insert(flow_->notices.end(), source->flow.notices.begin(), source->flow.notices.end());
        if (flow_->name.empty()) flow_->name = source->flow.name;
        break;
      case Format::kWfFormat: {
        std::string name;
        ReadWfFormat(source->number, source->content, options_, graph_, &problems_, &name, &flow_->notices);
        if (flow_->name.empty()) flow_->name = name;
        break;
      }
      case Format::kStg:
        ReadStg(source->number, source->content, options_, graph_, &problems_);
        break;
      case Format::kDax:
        ReadDax(source->number, source->content, options_, graph_, &problems_, &flow_->notices);
        break;
      case Format::kDagTsv:
        ReadDagTsv(source->number, source->content, options_, graph_, &problems_, &flow_->notices);
        break;
    }
    std::string().swap(source->text);
    source->content = {};
  }

  /// Ranks that each start all of them: nothing that is refused, but hardly what is meant.
  void NoteLaunchers() {
    std::string text;
    size_t further = 0;
    for (uint32_t n = 0; n < graph_->task_count(); ++n) {
      const TaskId task(n);
      const uint32_t ranks = graph_->profile(task).ranks;
      if (ranks < 2) continue;
      const std::string_view program = ProgramName(graph_->command(task), graph_->form(task));
      if (!StartsRanks(program)) continue;
      if (text.empty()) {
        text = StrCat(graph_->PlaceText(graph_->place(task)), ": ", RanksTwiceText(program, ranks));
      } else {
        ++further;
      }
    }
    if (further > 0) text += StrCat(" (so in ", further, further == 1 ? " more task)" : " more tasks)");
    if (!text.empty()) flow_->notices.push_back(text);
  }

  void NameFlow(const std::vector<Input>& inputs) {
    if (!flow_->name.empty()) return;
    const std::string& path = inputs[0].path;
    std::string name = path == "-" ? "stdin" : path.substr(path.rfind('/') + 1);
    if (const size_t point = name.rfind('.'); point != std::string::npos && point > 0) name.resize(point);
    flow_->name = name;
  }

  os::FileSystem& fs_;
  const LoadOptions& options_;
  graph::Graph* graph_;
  Flow* flow_;
  Problems problems_;
  FlowBuilder builder_;
};

}  // namespace

Status Load(os::FileSystem& fs, const std::vector<Input>& inputs, const LoadOptions& options,
            graph::Graph* graph, Flow* flow) {
  return Loader(fs, options, graph, flow).Load(inputs);
}

}  // namespace harrow::formats
