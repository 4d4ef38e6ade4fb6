#include "config/run_options.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <tuple>
#include <unistd.h>

#include "base/text.h"
#include "support/memory_file_system.h"

namespace harrow::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(ApplyTest, LaterSettingsWin) {
  RunOptions options;
  ASSERT_TRUE(Apply({{"order", "fifo", ""},
                     {"Retries", "2", ""},
                     {"order", "rank+hrf", ""},
                     {"fail-fast", "yes", ""},
                     {"output_limit", "1M", ""},
                     {"lease", "90s", ""},
                     {"files", "local", ""},
                     {"progress", "plain", ""},
                     {"slots", "125", ""},
                     {"pin", "off", ""}},
                    &options)
                  .ok());
  EXPECT_EQ(options.order, order::Policy::kRankHrf);
  EXPECT_EQ(options.retries, 2);
  EXPECT_TRUE(options.fail_fast);
  EXPECT_EQ(options.output_limit, uint64_t{1} << 20);
  EXPECT_EQ(options.lease, std::chrono::seconds(90));
  EXPECT_EQ(options.files, Files::kLocal);
  EXPECT_EQ(options.progress, Progress::kPlain);
  EXPECT_EQ(options.slots, 125u);
  EXPECT_FALSE(options.pin);
}

TEST(ApplyTest, EveryProblemWithItsPlace) {
  RunOptions options;
  const Status status = Apply({{"ordr", "fifo", "HARROW_ORDR"},
                               {"retries", "-1", "--retries"},
                               {"lease", "1s", "x.conf:3:1"},
                               {"local_nodes", "0", ""}},
                              &options);
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("HARROW_ORDR: unknown setting ordr; did you mean order?\n"));
  EXPECT_THAT(status.message(),
              HasSubstr("--retries: retries cannot be \"-1\"; write a whole number from 0 to 1000\n"));
  EXPECT_THAT(status.message(), HasSubstr("x.conf:3:1: lease cannot be \"1s\"; write a time from 5.00 s to"));
  EXPECT_THAT(status.message(), HasSubstr("\nlocal_nodes cannot be \"0\""));
}

/// Each setting, and a value that is not its default.
const std::vector<Setting> kOthers = {{"name", "a \"b\" #c", ""},
                                      {"order", "rank+hrf", ""},
                                      {"steal", "false", ""},
                                      {"locality", "false", ""},
                                      {"place", "cost-paper", ""},
                                      {"tg_max", "12.5", ""},
                                      {"ct_max", "1000000", ""},
                                      {"costs_from", "earlier run", ""},
                                      {"files", "local", ""},
                                      {"transfer_encryption", "false", ""},
                                      {"save", "true", ""},
                                      {"local_dir", "/scratch", ""},
                                      {"criu", "/opt/criu/bin/criu", ""},
                                      {"mpi_profile", "no-fabric", ""},
                                      {"seed", "18446744073709551615", ""},
                                      {"retries", "7", ""},
                                      {"moves", "via-supervisor", ""},
                                      {"move_trigger", "low", ""},
                                      {"move_amount", "workers", ""},
                                      {"move_alpha", "20", ""},
                                      {"move_all", "true", ""},
                                      {"report_period", "25ms", ""},
                                      {"retry_delay", "1.5s", ""},
                                      {"stop_gap", "0.0123456789", ""},
                                      {"fail_fast", "true", ""},
                                      {"max_failures", "3", ""},
                                      {"max_running", "64", ""},
                                      {"max_losses", "6", ""},
                                      {"bad_node_failures", "0", ""},
                                      {"output_limit", "1234567890123", ""},
                                      {"shell", "/bin/bash", ""},
                                      {"slots", "125", ""},
                                      {"local_nodes", "2", ""},
                                      {"pin", "false", ""},
                                      {"lease", "604799.000000001s", ""},
                                      {"fence", "31s", ""},
                                      {"end_margin", "0.05s", ""},
                                      {"node_setup", "mount it", ""},
                                      {"node_teardown", "umount it", ""},
                                      {"node_limit", "1h", ""},
                                      {"on_end", "mail me", ""},
                                      {"on_end_limit", "7m", ""},
                                      {"progress", "plain", ""},
                                      {"run_dir", "r", ""}};

