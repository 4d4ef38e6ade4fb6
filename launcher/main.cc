#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <map>
#include <optional>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "launcher/command.h"
#include "launcher/end_output.h"
#include "os/log.h"
#include "os/standard_descriptors.h"

// The frame of the program: subcommands register themselves before main; here they are listed, found,
// suggested when misspelt, and run.

namespace harrow::launcher {
namespace {

std::vector<Command>& Commands() {
  static std::vector<Command> commands;
  return commands;
}

std::vector<std::string> foreign_words;

/// Help as short as it can be, so that every subcommand's fits a screen of 24 lines.
class ShortHelp : public CLI::Formatter {
 public:
  explicit ShortHelp(const Command* command) : command_(command) {}

  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    std::string out = command_ == nullptr ? ProgramHelp() : CommandHelp(*app);
    return out;
  }

 private:
  static std::string Row(const std::string& left, const std::string& right, size_t width) {
    std::string row = StrCat("  ", left);
    if (right.empty()) return row + "\n";
    row.append(row.size() < width ? width - row.size() : 2, ' ');
    return row + right + "\n";
  }

  static std::string ProgramHelp() {
    std::string out =
        "usage: harrow COMMAND [options]: run a flow of many tasks in a job, or here\n\n";
    for (const Command& command : Commands()) {
      if (!command.hidden) out += Row(command.name, command.summary, 14);
    }
    return out +
           "harrow COMMAND --help tells more, harrow help flow opens the manual of flows.\n"
           "example: seq 100 | sed 's/^/echo /' > tasks.txt && harrow run tasks.txt\n";
  }

  /// An option without a description of its own shares that of the next one, in one row.
  static std::string Left(const CLI::Option& option) {
    std::string left = option.get_name(option.get_positional(), true);
    std::replace(left.begin(), left.end(), ',', ' ');
    if (!option.get_positional() && !option.get_type_name().empty())
      left += StrCat(" ", option.get_type_name());
    return left;
  }

  std::string CommandHelp(const CLI::App& app) const {
    std::string usage = command_->usage;
    const auto options =
        app.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
    if (usage.empty()) {
      if (options.size() > 1) usage = "[options]";
      for (const CLI::Option* option : options) {
        if (!option->get_positional()) continue;
        const std::string name = option->get_name(true) + (option->get_items_expected_max() > 1 ? "..." : "");
        usage += option->get_required() ? StrCat(" ", name) : StrCat(" [", name, "]");
      }
    }
    std::string out = StrCat("usage: harrow ", command_->name, " ", usage, "\n", command_->summary, ".\n");
    size_t width = 0;
    for (const CLI::Option* option : options) width = std::max(width, Left(*option).size() + 4);
    width = std::min<size_t>(width, 26);
    std::string together;
    for (const CLI::Option* option : options) {
      if (option->get_name() == "--help") continue;
      together += Left(*option);
      if (option->get_description().empty() && !option->get_positional()) {
        together += ", ";
        continue;
      }
      out += Row(std::exchange(together, ""), option->get_description(), width);
    }
    if (!command_->example.empty()) out += StrCat("example: ", command_->example, "\n");
    return out;
  }

