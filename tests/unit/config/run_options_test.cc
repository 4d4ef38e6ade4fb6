#include "config/run_options.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

#include "base/text.h"
#include "support/memory_file_system.h"

namespace harrow::config {
namespace {

using testing::HasSubstr;

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
                                      {"files", "local", ""},
                                      {"seed", "18446744073709551615", ""},
                                      {"retries", "7", ""},
                                      {"fail_fast", "true", ""},
                                      {"max_failures", "3", ""},
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

TEST(ToStoreTest, GivesTheDefaultsBack) {
  RunOptions back;
  ASSERT_TRUE(Apply(kOthers, &back).ok());
  back.name.clear();
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
  EXPECT_THAT(CheckSetting("slots", "3").message(), HasSubstr("slots is no setting of a flow; give --slots"));
  EXPECT_THAT(CheckSetting("local_nodes", "3").message(), HasSubstr("give --local-nodes"));
  EXPECT_THAT(CheckSetting("retry", "3").message(), HasSubstr("did you mean retries?"));
}

TEST(ReadSettingsTest, SiteThenUserThenEnvironment) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.WriteWhole("/etc/harrow/harrow.conf",
                            "# site\norder = fifo\nretries=1 # one\nshell = \"/bin/bash\"\n")
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

TEST(ReadSettingsTest, HarrowConfNamesAnotherSiteFile) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.WriteWhole("/etc/harrow/harrow.conf", "order = fifo\n").ok());
  ASSERT_TRUE(fs.WriteWhole("/mine", "order = lifo\n").ok());
  RunOptions options;
  ASSERT_TRUE(Apply(*ReadSettings(fs, {"HARROW_CONF=/mine"}), &options).ok());
  EXPECT_EQ(options.order, order::Policy::kLifo);
  EXPECT_THAT(ReadSettings(fs, {"HARROW_CONF=/none"}).status().message(),
              HasSubstr("HARROW_CONF has to name a readable file"));
}

TEST(ReadSettingsTest, ProblemsHaveAPlace) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(
      fs.WriteWhole("/etc/harrow/harrow.conf", "\n  ordr = fifo\nretries 2\nretries = x\nshell = \"a\" b\n")
          .ok());
  const std::string text = ReadSettings(fs, {}).status().message();
  EXPECT_THAT(text, HasSubstr("/etc/harrow/harrow.conf:2:3: unknown setting ordr; did you mean order?"));
  EXPECT_THAT(text, HasSubstr("/etc/harrow/harrow.conf:3:1: \"retries 2\" is no setting; write key = value"));
  EXPECT_THAT(text, HasSubstr("/etc/harrow/harrow.conf:4:1: retries cannot be \"x\""));
  EXPECT_THAT(text, HasSubstr("/etc/harrow/harrow.conf:5:9: the value of shell is not one text"));
  EXPECT_THAT(ReadSettings(fs, {"HARROW_CONF=/etc/harrow/harrow.conf"}).status().code(), Code::kInvalid);
  test::MemoryFileSystem none;
  EXPECT_THAT(ReadSettings(none, {"HARROW_ORDER=up"}).status().message(),
              HasSubstr("HARROW_ORDER: order cannot be \"up\""));
}

TEST(ReadSettingsTest, AHomeOfSomebodyElseIsLeftAlone) {
  test::MemoryFileSystem fs;
  fs.Fail("/root/.config/harrow/harrow.conf", Status(Code::kPermission, "cannot read it: Permission denied"));
  EXPECT_TRUE(ReadSettings(fs, {"HOME=/root"}).ok());
  fs.Fail("/etc/harrow/harrow.conf", Status(Code::kPermission, "cannot read it: Permission denied"));
  EXPECT_THAT(ReadSettings(fs, {}).status().message(), HasSubstr("make it readable, or remove it"));
}

// What conf/harrow.conf shows as defaults are the defaults, and every setting that it can hold is there.
TEST(ConfFileTest, ShowsTheDefaults) {
  std::ifstream file(HARROW_SOURCE_DIR "/conf/harrow.conf");
  std::stringstream all;
  all << file.rdbuf();
  std::string conf;
  std::string line;
  while (std::getline(all, line)) {
    if (line.starts_with("#") && line.size() > 1 && line[1] != ' ') conf += line.substr(1) + "\n";
  }
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.WriteWhole("/conf", conf).ok());
  const Result<std::vector<Setting>> settings = ReadSettings(fs, {"HARROW_CONF=/conf"});
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  RunOptions options;
  ASSERT_TRUE(Apply(*settings, &options).ok());
  const std::vector<SettingInfo> defaults = DescribeSettings(RunOptions()), shown = DescribeSettings(options);
  for (size_t i = 0; i < defaults.size(); ++i) {
    EXPECT_EQ(shown[i].current, defaults[i].current) << defaults[i].key;
    const bool of_one_run =
        defaults[i].key == "name" || defaults[i].key == "run_dir" || defaults[i].key == "local_nodes";
    const bool there = std::any_of(settings->begin(), settings->end(),
                                   [&](const Setting& s) { return s.key == defaults[i].key; });
    EXPECT_EQ(there, !of_one_run) << defaults[i].key;
    EXPECT_FALSE(defaults[i].help.empty());
  }
}

}  // namespace
}  // namespace harrow::config