TEST(ToStoreTest, GivesEverySettingBackExactly) {
  const std::vector<SettingInfo> defaults = DescribeSettings(RunOptions());
  ASSERT_EQ(kOthers.size(), defaults.size()) << "a new setting belongs here, too";
  RunOptions options;
  ASSERT_TRUE(Apply(kOthers, &options).ok());
  RunOptions back;
  const Status read = Apply(ToStore(options), &back);
  ASSERT_TRUE(read.ok()) << read.message();
  const std::vector<SettingInfo> before = DescribeSettings(options), after = DescribeSettings(back);
  for (size_t i = 0; i < before.size(); ++i) {
    const bool of_command = before[i].key == "progress" || before[i].key == "run_dir";
    EXPECT_NE(before[i].current, defaults[i].current) << before[i].key;
    EXPECT_EQ(after[i].current, of_command ? defaults[i].current : before[i].current) << before[i].key;
  }
  EXPECT_EQ(back.output_limit, 1234567890123u) << "not as it is shown";
  EXPECT_EQ(back.lease, std::chrono::seconds(604799) + std::chrono::nanoseconds(1));
  EXPECT_EQ(back.end_margin, std::chrono::milliseconds(50));
}

TEST(ApplyTest, NumbersAndTimesWithinTheirBounds) {
  RunOptions options;
  for (const auto& [key, least, most, below, above] :
       {std::tuple("retries", "0", "1000", "-1", "1001"), std::tuple("max_losses", "1", "1000", "0", "1001"),
        std::tuple("bad_node_failures", "0", "1000000", "", "1000001"),
        std::tuple("slots", "0", "65536", "x", "65537"), std::tuple("local_nodes", "1", "1000", "0", "1001"),
        std::tuple("max_failures", "0", "4294967295", "1x", "4294967296"),
        std::tuple("max_running", "0", "4294967295", "x1", "4294967296"),
        std::tuple("seed", "0", "18446744073709551615", "1.5", "18446744073709551616"),
        std::tuple("lease", "5s", "7d", "4.9s", "604801s"), std::tuple("fence", "2s", "1h", "1.9s", "3601s"),
        std::tuple("retry_delay", "0s", "24h", "-1s", "86401s"),
        std::tuple("end_margin", "0s", "24h", "-1s", "86401s"),
        std::tuple("node_limit", "1s", "24h", "0.9s", "86401s"),
        std::tuple("on_end_limit", "1s", "24h", "0.9s", "86401s")}) {
    for (const char* in : {least, most}) EXPECT_EQ(Apply({{key, in, ""}}, &options).message(), "") << key;
    for (const char* out : {below, above})
      EXPECT_EQ(Apply({{key, out, ""}}, &options).code(), Code::kInvalid) << key << " " << out;
  }
}

TEST(ApplyTest, FlagsInTheirWords) {
  RunOptions options;
  for (const char* yes : {"true", "yes", "on", "1"}) {
    options.pin = false;
    EXPECT_TRUE(Apply({{"pin", yes, ""}}, &options).ok() && options.pin) << yes;
  }
  for (const char* no : {"false", "no", "off", "0"}) {
    options.pin = true;
    EXPECT_TRUE(Apply({{"pin", no, ""}}, &options).ok() && !options.pin) << no;
  }
  EXPECT_THAT(Apply({{"pin", "maybe", ""}}, &options).message(), HasSubstr("write true or false"));
  EXPECT_THAT(Apply({{"files", "here", ""}}, &options).message(), HasSubstr("write shared | local"));
  EXPECT_THAT(Apply({{"output_limit", "x", ""}}, &options).message(),
              HasSubstr("output_limit: \"x\" is no number"));
}

