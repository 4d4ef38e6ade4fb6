#include <memory>
#include <optional>
#include <string>
#include <unistd.h>

#include "base/text.h"
#include "client/session.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "launcher/run_access.h"
#include "os/event_loop.h"
#include "report/json.h"
#include "run/best.h"

// The best value of a run: offered to its server, read from where servers save it, so that it can be read when the run is over,
// too.

namespace harrow::launcher {
namespace {

struct BestOptions {
  std::string run_dir, min, with, output;
  bool json = false;
};

Status Bad(std::string text) {
  return Status(Code::kInvalid, std::move(text));
}

Result<double> ParseValue(const std::string& text) {
  const std::optional<double> value = ParseNumber(text);
  if (!value) return Bad(StrCat("--min cannot be ", Printable(text, 40), "; write a number: --min 3.7"));
  return *value;
}

Result<std::string> ReadSolution(const std::string& file) {
  if (file.empty()) return std::string();
  const Result<std::string> read = os::RealFileSystem().Read(file == "-" ? "/dev/stdin" : file, run::kMostSolution + 1);
  if (read.ok() && read->size() > run::kMostSolution)
    return Bad(StrCat(Printable(file), " has more than ", FormatBytes(run::kMostSolution), ", the most of a solution"));
  return read;
}

/// Whether it was better than all that were known.
Result<bool> Offer(const run_dir::Part& part, double value, std::string solution) {
  const std::unique_ptr<os::EventLoop> loop = os::MakeEventLoop();
  std::optional<pb::BestAnswer> answer;
  Status over;
  client::Session session(loop.get(), part, {},
                          {.greeted = [](const pb::ClientHello&) {},
                           .taken = [](uint64_t, uint32_t) {},
                           .refused = [](uint64_t, const Status&) {},
                           .settled = [](uint64_t, const pb::SettledTask&) {},
                           .best =
                               [&](const pb::BestAnswer& told) {
                                 answer = told;
                                 loop->Stop();
                               },
                           .over =
                               [&](const Status& why) {
                                 over = why;
                                 loop->Stop();
                               }});
  pb::FromClient offer;
  offer.mutable_offer()->set_number(1);
  offer.mutable_offer()->mutable_best()->set_value(value);
  offer.mutable_offer()->mutable_best()->set_solution(std::move(solution));
  session.AskBest(std::move(offer));
  session.Start();
  while (!answer && over.ok()) loop->Run();
  if (!answer) return over;
  if (!answer->why().empty()) return Status(Code::kUnavailable, answer->why());
  return answer->better();
}

int Show(const run_dir::Part& part, const BestOptions& options) {
  const Result<std::optional<run::BestValue>> best = run::ReadBest(part.run);
  if (!best.ok()) return Fail(best.status());
  if (!*best) return Fail(Status(Code::kNotFound, StrCat("no value is known of the run in ", part.run->path(), "; a task tells one by harrow best --min VALUE")));
  const run::BestValue& known = **best;
  if (options.output == "-") {
    WriteTo(STDOUT_FILENO, known.solution);
    return OutputDone();
  }
  if (!options.output.empty()) {
    if (const Status written = os::RealFileSystem().WriteWhole(options.output, known.solution); !written.ok()) return Fail(written);
  }
  std::string text;
  if (options.json) {
    report::JsonWriter json(&text);
    json.BeginObject().Member("run_dir", part.run->path());
    json.Key("value").Number(known.value);
    json.MemberUint("solution_bytes", known.solution.size()).EndObject();
  } else {
    text = ExactText(known.value);
  }
  WriteTo(STDOUT_FILENO, text + "\n");
  return OutputDone();
}

int RunBest(const BestOptions& options) {
  std::string given = options.run_dir;
  if (given.empty()) given = Variable("HARROW_RUN");  // of the task that this is in
  const auto part = OpenRun(given);
  if (!part.ok()) return Fail(part.status());
  if (options.min.empty()) {
    if (!options.with.empty()) return Fail(Bad("--with tells what belongs to a value; name that with --min"));
    return Show(*part, options);
  }
  if (!options.output.empty()) return Fail(Bad("--min offers a value, --output reads the best one; give one of them"));
  const Result<double> value = ParseValue(options.min);
  if (!value.ok()) return Fail(value.status());
  Result<std::string> solution = ReadSolution(options.with);
  if (!solution.ok()) return Fail(solution.status());
  const Result<bool> better = Offer(*part, *value, *std::move(solution));
  if (!better.ok()) return Fail(better.status());
  WriteTo(STDOUT_FILENO, *better ? StrCat(ExactText(*value), " is the best value\n") : StrCat(ExactText(*value), " is not better than what is known\n"));
  return OutputDone();
}

const Registered kBest({.name = "best",
                        .summary = "The best value of a run, and better ones for it",
                        .example = "harrow best --min 3.7 --with x.txt\n         harrow best --output x.txt",
                        .usage = "[options]",
                        .order = 42,
                        .setup = [](CLI::App& app) -> std::function<int()> {
                          auto options = std::make_shared<BestOptions>();
                          AddRunDir(app, &options->run_dir);
                          app.add_option("--min", options->min, "Offer this value; the smallest is the best")->type_name("VALUE");
                          app.add_option("--with", options->with, "What belongs to it; - is stdin")->type_name("FILE");
                          app.add_option("-o,--output", options->output, "Write what belongs to the best value; - is stdout")->type_name("FILE");
                          app.add_flag("--json", options->json, "As a JSON document");
                          return [options] { return RunBest(*options); };
                        }});

}  // namespace
}  // namespace harrow::launcher
