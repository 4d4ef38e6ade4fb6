#include <algorithm>
#include <iostream>
#include <memory>
#include <unistd.h>

#include "base/text.h"
#include "config/run_options.h"
#include "launcher/command.h"
#include "launcher/doctor_checks.h"
#include "launcher/inputs.h"
#include "launcher/run_access.h"
#include "os/file_system.h"
#include "report/json.h"

namespace harrow::launcher {
namespace {

struct DoctorOptions {
  std::string run_dir;
  bool config = false;
  bool json = false;
};

const char* Word(Health health) {
  return health == Health::kOk ? "ok" : health == Health::kWarning ? "warning" : "bad";
}

/// Variables that look as if they were to set something, and set nothing: there may be others by that beginning.
void TellMisspelt(const std::vector<config::SettingInfo>& known) {
  constexpr std::string_view kOthers[] = {"CONF", "LOCAL", "NODE", "NODELIST", "PART", "RANK", "RANKS", "RUN", "TASK_ID", "TASK_NAME"};
  std::vector<std::string_view> names;
  for (const config::SettingInfo& info : known) names.push_back(info.key);
  for (const std::string& entry : Environment()) {
    constexpr std::string_view kBegin = "HARROW_";
    if (!entry.starts_with(kBegin)) continue;
    const std::string variable = entry.substr(0, entry.find('='));
    if (std::find(std::begin(kOthers), std::end(kOthers), variable.substr(kBegin.size())) != std::end(kOthers)) continue;
    const std::string name = LowerCase(variable.substr(kBegin.size()));
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const auto near = Suggest(name, names);
    if (!near) continue;
    std::cerr << "harrow: warning: " << Printable(variable, 60) << " sets nothing; did you mean " << kBegin << UpperCase(*near) << "?\n";
  }
}

/// Each setting, what it is here, and who says so.
int ShowConfig(bool as_json) {
  const auto settings = config::ReadSettings(os::RealFileSystem(), Environment());
  if (!settings.ok()) return FailInput(settings.status());
  config::RunOptions options;
  if (const Status applied = config::Apply(*settings, &options); !applied.ok()) return FailInput(applied);
  std::string text;
  report::JsonWriter json(&text);
  if (as_json) json.BeginObject().MemberUint("version", 1).Key("settings").BeginArray();
  const std::vector<config::SettingInfo> known = config::DescribeSettings(options, *settings);
  TellMisspelt(known);
  for (const config::SettingInfo& info : known) {
    const std::string place = info.place.empty() ? "default" : info.place;
    if (as_json) {
      json.BeginObject().Member("key", info.key).Member("value", info.current).Member("from", place);
      json.Member("values", info.values).Member("help", info.help).EndObject();
      continue;
    }
    std::string line(info.key);
    line.resize(std::max<size_t>(19, line.size() + 1), ' ');
    line += info.current.empty() ? "-" : Printable(info.current, 200);
    line.resize(std::max<size_t>(35, line.size() + 2), ' ');
    text += StrCat(line, Printable(place, 300), place.starts_with("HARROW_SITE_") ? " (the site's Slurm plugin)" : "", "\n");
  }
  if (as_json) {
    json.EndArray().EndObject();
    text += "\n";
  }
  WriteTo(STDOUT_FILENO, text);
  return OutputDone();
}

int RunDoctor(const DoctorOptions& options) {
  if (options.config) return ShowConfig(options.json);
  std::vector<Check> checks;
  const auto add = [&checks](std::vector<Check> more) {
    for (Check& check : more) checks.push_back(std::move(check));
  };
  add(CheckCores());
  add(CheckCgroup());
  add(CheckProcesses());
  add(CheckCriu());
  add(CheckDirectory(options.run_dir.empty() ? "." : options.run_dir));
  add(CheckNetwork());
  add(CheckBatch());
  add(CheckSite());
  add(CheckSettings());
  if (!options.run_dir.empty()) add(CheckRun(options.run_dir));

  bool bad = false;
  std::string text;
  report::JsonWriter json(&text);
  if (options.json) json.BeginObject().MemberUint("version", 1).Key("checks").BeginArray();
  for (const Check& check : checks) {
    bad |= check.health == Health::kBad;
    if (options.json) {
      json.BeginObject().Member("name", check.name).Member("state", Word(check.health));
      json.Member("text", check.text).Member("advice", check.advice).EndObject();
      continue;
    }
    std::string line = Word(check.health);
    line.resize(9, ' ');
    line += check.name;
    line.resize(std::max<size_t>(21, line.size() + 1), ' ');
    text += StrCat(line, check.text, "\n");
    if (!check.advice.empty()) text += StrCat(std::string(21, ' '), "-> ", check.advice, "\n");
  }
  if (options.json) {
    json.EndArray().EndObject();
    text += "\n";
  }
  WriteTo(STDOUT_FILENO, text);
  const int written = OutputDone();
  return written != kExitDone ? written : bad ? 1 : 0;
}

const Registered kDoctor({.name = "doctor",
                          .summary = "Check what runs on this machine depend on, and say what to do",
                          .example = "harrow doctor --run-dir /scratch/$USER",
                          .usage = "[options]",
                          .order = 45,
                          .setup = [](CLI::App& app) -> std::function<int()> {
                            auto options = std::make_shared<DoctorOptions>();
                            app.add_option("--run-dir", options->run_dir,
                                           "A run, or where runs shall be (default: here)")
                                ->type_name("D");
                            app.add_flag("--config", options->config,
                                         "Only the settings: each one's value, and who says so");
                            app.add_flag("--json", options->json, "One JSON document");
                            return [options] { return RunDoctor(*options); };
                          }});

}  // namespace
}  // namespace harrow::launcher