TEST(ApplyTest, AnEmptyCommandTakesBackWhatWasSaid) {
  RunOptions options;
  ASSERT_TRUE(
      Apply({{"on_end", "mail me", ""}, {"node_setup", "a", ""}, {"node_teardown", "b", ""}}, &options).ok());
  ASSERT_TRUE(Apply({{"on_end", "", ""}, {"node_setup", "", ""}, {"node_teardown", "", ""}}, &options).ok());
  EXPECT_EQ(options.on_end + options.node_setup + options.node_teardown, "");
  EXPECT_FALSE(CheckSetting("shell", "").ok());
}

TEST(ToStoreTest, GivesTheDefaultsBack) {
  RunOptions back;
  ASSERT_TRUE(Apply(kOthers, &back).ok());
  for (std::string* none : {&back.name, &back.costs_from, &back.local_dir, &back.node_setup, &back.node_teardown, &back.on_end})
    none->clear();
  ASSERT_TRUE(Apply(ToStore(RunOptions()), &back).ok());
  back.progress = RunOptions().progress;
  back.run_dir.clear();
  const std::vector<SettingInfo> defaults = DescribeSettings(RunOptions()), after = DescribeSettings(back);
  for (size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i].current, defaults[i].current) << after[i].key;
}

TEST(CheckSettingTest, KnowsWhatAFlowMaySay) {
  EXPECT_TRUE(CheckSetting("order", "hrf").ok());
  EXPECT_TRUE(CheckSetting("max-failures", "3").ok());
  EXPECT_THAT(CheckSetting("order", "hfr").message(),
              HasSubstr("order cannot be \"hfr\"; write auto, fifo, lifo"));
  for (const SettingInfo& info : DescribeSettings(RunOptions())) {
    const bool of_run = std::set<std::string_view>{"slots", "local_nodes", "local_dir", "lease",
                                                   "fence", "end_margin",  "progress",  "run_dir"}
                            .contains(info.key);
    EXPECT_EQ(CheckSetting(info.key, "").message().find("no setting of a flow") != std::string::npos, of_run)
        << info.key;
  }
  EXPECT_THAT(CheckSetting("nosuchthing", "3").message(),
              AllOf(HasSubstr("; settings are name, order, "), Not(HasSubstr("slots"))));
  EXPECT_THAT(CheckSetting("slots", "3").message(), HasSubstr("slots is no setting of a flow; give --slots"));
  EXPECT_THAT(CheckSetting("local_nodes", "3").message(), HasSubstr("give --local-nodes"));
  EXPECT_THAT(CheckSetting("retry", "3").message(), HasSubstr("did you mean retries?"));
}

TEST(FromFlowTest, GivesItsSettingsWithTheirPlaces) {
  formats::Flow flow;
  flow.settings = {{"order", "fifo", "f.toml:2:9"}, {"retries", "3", "f.toml:3:11"}};
  const std::vector<Setting> settings = FromFlow(flow);
  ASSERT_EQ(settings.size(), 2u);
  EXPECT_EQ(settings[0].key + settings[0].value + settings[0].place, "orderfifof.toml:2:9");
  EXPECT_EQ(settings[1].key + settings[1].value + settings[1].place, "retries3f.toml:3:11");
}

TEST(ReadSettingsTest, SiteThenUserThenEnvironment) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.WriteWhole("/etc/harrow/harrow.conf",
                            "# site\norder = \"fifo\"\nretries=1 # one\nshell = \"/bin/bash\"\n")
                  .ok());
  ASSERT_TRUE(fs.WriteWhole("/home/u/.config/harrow/harrow.conf", "retries = 2\r\nseed = 9\r\n").ok());
  const Result<std::vector<Setting>> settings =
      ReadSettings(fs, {"HOME=/home/u", "HARROW_SEED=7", "HARROW_TASK_ID=3", "HARROW_SUBMIT_DIR=/x",
                        "HARROW_RUN_DIR=/run", "HARROW_ORDER=", "PATH=/bin"});
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  RunOptions options;
  ASSERT_TRUE(Apply(*settings, &options).ok());
  EXPECT_EQ(options.order, order::Policy::kFifo);
  EXPECT_EQ(options.retries, 2);
  EXPECT_EQ(options.seed, 7u);
  EXPECT_EQ(options.shell, "/bin/bash");
  EXPECT_EQ(options.run_dir, "");  // another run's, told to its task
}

