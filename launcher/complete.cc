#include <memory>
#include <unistd.h>
#include <unordered_set>

#include "base/text.h"
#include "journal/snapshot.h"
#include "launcher/command.h"
#include "launcher/run_access.h"
#include "os/file_system.h"
#include "run/flow_store.h"

// For the completions of contrib/completion: words of the newest run, a line each. It must be quick and may
// never complain: without a run it prints nothing.

namespace harrow::launcher {
namespace {

constexpr size_t kMost = 500;

struct CompleteOptions {
  std::string what, prefix, run_dir;
};

class Words {
 public:
  explicit Words(std::string prefix) : prefix_(std::move(prefix)) {}
  /// False: enough.
  bool Add(std::string_view word) {
    if (word.starts_with(prefix_) && word.find('\n') == std::string_view::npos &&
        seen_.emplace(word).second) {
      text_ += StrCat(word, "\n");
    }
    return seen_.size() < kMost;
  }
  const std::string& text() const { return text_; }

 private:
  std::string prefix_, text_;
  std::unordered_set<std::string> seen_;
};

void AddFromFlow(const graph::Graph& graph, bool kinds, bool numbers, Words* words) {
  if (kinds) {
    for (uint32_t i = 0; i < graph.kind_count(); ++i) {
      if (!words->Add(graph.kind_name(KindId(i)))) return;
    }
    return;
  }
  for (uint32_t i = 0; i < graph.task_count(); ++i) {
    const std::string_view name = graph.given_name(TaskId(i));
    if (numbers && !words->Add(StrCat("#", i + 1))) return;
    if (!name.empty() && !words->Add(name)) return;
  }
}

int RunComplete(const CompleteOptions& options) {
  const auto part = OpenRun(options.run_dir);
  if (!part.ok()) return kExitDone;
  Words words(options.prefix);
  if (options.what == "nodes") {
    const auto history = journal::ReadSnapshot(part->dir);
    if (!history.ok()) return kExitDone;
    for (const journal::NodeRecord& node : history->nodes) words.Add(node.name);
  } else {
    const auto flow = run::ReadFlow(*part);
    if (!flow.ok()) return kExitDone;
    AddFromFlow(flow->graph, options.what == "kinds", options.prefix.starts_with('#'), &words);
  }
  WriteTo(STDOUT_FILENO, words.text());
  return kExitDone;
}

const Registered kComplete(
    {.name = "complete",
     .summary = "Words for a shell's completion",
     .example = "harrow complete tasks mProj",
     .usage = "[--run-dir D] tasks|kinds|nodes [PREFIX]",
     .hidden = true,
     .setup = [](CLI::App& app) -> std::function<int()> {
       auto options = std::make_shared<CompleteOptions>();
       AddRunDir(app, &options->run_dir);
       app.add_option("WHAT", options->what)->required()->check(CLI::IsMember({"tasks", "kinds", "nodes"}));
       app.add_option("PREFIX", options->prefix);
       return [options] { return RunComplete(*options); };
     }});

}  // namespace
}  // namespace harrow::launcher
