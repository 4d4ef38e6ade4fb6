#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/status.h"

namespace harrow::launcher {

/// Exit status of the program; 128 + signal when a signal ended the run.
enum ExitCode : int {
  kExitDone = 0,        // all tasks done
  kExitTaskFailed = 1,  // a task failed
  kExitUsage = 2,       // bad input or usage
  kExitCannotGoOn = 3,  // the run could not go on
  kExitStopped = 4,     // stopped in time, with tasks open: it can be resumed
};

/// One subcommand. A file launcher/NAME.cc holds it and registers it:
///
///     const Registered kStatus({.name = "status",
///                               .summary = "Show how far a run is",
///                               .example = "harrow status --failed",
///                               .setup = [](CLI::App& app) -> std::function<int()> {
///                                 auto options = std::make_shared<StatusOptions>();
///                                 app.add_option("--run-dir", options->run_dir, "Run
///                                 directory")->type_name("D"); return [options] { return
///                                 RunStatus(*options); };
///                               }});
struct Command {
  std::string name{};
  std::string summary{};  // one line, first letter a capital, no full stop
  std::string example{};  // lines shown under the help text
  std::string usage{};    // what follows "harrow NAME"; empty: made from the options
  bool hidden = false;  // not in the list: for Harrow's own processes
  int order = 100;      // place in the list of subcommands
  /// What is none of its flags, before --, and all from -- on is another program's: ForeignWords() has it.
  bool foreign = false;
  /// Its options come first, and what follows them is another program's, whatever it looks like: ForeignWords() has it.
  bool options_first = false;
  /// Adds options; what it returns runs the command after they have been read and gives the exit status.
  std::function<std::function<int()>(CLI::App&)> setup;
};

struct Registered {
  explicit Registered(Command command);
};

/// The command line's words that belong to another program: of Command::foreign with -- among them.
const std::vector<std::string>& ForeignWords();
/// `harrow WORDS...` in this process; the exit status.
int RunWords(const std::vector<std::string>& words);
/// Is there a subcommand of this name?
bool IsCommand(std::string_view name);

/// What the user got wrong, for Fail().
Status Bad(const std::string& what);
/// Prints "harrow: MESSAGE" on standard error and gives the exit status that fits the status' code.
int Fail(const Status& status);
/// Is it a terminal on which a line can be drawn over? Not where TERM is "dumb" or unset, nor where NO_COLOR asks for
/// plain text.
bool DrawsOn(int fd);
/// The path of this program, to start it again as server or agent.
std::string ThisProgram();
/// Goes on as `harrow WORDS...`, in this process; comes back, with an exit status, only when that fails.
int Become(std::vector<std::string> words);

}  // namespace harrow::launcher