TEST(ReadSettingsTest, WhereTheUsersFileIsLookedFor) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.WriteWhole("/home/u/.config/harrow/harrow.conf", "retries = 1\n").ok());
  ASSERT_TRUE(fs.WriteWhole("/xdg/harrow/harrow.conf", "retries = 2\n").ok());
  ASSERT_TRUE(fs.WriteWhole("/harrow/harrow.conf", "retries = 3\n").ok());
  ASSERT_TRUE(fs.WriteWhole("/.config/harrow/harrow.conf", "retries = 4\n").ok());
  const auto retries = [&](const std::vector<std::string>& environment) {
    RunOptions options;
    EXPECT_TRUE(Apply(*ReadSettings(fs, environment), &options).ok());
    return options.retries;
  };
  EXPECT_EQ(retries({"HOME=/home/u"}), 1);
  EXPECT_EQ(retries({"HOME=/home/u", "XDG_CONFIG_HOME=/xdg"}), 2);
  EXPECT_EQ(retries({"HOME=/home/u", "XDG_CONFIG_HOME="}), 1);
  EXPECT_EQ(retries({"HOME=", "XDG_CONFIG_HOME=", "HOMELY=/home/u", "HOME"}), 0);
}

TEST(ReadSettingsTest, VariablesThatSayNothing) {
  test::MemoryFileSystem fs;
  const auto count = [&](const std::vector<std::string>& environment) {
    return ReadSettings(fs, environment)->size();
  };
  EXPECT_EQ(count({"HARROW_RETRIES", "HARROW_SITE_RETRIES", "HARROW_RETRIES=", "HARROW_=1", "RETRIES=1"}),
            0u);
  EXPECT_EQ(count({"HARROW_RETRIES=1", "HARROW_SITE_RETRIES=1"}), 2u);
  EXPECT_EQ(count({"HARROW_RUN_DIR=r"}), 1u);
  EXPECT_EQ(count({"HARROW_RUN_DIR=r", "HARROW_TASK_ID=1"}), 0u);
}

TEST(ReadSettingsTest, HarrowConfNamesAnotherSiteFile) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.WriteWhole("/etc/harrow/harrow.conf", "order = \"fifo\"\n").ok());
  ASSERT_TRUE(fs.WriteWhole("/mine", "order = 'lifo'\n").ok());
  RunOptions options;
  ASSERT_TRUE(Apply(*ReadSettings(fs, {"HARROW_CONF=/mine"}), &options).ok());
  EXPECT_EQ(options.order, order::Policy::kLifo);
  EXPECT_THAT(ReadSettings(fs, {"HARROW_CONF=/none"}).status().message(),
              HasSubstr("HARROW_CONF has to name a readable file"));
}

std::string ProblemsOf(std::string_view conf) {
  test::MemoryFileSystem fs;
  (void)fs.WriteWhole("/c", conf);
  return ReadSettings(fs, {"HARROW_CONF=/c"}).status().message();
}