  const Command* command_;
};

int UsageError(const std::string& message, const std::string& where) {
  std::cerr << "harrow: " << message << "\ntry: harrow " << where << (where.empty() ? "" : " ") << "--help\n";
  return kExitUsage;
}

std::string SuggestText(std::string_view word, const std::vector<std::string>& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  const auto near = Suggest(word, views);
  return near ? StrCat("; did you mean '", *near, "'?") : "";
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

CLI::App* FindCommand(CLI::App& app, const std::string& name) {
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) {
    if (sub->get_name() == name) return sub;
  }
  return nullptr;
}

/// Sets aside what belongs to another program; what is left is the command's own.
std::vector<std::string> TakeForeign(const CLI::App& command, std::vector<std::string> words) {
  foreign_words.clear();
  std::vector<std::string> own = {words[0]};
  for (size_t i = 1; i < words.size(); ++i) {
    const bool mine = words[i].size() > 2
                          ? words[i].starts_with("--") && command.get_option_no_throw(words[i]) != nullptr
                          : words[i] == "-h";
    if (words[i] == "--") {
      foreign_words.insert(foreign_words.end(), words.begin() + static_cast<ptrdiff_t>(i), words.end());
      break;
    }
    (mine ? own : foreign_words).push_back(words[i]);
  }
  return own;
}

/// Is the word after it its value?
bool TakesNext(const CLI::App& command, const std::string& word) {
  const auto takes = [&](const std::string& name) {
    const CLI::Option* const option = command.get_option_no_throw(name);
    return option != nullptr && option->get_items_expected_min() > 0;
  };
  if (word.starts_with("--")) return takes(word);
  // Of several letters the first that takes a value has what stands behind it.
  for (size_t at = 1; at < word.size(); ++at) {
    if (takes(StrCat("-", word[at]))) return at + 1 == word.size();
  }
  return false;
}

/// Sets aside what follows the command's own options, and a "--" between them: the parser would take it for a subcommand,
/// where there is one of that name.
std::vector<std::string> TakeRest(const CLI::App& command, std::vector<std::string> words) {
  size_t own = 1;
  while (own < words.size() && words[own].starts_with("-") && words[own] != "-" && words[own] != "--")
    own += TakesNext(command, words[own]) ? 2 : 1;
  own = std::min(own, words.size());
  const size_t rest = own < words.size() && words[own] == "--" ? own + 1 : own;
  foreign_words.assign(words.begin() + static_cast<ptrdiff_t>(rest), words.end());
  words.resize(own);
  return words;
}

/// An option that is given an empty value, as by a shell's variable that is not set ("--run-dir=$D"): the parser would take
/// the next word for it.
std::optional<std::string> OptionWithoutValue(const CLI::App& command, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") break;
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    const std::string name = word.substr(0, word.size() - 1);
    if (command.get_option_no_throw(name) != nullptr) return name;
  }
  return std::nullopt;
}

/// The manual's page of what is no command: "flow" is harrow-flow(5).
int OpenManual(const std::string& topic, std::vector<std::string> known) {
  for (const char* page : {"harrow-flow", "harrow-cluster", "harrow.conf", "harrow-plugin"}) {
    const std::string name = page + std::string_view("harrow-").size();
    known.push_back(name);
    if (topic != name && topic != page) continue;
    std::cout.flush();
    execlp("man", "man", page, nullptr);
    return UsageError(
        StrCat("the manual cannot be opened, as there is no man: see ", page, " in contrib/man"), "");
  }
  return UsageError(StrCat("no command '", Printable(topic), "'", SuggestText(topic, known)), "");
}

/// What ends the program where a thread cannot be made. Not by catching in main: on the way there threads
/// that were made before would be left running.
[[noreturn]] void TellUncaught() {
  try {
    if (std::current_exception() != nullptr) std::rethrow_exception(std::current_exception());
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      const std::string text =
          StrCat("no more threads can be started (", error.code().message(),
                 "); raise the limit of processes (ulimit -u), or run with fewer --slots");
      os::LogError(text);
      std::cerr << "harrow: " << text << std::endl;
      _Exit(kExitCannotGoOn);
    }
  } catch (...) {
  }
  std::cerr << "harrow: ended by an error that nothing expected" << std::endl;
  abort();
}

