#include "run/progress_pipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <unistd.h>
#include <vector>

namespace harrow::run {
namespace {

class ProgressPipeTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe(fds_), 0); }
  void TearDown() override {
    close(fds_[0]);
    close(fds_[1]);
  }
  std::string Bytes() {
    std::string bytes(1 << 20, '\0');
    fcntl(fds_[0], F_SETFL, O_NONBLOCK);
    const ssize_t got = read(fds_[0], bytes.data(), bytes.size());
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return bytes;
  }
  int fds_[2] = {-1, -1};
};

pb::Progress Done(uint64_t done) {
  pb::Progress progress;
  progress.set_done(done);
  return progress;
}

TEST_F(ProgressPipeTest, ArrivesInAnyTwoPieces) {
  ProgressWriter writer(fds_[1]);
  for (const uint64_t done : {1u, 200u, 3u}) ASSERT_TRUE(writer.Write(Done(done)));
  const std::string bytes = Bytes();
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    std::vector<uint64_t> got;
    ProgressReader reader([&](const pb::Progress& progress) { got.push_back(progress.done()); });
    EXPECT_TRUE(reader.Take(bytes.substr(0, cut)));
    EXPECT_TRUE(reader.Take(bytes.substr(cut)));
    EXPECT_EQ(got, (std::vector<uint64_t>{1, 200, 3})) << cut;
  }
}

TEST_F(ProgressPipeTest, TakesWhatAPipeTakesWhole) {
  ProgressWriter writer(fds_[1]);
  pb::Progress progress = Done(1);
  progress.set_problem(std::string(3000, 'x'));
  const size_t others = 4 + progress.ByteSizeLong() - 3000;
  progress.set_problem(std::string(PIPE_BUF - others, 'x'));
  EXPECT_TRUE(writer.Write(progress));
  EXPECT_EQ(Bytes().size(), size_t{PIPE_BUF});
  progress.set_problem(std::string(PIPE_BUF - others + 1, 'x'));
  EXPECT_FALSE(writer.Write(progress));
  EXPECT_EQ(Bytes(), "");
}

TEST_F(ProgressPipeTest, ArrivesHoweverItIsCut) {
  ProgressWriter writer(fds_[1]);
  for (const uint64_t done : {1u, 200u, 0u}) ASSERT_TRUE(writer.Write(Done(done)));
  const std::string bytes = Bytes();
  std::vector<uint64_t> got;
  ProgressReader reader([&](const pb::Progress& progress) { got.push_back(progress.done()); });
  for (const char byte : bytes) EXPECT_TRUE(reader.Take(std::string_view(&byte, 1)));
  EXPECT_EQ(got, (std::vector<uint64_t>{1, 200, 0}));
}

TEST_F(ProgressPipeTest, AFullPipeDoesNotStopTheWriterNorTearAMessage) {
  ProgressWriter writer(fds_[1]);
  pb::Progress progress = Done(1);
  progress.set_problem(std::string(2000, 'x'));
  int written = 0;
  while (writer.Write(progress)) ++written;
  EXPECT_GT(written, 5);
  int got = 0;
  ProgressReader reader([&](const pb::Progress&) { ++got; });
  EXPECT_TRUE(reader.Take(Bytes()));
  EXPECT_EQ(got, written);
  EXPECT_TRUE(writer.Write(progress));
}

TEST_F(ProgressPipeTest, RefusesWhatIsNoProgress) {
  ProgressReader reader([](const pb::Progress&) { FAIL(); });
  EXPECT_FALSE(reader.Take("Starting up...\n"));
}

}  // namespace
}  // namespace harrow::run