TEST(ReadSettingsTest, ProblemsHaveAPlace) {
  const std::string text = ProblemsOf(
      "\n  ordr = \"fifo\"\nretries = \"x\"\nfail-fast = [true]\nname = 2024-01-01\nshell = \"é\"; \n");
  EXPECT_THAT(text, HasSubstr("/c:6:13: this is no TOML: ")) << "alone, as the rest is not read then";
  EXPECT_EQ(ProblemsOf("\n  ordr = \"fifo\"\nretries = \"x\"\nfail-fast = [true]\nname = 2024-01-01\n"),
            "/c:2:3: unknown setting ordr; did you mean order?\n"
            "/c:3:11: retries cannot be \"x\"; write a whole number from 0 to 1000\n"
            "/c:4:13: fail-fast is a list; settings are texts, numbers, true or false\n"
            "/c:5:8: name is a date or time; settings are texts, numbers, true or false");
  EXPECT_EQ(ProblemsOf("retries = 1\n[flow]\norder = \"fifo\"\n"),
            "/c:2:2: there are no tables here; write the settings without [flow]");
  EXPECT_THAT(ProblemsOf("retries 2\n"), HasSubstr("/c:1:9: this is no TOML: "));
  EXPECT_THAT(ProblemsOf("retries = 1\nretries = 2\n"), HasSubstr("/c:2:"));
  EXPECT_THAT(ProblemsOf(std::string_view("# \0\n", 4)), HasSubstr("/c:1:3: this is no UTF-8 text"));
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.WriteWhole("/etc/harrow/harrow.conf", "retries = -1\n").ok());
  EXPECT_THAT(ReadSettings(fs, {}).status().message(),
              HasSubstr("/etc/harrow/harrow.conf:1:11: retries cannot be"));
  EXPECT_THAT(ReadSettings(fs, {"HARROW_CONF=/etc/harrow/harrow.conf"}).status().code(), Code::kInvalid);
  test::MemoryFileSystem none;
  EXPECT_THAT(ReadSettings(none, {"HARROW_ORDER=up"}).status().message(),
              HasSubstr("HARROW_ORDER: order cannot be \"up\""));
}

TEST(ReadSettingsTest, LinesOfOldReleasesAreRefusedWithTheirNewForm) {
  EXPECT_EQ(ProblemsOf("order = rank+hrf  # comment\noutput_limit = 64M\nretries = 2\npin=yes\n steal = "
                       "off\r\nlease = 5m\n"
                       "ordr = fifo\norder = best\nshell = /bin/ba\"sh\nseed = 7\n"),
            "/c:1:9: texts stand between quotes; write order = \"rank+hrf\"\n"
            "/c:2:16: texts stand between quotes; write output_limit = \"64M\"\n"
            "/c:4:5: texts stand between quotes; write pin = true\n"
            "/c:5:10: texts stand between quotes; write steal = false\n"
            "/c:6:9: texts stand between quotes; write lease = \"5m\"\n"
            "/c:7:1: unknown setting ordr; did you mean order?\n"
            "/c:8:9: order cannot be \"best\"; write auto, fifo, lifo, hrf, lifo+hrf, rank+hrf or cost\n"
            "/c:9:9: texts stand between quotes; write shell = \"/bin/ba\\\"sh\"");
}

TEST(DescribeSettingsTest, TellsWhoSaysSo) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.WriteWhole("/etc/harrow/harrow.conf", "# site\nretries = 1\nmax-losses = 7\n").ok());
  ASSERT_TRUE(fs.WriteWhole("/home/u/.config/harrow/harrow.conf", "retries = 2\n").ok());
  const std::vector<Setting> settings =
      *ReadSettings(fs, {"HOME=/home/u", "HARROW_SEED=7", "HARROW_SITE_ORDER=fifo", "HARROW_SITE_RETRIES=9",
                         "HARROW_OUTPUT-LIMIT=1M"});
  RunOptions options;
  ASSERT_TRUE(Apply(settings, &options).ok());
  std::map<std::string, std::string> told;
  for (const SettingInfo& info : DescribeSettings(options, settings)) {
    if (!info.place.empty()) told.emplace(info.key, info.current + " " + info.place);
  }
  EXPECT_EQ(told,
            (std::map<std::string, std::string>{{"max_losses", "7 /etc/harrow/harrow.conf:3:14"},
                                                {"order", "fifo HARROW_SITE_ORDER"},
                                                {"output_limit", "1.0 MiB HARROW_OUTPUT-LIMIT"},
                                                {"retries", "2 /home/u/.config/harrow/harrow.conf:1:11"},
                                                {"seed", "7 HARROW_SEED"}}));
}

