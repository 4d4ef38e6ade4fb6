// PART/best: the best value of a run.
#include "run/best.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <limits>
#include <stdlib.h>

#include "base/text.h"
#include "run_dir/names.h"

namespace harrow::run {
namespace {

class BestFile : public testing::Test {
 protected:
  BestFile() {
    path_ = (std::filesystem::temp_directory_path() / "harrow-best-XXXXXX").string();
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
    run_ = run_dir::RunDir::Open(path_).value();
  }
  ~BestFile() override { std::filesystem::remove_all(path_); }
  run_dir::Part Part(const std::string& name) const { return run_dir::MakePart(run_, name).value(); }
  std::string Read() const {
    const Result<std::optional<BestValue>> best = ReadBest(run_);
    if (!best.ok()) return best.status().message();
    return *best ? StrCat((*best)->value, " ", (*best)->solution) : "none";
  }

  std::string path_;
  std::shared_ptr<run_dir::RunDir> run_;
};

TEST_F(BestFile, IsTheLeastOfAllParts) {
  EXPECT_EQ(Read(), "none");
  Part("0");
  EXPECT_EQ(Read(), "none");
  ASSERT_TRUE(WriteBest(*Part("1").dir, {-2.5, "x"}).ok());
  EXPECT_EQ(Read(), "-2.5 x");
  ASSERT_TRUE(WriteBest(*Part("0").dir, {-2.25, "y"}).ok());
  EXPECT_EQ(Read(), "-2.5 x");
  ASSERT_TRUE(WriteBest(*Part("0").dir, {-3, ""}).ok());
  EXPECT_EQ(Read(), "-3 ");
}

TEST_F(BestFile, GivesEveryValueAndAllBytesBack) {
  const run_dir::Part part = Part("0");
  for (const double value : {0.0, -0.1, 1e-300, -std::numeric_limits<double>::max(), std::numeric_limits<double>::denorm_min(),
                             -std::numeric_limits<double>::infinity()}) {
    const std::string solution("a\0\xff\n", 4);
    ASSERT_TRUE(WriteBest(*part.dir, {value, solution}).ok());
    const auto best = ReadBest(run_);
    ASSERT_TRUE(best.ok() && *best);
    EXPECT_EQ((*best)->value, value);
    EXPECT_EQ((*best)->solution, solution);
  }
}

TEST_F(BestFile, DamagedIsToldAndOthersCount) {
  const run_dir::Part part = Part("0");
  ASSERT_TRUE(WriteBest(*part.dir, {-2.5, "what belongs to it"}).ok());
  const std::string path = run_dir::BestPath(part.dir->path());
  std::ifstream in(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  for (size_t cut = 0; cut < 2 * whole.size(); ++cut) {
    std::string bytes = whole.substr(0, cut);
    if (cut >= whole.size()) {
      bytes = whole;
      bytes[cut - whole.size()] = static_cast<char>(bytes[cut - whole.size()] ^ 4);
    }
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    EXPECT_NE(Read().find("/0/best: the best value of the run is damaged"), std::string::npos) << cut;
  }
  ASSERT_TRUE(WriteBest(*Part("3").dir, {7, "z"}).ok());
  EXPECT_EQ(Read(), "7 z");
}

}  // namespace
}  // namespace harrow::run