int Main(std::vector<std::string> words) {
  std::vector<Command>& commands = Commands();
  std::stable_sort(commands.begin(), commands.end(),
                   [](const Command& a, const Command& b) { return a.order < b.order; });
  CLI::App app("", "harrow");
  app.set_help_flag("-h,--help", "Show this help");
  app.set_version_flag("--version", "harrow " HARROW_VERSION);
  app.formatter(std::make_shared<ShortHelp>(nullptr));
  std::map<const CLI::App*, std::function<int()>> actions;
  std::vector<std::string> names;
  for (const Command& command : commands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->formatter(std::make_shared<ShortHelp>(&command));
    if (!command.hidden) names.push_back(command.name);
    actions[sub] = command.setup(*sub);
  }
  if (words.empty()) {
    std::cerr << app.help();
    return kExitUsage;
  }
  const std::string first = words[0];
  if (first == "help") {
    CLI::App* sub = words.size() > 1 ? FindCommand(app, words[1]) : nullptr;
    if (words.size() > 1 && sub == nullptr) return OpenManual(words[1], names);
    std::cout << (sub != nullptr ? sub : &app)->help();
    return kExitDone;
  }
  if (!first.starts_with("-") && FindCommand(app, first) == nullptr) {
    return UsageError(StrCat("no command '", Printable(first), "'", SuggestText(first, names)), "");
  }
  CLI::App* chosen = FindCommand(app, first);
  for (const Command& command : commands) {
    if (command.name != first) continue;
    if (command.foreign) words = TakeForeign(*chosen, std::move(words));
    if (command.options_first) words = TakeRest(*chosen, std::move(words));
    if (const auto option = OptionWithoutValue(*chosen, words))
      return UsageError(StrCat(*option, "= has no value; write one behind the =, or leave the option out"), first);
  }
  std::reverse(words.begin(), words.end());  // as the parser wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    std::cout << (chosen != nullptr ? chosen : &app)->help();
    return kExitDone;
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << "\n";
    return kExitDone;
  } catch (const CLI::ExtrasError&) {
    const CLI::App& where = chosen != nullptr ? *chosen : app;
    const std::vector<std::string> extras = app.remaining(true);
    const std::string word = extras.empty() ? "" : extras.front();
    const std::string what = word.starts_with("-") ? "unknown option" : "unexpected argument";
    return UsageError(StrCat(what, " '", Printable(word), "'",
                             SuggestText(word.substr(0, word.find('=')), OptionNames(where))),
                      chosen != nullptr ? chosen->get_name() : "");
  } catch (const CLI::ParseError& error) {
    return UsageError(error.what(), chosen != nullptr ? chosen->get_name() : "");
  }
  for (const auto& [sub, action] : actions) {
    if (sub->parsed()) return action();
  }
  std::cerr << app.help();
  return kExitUsage;
}

}  // namespace

const std::vector<std::string>& ForeignWords() {
  return foreign_words;
}

int RunWords(const std::vector<std::string>& words) {
  return Main(words);
}

bool IsCommand(std::string_view name) {
  return std::any_of(Commands().begin(), Commands().end(),
                     [&](const Command& command) { return command.name == name; });
}

Registered::Registered(Command command) {
  Commands().push_back(std::move(command));
}

int Become(std::vector<std::string> words) {
  words.insert(words.begin(), ThisProgram());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::cout.flush();
  std::cerr.flush();
  execv(argv[0], argv.data());
  return Fail(
      Status(Code::kInternal, StrCat(words[0], " cannot be started again: ", strerrordesc_np(errno))));
}

Status Bad(const std::string& what) {
  return Status(Code::kInvalid, what);
}

int Fail(const Status& status) {
  std::cerr << "harrow: " << status.message() << "\n";
  switch (status.code()) {
    case Code::kOk:
      return kExitDone;
    case Code::kInvalid:
    case Code::kNotFound:
    case Code::kExists:
      return kExitUsage;
    default:
      return kExitCannotGoOn;
  }
}

bool DrawsOn(int fd) {
  if (isatty(fd) != 1) return false;
  const char* terminal = getenv("TERM");
  const char* no_colour = getenv("NO_COLOR");
  const std::string_view kind = terminal == nullptr ? "" : terminal;
  return !kind.empty() && kind != "dumb" && (no_colour == nullptr || *no_colour == '\0');
}

std::string ThisProgram() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : "harrow";
}

}  // namespace harrow::launcher

int main(int argc, char** argv) {
  harrow::os::OccupyStandardDescriptors();
  std::ios::sync_with_stdio(false);
  harrow::launcher::BeginOutput();
  std::set_terminate(harrow::launcher::TellUncaught);
  try {
    return harrow::launcher::EndOutput(harrow::launcher::RunWords({argv + (argc > 0 ? 1 : 0), argv + argc}));
  } catch (const std::bad_alloc&) {
    std::cerr << "harrow: there is not enough memory to go on\n";
    return harrow::launcher::kExitCannotGoOn;
  }
}