TEST(ReadSettingsTest, AHomeOfSomebodyElseIsLeftAlone) {
  test::MemoryFileSystem fs;
  fs.Fail("/root/.config/harrow/harrow.conf", Status(Code::kPermission, "cannot read it: Permission denied"));
  EXPECT_TRUE(ReadSettings(fs, {"HOME=/root"}).ok());
  fs.Fail("/etc/harrow/harrow.conf", Status(Code::kPermission, "cannot read it: Permission denied"));
  EXPECT_THAT(ReadSettings(fs, {}).status().message(), HasSubstr("make it readable, or remove it"));
}

/// With sudo that leaves HOME as it is: settings name commands.
TEST(ReadSettingsTest, RootObeysNobodyElse) {
  std::string home = (std::filesystem::temp_directory_path() / "harrow-test-XXXXXX").string();
  ASSERT_NE(mkdtemp(home.data()), nullptr);
  const std::string conf = home + "/harrow/harrow.conf";
  os::FileSystem& fs = os::RealFileSystem();
  ASSERT_TRUE(fs.MakeDirectories(home + "/harrow").ok());
  ASSERT_TRUE(fs.WriteWhole(conf, "on_end = \"id\"\n").ok());
  const std::vector<std::string> environment = {"HARROW_CONF=/dev/null", StrCat("XDG_CONFIG_HOME=", home)};
  EXPECT_EQ(ReadSettings(fs, environment)->size(), 1u);
  constexpr uid_t kOther = 65534;
  if (geteuid() == 0 && chown(conf.c_str(), kOther, kOther) == 0) {
    EXPECT_EQ(ReadSettings(fs, environment)->size(), 0u);
  }
  EXPECT_TRUE(fs.RemoveTree(home).ok());
}

// What conf/harrow.conf shows as defaults are the defaults, and every setting that it can hold is there,
// below a comment that ends with its unit and default.
TEST(ConfFileTest, ShowsEachSettingsUnitAndDefault) {
  std::ifstream file(HARROW_SOURCE_DIR "/conf/harrow.conf");
  std::string conf, comment;
  std::map<std::string, std::string> comments;
  for (std::string line; std::getline(file, line);) {
    const bool is_setting = line.starts_with("#") && line.size() > 1 && line[1] != ' ';
    if (is_setting) {
      const size_t equals = line.find(" = ");
      ASSERT_NE(equals, std::string::npos) << line;
      conf += line.substr(1) + "\n";
      std::string value = line.substr(equals + 3);
      std::erase(value, '"');
      comments[line.substr(1, equals - 1)] = comment + "|" + value;
    }
    comment =
        is_setting || !line.starts_with("# ") ? "" : comment + (comment.empty() ? "" : " ") + line.substr(2);
  }
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.WriteWhole("/conf", conf).ok());
  const Result<std::vector<Setting>> settings = ReadSettings(fs, {"HARROW_CONF=/conf"});
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  RunOptions options;
  ASSERT_TRUE(Apply(*settings, &options).ok());
  const std::vector<SettingInfo> defaults = DescribeSettings(RunOptions()), shown = DescribeSettings(options);
  size_t there = 0;
  for (size_t i = 0; i < defaults.size(); ++i) {
    const std::string key(defaults[i].key);
    EXPECT_FALSE(defaults[i].help.empty()) << key;
    // No default: a matter of one run, mostly.
    if (defaults[i].current.empty() && !comments.contains(key)) continue;
    ASSERT_TRUE(comments.contains(key)) << key;
    ++there;
    EXPECT_EQ(shown[i].current, defaults[i].current) << key;
    const std::string& told = comments[key];
    const std::string value = told.substr(told.rfind('|') + 1);
    EXPECT_THAT(
        told, HasSubstr(StrCat("(", defaults[i].values, "; default ", value.empty() ? "none" : value, ")|")))
        << key;
  }
  EXPECT_EQ(there, comments.size()) << "something stands there twice, or is no setting";
}

}  // namespace
}  // namespace harrow::config
