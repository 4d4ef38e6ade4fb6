// Settings: one table says how each is read, shown and explained; harrow.conf, the environment, [flow] and
// the command line all go through it. Keys are written with _ or -, in any case. harrow.conf is TOML
// (formats/settings_file.h).
#include "config/run_options.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "formats/settings_file.h"
#include "os/file_identity.h"

namespace harrow::config {
namespace {

Status Invalid(std::string text) {
  return Status(Code::kInvalid, std::move(text));
}

Status Refuse(std::string_view key, std::string_view value, std::string_view right) {
  return Invalid(StrCat(key, " cannot be \"", Printable(value, 60), "\"; write ", right));
}

/// How one setting is read into the options and shown again.
struct Key {
  std::string_view name;
  std::string_view values;  // for people
  std::string_view help;
  bool in_flow;  // may a flow file say it?
  std::function<Status(const Key&, std::string_view, RunOptions*)> set;
  std::function<std::string(const RunOptions&)> show;
  std::function<std::string(const RunOptions&)> exact =
      {};                   // what `set` reads back as it was; none: as shown
  bool of_command = false;  // a matter of one command: not stored with a run
};

Key OfCommand(Key key) {
  key.of_command = true;
  return key;
}

Key FlagKey(std::string_view name, bool RunOptions::*member, std::string_view help, bool in_flow = true) {
  return {name,
          "true | false",
          help,
          in_flow,
          [member](const Key& key, std::string_view value, RunOptions* options) {
            const bool yes = value == "true" || value == "yes" || value == "on" || value == "1";
            const bool no = value == "false" || value == "no" || value == "off" || value == "0";
            if (!yes && !no) return Refuse(key.name, value, "true or false");
            options->*member = yes;
            return Status();
          },
          [member](const RunOptions& options) { return std::string(options.*member ? "true" : "false"); }};
}

/// "0.05", "5%".
std::optional<double> ParseShare(std::string_view value) {
  const bool percent = value.ends_with('%');
  if (percent) value.remove_suffix(1);
  const std::optional<double> number = ParseNumber(value);
  if (!number) return std::nullopt;
  const double share = percent ? *number / 100 : *number;
  if (share < 0 || share > 1) return std::nullopt;
  return share;
}

template <class Int>
Key NumberKey(std::string_view name, Int RunOptions::*member, std::string_view unit, uint64_t least,
              uint64_t most, std::string_view help, bool in_flow = true) {
  return {
      name,
      unit,
      help,
      in_flow,
      [=](const Key& key, std::string_view value, RunOptions* options) {
        uint64_t number = 0;
        const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
        if (error != std::errc() || end != value.data() + value.size() || number < least || number > most) {
          return Refuse(key.name, value, StrCat("a whole number from ", least, " to ", most));
        }
        options->*member = static_cast<Int>(number);
        return Status();
      },
      [member](const RunOptions& options) { return StrCat(options.*member); }};
}

std::string ExactTime(Duration d) {
  const std::string nanoseconds = StrCat(d.count() % 1'000'000'000);
  return StrCat(d.count() / 1'000'000'000, ".", std::string(9 - nanoseconds.size(), '0'), nanoseconds, "s");
}

Key TimeKey(std::string_view name, Duration RunOptions::*member, Duration least, Duration most,
            std::string_view help, bool in_flow) {
  return {name,
          "time: s, m, h or d",
          help,
          in_flow,
          [=](const Key& key, std::string_view value, RunOptions* options) {
            Result<Duration> time = ParseDuration(value);
            if (!time) return Invalid(StrCat(key.name, ": ", time.status().message()));
            if (*time < least || *time > most) {
              return Refuse(key.name, value,
                            StrCat("a time from ", FormatDuration(least), " to ", FormatDuration(most)));
            }
            options->*member = *time;
            return Status();
          },
          [member](const RunOptions& options) { return FormatDuration(options.*member); },
          [member](const RunOptions& options) { return ExactTime(options.*member); }};
}

Key TextKey(std::string_view name, std::string RunOptions::*member, std::string_view values,
            std::string_view help, bool in_flow) {
  return {name,
          values,
          help,
          in_flow,
          [member](const Key& key, std::string_view value, RunOptions* options) {
            if (value.empty()) return Refuse(key.name, value, "a text, or leave it out");
            options->*member = value;
            return Status();
          },
          [member](const RunOptions& options) { return options.*member; }};
}

/// An empty one is none, and takes back what somebody weaker has said.
Key CommandKey(std::string_view name, std::string RunOptions::*member, std::string_view help) {
  Key key = TextKey(name, member, "command", help, true);
  key.set = [member](const Key&, std::string_view value, RunOptions* options) {
    options->*member = value;
    return Status();
  };
  return key;
}

/// An empty one is none, and takes back what somebody weaker has said.
Key DirectoryKey(std::string_view name, std::string RunOptions::*member, std::string_view help) {
  Key key = TextKey(name, member, "directory", help, false);
  key.set = [member](const Key& self, std::string_view value, RunOptions* options) {
    if (!value.empty() && !value.starts_with('/')) return Refuse(self.name, value, "an absolute path");
    options->*member = value;
    return Status();
  };
  return key;
}

template <class Enum>
Key ChoiceKey(std::string_view name, Enum RunOptions::*member,
              std::vector<std::pair<std::string_view, Enum>> choices, std::string_view values,
              std::string_view help, bool in_flow) {
  return {name,
          values,
          help,
          in_flow,
          [=](const Key& key, std::string_view value, RunOptions* options) {
            for (const auto& [word, choice] : choices) {
              if (word != value) continue;
              options->*member = choice;
              return Status();
            }
            return Refuse(key.name, value, values);
          },
          [=](const RunOptions& options) {
            for (const auto& [word, choice] : choices) {
              if (options.*member == choice) return std::string(word);
            }
            return std::string();
          }};
}

/// A number above 0; "auto", which is 0: it is derived.
Key LimitKey(std::string_view name, double RunOptions::*member, std::string_view help) {
  return {name,
          "number | auto",
          help,
          true,
          [member](const Key& key, std::string_view value, RunOptions* options) {
            const std::optional<double> number = value == "auto" ? 0 : ParseNumber(value);
            if (!number || *number < 0 || (*number == 0 && value != "auto"))
              return Refuse(key.name, value, "a number above 0, or auto");
            options->*member = *number;
            return Status();
          },
          [member](const RunOptions& options) {
            return options.*member == 0 ? std::string("auto") : ExactText(options.*member);
          }};
}

const std::vector<Key>& Keys() {
  using std::chrono::hours;
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  static const std::vector<Key> keys = {
      TextKey("name", &RunOptions::name, "text", "name of the run", true),
      {"order", "auto | fifo | lifo | hrf | lifo+hrf | rank+hrf | cost", "which ready task is taken first", true,
       [](const Key& key, std::string_view value, RunOptions* options) {
         const std::optional<order::Policy> policy = order::ParsePolicy(value);
         if (!policy) return Refuse(key.name, value, "auto, fifo, lifo, hrf, lifo+hrf, rank+hrf or cost");
         options->order = *policy;
         return Status();
       },
       [](const RunOptions& options) { return std::string(order::PolicyName(options.order)); }},
      FlagKey("steal", &RunOptions::steal, "idle slots take tasks from other nodes' queues"),
      FlagKey("locality", &RunOptions::locality, "tasks go where their input files are"),
      ChoiceKey<cost::Place>("place", &RunOptions::place,
                             {{"files", cost::Place::kFiles},
                              {"cost-paper", cost::Place::kCostPaper},
                              {"cost", cost::Place::kCost}},
                             "files | cost-paper | cost",
                             "tasks go where their files are, or where they cost least by their models", true),
      LimitKey("tg_max", &RunOptions::tg_max,
               "with place = cost: as long as there are so many groups of tasks, more are put together"),
      LimitKey("ct_max", &RunOptions::ct_max,
               "with place = cost: tasks stay together that write so much to each other"),
      TextKey("costs_from", &RunOptions::costs_from, "run",
              "with place or order = cost: what tasks took in this earlier run is expected of them", true),
      ChoiceKey<Files>("files", &RunOptions::files, {{"shared", Files::kShared}, {"local", Files::kLocal}},
                       "shared | local",
                       "tasks work on the shared file system, or in stores on the nodes' disks", true),
      FlagKey("transfer_encryption", &RunOptions::transfer_encryption,
              "what streams hold, and with files = local what files hold, is encrypted between nodes"),
      FlagKey("save", &RunOptions::save,
              "with files = local: what open tasks read is copied to the submit directory before a run stops"),
      DirectoryKey("local_dir", &RunOptions::local_dir,
                   "on each node, for TMPDIRs and stores of files; none: the job's own, TMPDIR or /tmp"),
      TextKey("criu", &RunOptions::criu, "program", "CRIU 4 or later, on each node, for tasks with checkpoint = criu", true),
      ChoiceKey<MpiProfile>("mpi_profile", &RunOptions::mpi_profile,
                            {{"none", MpiProfile::kNone}, {"no-fabric", MpiProfile::kNoFabric}}, "none | no-fabric",
                            "ranks of Open MPI look for no fabric, on nodes that have none", true),
      NumberKey("seed", &RunOptions::seed, "number", 0, UINT64_MAX,
                "of orders that draw, so that a run can be repeated"),
      NumberKey("retries", &RunOptions::retries, "attempts", 0, 1000, "more attempts for a task that fails"),
      TimeKey("retry_delay", &RunOptions::retry_delay, seconds(0), hours(24),
              "before a task that has failed is tried again", true),
      {"stop_gap", "0.05 or 5%", "tasks are pruned whose bound is nearer to the best value (harrow best)", true,
       [](const Key& key, std::string_view value, RunOptions* options) {
         const std::optional<double> gap = ParseShare(value);
         if (!gap) return Refuse(key.name, value, "a part of the best value from 0 to 1, as 0.05 or 5%");
         options->stop_gap = *gap;
         return Status();
       },
       [](const RunOptions& options) { return ExactText(options.stop_gap); }},
      FlagKey("fail_fast", &RunOptions::fail_fast, "the first failed task ends the run"),
      NumberKey("max_failures", &RunOptions::max_failures, "tasks", 0, UINT32_MAX,
                "start nothing more after so many failed tasks; 0: never"),
      NumberKey("max_running", &RunOptions::max_running, "tasks", 0, UINT32_MAX,
                "tasks that run at once, on all nodes together; 0: as many as fit"),
      NumberKey("max_losses", &RunOptions::max_losses, "losses", 1, 1000,
                "a task lost so often with its node has failed"),
      NumberKey("bad_node_failures", &RunOptions::bad_node_failures, "failures", 0, 1'000'000,
                "failures in a row within a second that put a node aside; 0: never"),
      {"output_limit", "bytes: K, M, G or T", "kept of a task's stdout, and of its stderr; 0: no limit", true,
       [](const Key& key, std::string_view value, RunOptions* options) {
         Result<uint64_t> bytes = ParseBytes(value);
         if (!bytes) return Invalid(StrCat(key.name, ": ", bytes.status().message()));
         options->output_limit = *bytes;
         return Status();
       },
       [](const RunOptions& options) { return FormatBytes(options.output_limit); },
       [](const RunOptions& options) { return StrCat(options.output_limit); }},
      TextKey("shell", &RunOptions::shell, "program", "for commands that need a shell", true),
      NumberKey("slots", &RunOptions::slots, "slots", 0, 65536,
                "tasks of one core that run on a node at once; 0: its allowed cores", false),
      NumberKey("local_nodes", &RunOptions::local_nodes, "nodes", 1, 1000,
                "pretend nodes of a run on one machine", false),
      FlagKey("pin", &RunOptions::pin, "bind each task to cores of its own"),
      TimeKey("lease", &RunOptions::lease, seconds(5), hours(24 * 7),
              "an agent that hears of no server for so long ends", false),
      TimeKey(
          "fence", &RunOptions::fence, seconds(2), hours(1),
          "a node unheard of for so long is lost: its tasks, which it stops before, start again elsewhere",
          false),
      TimeKey("end_margin", &RunOptions::end_margin, seconds(0), hours(24),
              "kept free before the allocation's end", false),
      CommandKey("node_setup", &RunOptions::node_setup,
                 "on each node before its first task; where it fails, the node is put aside"),
      CommandKey("node_teardown", &RunOptions::node_teardown, "on each node after its last task"),
      TimeKey("node_limit", &RunOptions::node_limit, seconds(1), hours(24),
              "most that node_setup, and node_teardown, may take", true),
      CommandKey("on_end", &RunOptions::on_end, "when the run has ended, with its exit status and counts"),
      TimeKey("on_end_limit", &RunOptions::on_end_limit, seconds(1), hours(24), "most that on_end may take",
              true),
      ChoiceKey<Moves>("moves", &RunOptions::moves, {{"direct", Moves::kDirect}, {"via-supervisor", Moves::kViaSupervisor}},
                       "direct | via-supervisor", "the way of tasks from one allocation of the run to another", true),
      ChoiceKey<MoveTrigger>(
          "move_trigger", &RunOptions::move_trigger,
          {{"empty", MoveTrigger::kEmpty}, {"low", MoveTrigger::kLow}, {"always", MoveTrigger::kAlways}},
          "empty | low | always", "when tasks are shared out anew between allocations", true),
      ChoiceKey<MoveAmount>("move_amount", &RunOptions::move_amount,
                            {{"capacity", MoveAmount::kCapacity}, {"workers", MoveAmount::kWorkers}}, "capacity | workers",
                            "what an allocation's share is by: its slots' speed, or their number", true),
      NumberKey("move_alpha", &RunOptions::move_alpha, "percent", 1, 99,
                "with move_trigger = low: of its share, fewer tasks than which are few"),
      FlagKey("move_all", &RunOptions::move_all, "tasks move also where that saves no time"),
      TimeKey("report_period", &RunOptions::report_period, milliseconds(1), seconds(60),
              "a server tells how many tasks it has so often", true),
      OfCommand(ChoiceKey<Progress>(
          "progress", &RunOptions::progress,
          {{"auto", Progress::kAuto}, {"plain", Progress::kPlain}, {"none", Progress::kNone}},
          "auto | plain | none", "how progress is shown", false)),
      OfCommand(TextKey("run_dir", &RunOptions::run_dir, "directory", "where the run is recorded", false)),
  };
  return keys;
}

std::string Normal(std::string_view key) {
  std::string normal = LowerCase(key);
  std::replace(normal.begin(), normal.end(), '-', '_');
  return normal;
}

const Key* FindKey(std::string_view name) {
  const std::string normal = Normal(name);
  for (const Key& key : Keys()) {
    if (key.name == normal) return &key;
  }
  return nullptr;
}

Status UnknownKey(std::string_view name, bool in_flow) {
  std::vector<std::string_view> names;
  std::string all;
  for (const Key& key : Keys()) {
    if (in_flow && !key.in_flow) continue;
    names.push_back(key.name);
    all += StrCat(all.empty() ? "" : ", ", key.name);
  }
  const auto near = Suggest(Normal(name), names);
  return Invalid(StrCat("unknown setting ", Printable(name, 60),
                        near ? StrCat("; did you mean ", *near, "?") : StrCat("; settings are ", all)));
}

Status Set(std::string_view key, std::string_view value, RunOptions* options) {
  const Key* known = FindKey(key);
  return known != nullptr ? known->set(*known, value, options) : UnknownKey(key, false);
}

enum class Conf { kSite, kNamed, kUser };

/// Settings name commands: root runs nobody else's.
bool IsNotRoots(const std::string& path) {
  struct stat st {};
  return geteuid() == 0 && stat(path.c_str(), &st) == 0 && st.st_uid != 0;
}

Status ReadConf(os::FileSystem& fs, const std::string& path, Conf whose, std::vector<Setting>* settings) {
  if (whose == Conf::kUser && IsNotRoots(path)) return Status();  // as where it may not be read
  Result<std::string> text = os::IsFifo(path)
                                 ? Status(Code::kInvalid, StrCat("cannot read ", path, ": it is a FIFO"))
                                 : fs.Read(path);
  if (!text) {
    const Code code = text.status().code();
    if (code == Code::kNotFound && whose != Conf::kNamed) return Status();
    if (code == Code::kPermission && whose == Conf::kUser)
      return Status();  // HOME is somebody else's (su, sudo)
    return Invalid(StrCat(text.status().message(), whose == Conf::kNamed
                                                       ? "; HARROW_CONF has to name a readable file"
                                                       : "; make it readable, or remove it"));
  }
  Result<std::vector<formats::FlowSetting>> read =
      formats::ReadSettingsFile(path, *text, [](std::string_view key, std::string_view value) {
        RunOptions ignored;
        return Set(key, value, &ignored);
      });
  if (!read.ok()) return read.status();
  for (formats::FlowSetting& setting : *read)
    settings->push_back({Normal(setting.key), std::move(setting.value), std::move(setting.place)});
  return Status();
}

}  // namespace

Status CheckSetting(std::string_view key, std::string_view value) {
  const Key* known = FindKey(key);
  if (known == nullptr) return UnknownKey(key, true);
  if (!known->in_flow) {
    return Invalid(StrCat(
        known->name, " is no setting of a flow; give --",
        [&] {
          std::string option(known->name);
          std::replace(option.begin(), option.end(), '_', '-');
          return option;
        }(),
        " or write it into harrow.conf"));
  }
  RunOptions ignored;
  return known->set(*known, value, &ignored);
}

Status Apply(const std::vector<Setting>& settings, RunOptions* options) {
  std::string problems;
  for (const Setting& setting : settings) {
    if (const Status status = Set(setting.key, setting.value, options); !status.ok()) {
      problems += StrCat(problems.empty() ? "" : "\n", setting.place, setting.place.empty() ? "" : ": ",
                         status.message());
    }
  }
  return problems.empty() ? Status() : Invalid(problems);
}

std::vector<Setting> ToStore(const RunOptions& options) {
  std::vector<Setting> settings;
  for (const Key& key : Keys()) {
    if (key.of_command) continue;
    std::string value = key.exact ? key.exact(options) : key.show(options);
    // An empty text cannot be written, and is the default.
    if (!value.empty()) settings.push_back({std::string(key.name), std::move(value), ""});
  }
  return settings;
}

std::vector<Setting> FromFlow(const formats::Flow& flow) {
  std::vector<Setting> settings;
  for (const formats::FlowSetting& setting : flow.settings)
    settings.push_back({setting.key, setting.value, setting.place});
  return settings;
}

Result<std::vector<Setting>> ReadSettings(os::FileSystem& fs, const std::vector<std::string>& environment) {
  std::vector<Setting> settings;
  const auto variable = [&](std::string_view name) -> std::optional<std::string> {
    for (const std::string& entry : environment) {
      if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name))
        return entry.substr(name.size() + 1);
    }
    return std::nullopt;
  };
  // What the site's plugin for Slurm says to the jobs that use it: the weakest.
  for (const std::string& entry : environment) {
    constexpr std::string_view kSite = "HARROW_SITE_";
    const size_t equals = entry.find('=');
    if (!entry.starts_with(kSite) || equals == std::string::npos || equals + 1 == entry.size()) continue;
    const std::string key = entry.substr(kSite.size(), equals - kSite.size());
    if (FindKey(key) != nullptr)
      settings.push_back({Normal(key), entry.substr(equals + 1), entry.substr(0, equals)});
  }
  const std::optional<std::string> conf = variable("HARROW_CONF");
  HARROW_RETURN_IF_ERROR(
      ReadConf(fs, conf.value_or("/etc/harrow/harrow.conf"), conf ? Conf::kNamed : Conf::kSite, &settings));
  const std::optional<std::string> xdg = variable("XDG_CONFIG_HOME"), home = variable("HOME");
  const std::string user = xdg && !xdg->empty() ? *xdg : home && !home->empty() ? *home + "/.config" : "";
  if (!user.empty())
    HARROW_RETURN_IF_ERROR(ReadConf(fs, user + "/harrow/harrow.conf", Conf::kUser, &settings));
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    if (!entry.starts_with("HARROW_") || equals == std::string::npos) continue;
    const std::string name = entry.substr(0, equals);
    if (FindKey(name.substr(7)) == nullptr || equals + 1 == entry.size()) continue;
    // A task is told its run's directory by the same name; a run within a task needs one of its own.
    if (name == "HARROW_RUN_DIR" && variable("HARROW_TASK_ID")) continue;
    settings.push_back({Normal(name.substr(7)), entry.substr(equals + 1), name});
  }
  RunOptions ignored;
  HARROW_RETURN_IF_ERROR(Apply(settings, &ignored));
  return settings;
}

std::vector<SettingInfo> DescribeSettings(const RunOptions& options) {
  std::vector<SettingInfo> infos;
  for (const Key& key : Keys()) infos.push_back({key.name, key.values, key.help, key.show(options), ""});
  return infos;
}

std::vector<SettingInfo> DescribeSettings(const RunOptions& options, const std::vector<Setting>& settings) {
  std::vector<SettingInfo> infos = DescribeSettings(options);
  for (const Setting& setting : settings) {
    for (SettingInfo& info : infos) {
      if (info.key == Normal(setting.key)) info.place = setting.place;
    }
  }
  return infos;
}

}  // namespace harrow::config
