#include "criu/hold.h"

#include <iostream>
#include <memory>

#include "base/text.h"
#include "launcher/command.h"

namespace harrow::launcher {
namespace {

struct HoldWords {
  criu::HoldOptions hold;
  std::string try_below;
};

int RunHold(HoldWords words) {
  if (!words.try_below.empty()) {
    const Result<std::string> version = criu::Try(words.hold.program, words.try_below);
    if (!version.ok()) return Fail(version.status());
    std::cout << *version << "\n";
    return kExitDone;
  }
  words.hold.argv = ForeignWords();
  if (!words.hold.argv.empty() && words.hold.argv.front() == "--") words.hold.argv.erase(words.hold.argv.begin());
  if (words.hold.argv.empty()) return Fail(Bad("harrow hold: no command"));
  return criu::Hold(words.hold);
}

const Registered kHold({.name = "hold",
                        .summary = "Run a program that CRIU can dump; what an agent starts for a task with checkpoint = \"criu\"",
                        .example = "",
                        .usage = "",
                        .hidden = true,
                        .options_first = true,
                        .setup = [](CLI::App& app) -> std::function<int()> {
                          auto words = std::make_shared<HoldWords>();
                          app.add_option("--criu", words->hold.program, "CRIU")->type_name("PATH")->required();
                          app.add_option("--images", words->hold.images, "Where images go")->type_name("D");
                          app.add_option("--restore", words->hold.restore, "Go on from the image there")->type_name("D");
                          app.add_option("--trouble", words->hold.trouble, "Why there is none")->type_name("FILE");
                          app.add_option("--signal", words->hold.ask, "Asks for an image")->type_name("N");
                          app.add_option("--status", words->hold.status, "The exit status then")->type_name("N");
                          app.add_option("--limit", words->hold.limit_ms, "Most that CRIU may take")->type_name("MS");
                          app.add_option("--try", words->try_below, "See whether it works, below that directory")->type_name("D");
                          return [words] { return RunHold(*words); };
                        }});

}  // namespace
}  // namespace harrow::launcher
