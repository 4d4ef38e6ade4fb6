#include "migrate/packed.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <sys/stat.h>

#include "base/text.h"
#include "migrate/compress.h"
#include "migrate/encoding.h"
#include "store/hasher.h"
#include "unit/migrate/drawn.h"

namespace harrow::migrate {
namespace {

namespace fs = std::filesystem;

class PackedTest : public testing::Test {
 protected:
  using Files = std::map<std::string, std::string>;

  PackedTest() {
    std::string path = (fs::temp_directory_path() / "harrow-packed-XXXXXX").string();
    top_ = mkdtemp(path.data());
    const char* const given = getenv("HARROW_TEST_SEED");
    const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
    RecordProperty("seed", StrCat(seed));
    draw_.seed(seed);
    seed_ = StrCat("HARROW_TEST_SEED=", seed);
  }
  ~PackedTest() override { fs::remove_all(top_); }

  std::string Path(const std::string& name) const { return top_ + "/" + name; }
  void Write(const std::string& directory, const Files& files) const {
    fs::remove_all(Path(directory));
    fs::create_directories(Path(directory));
    for (const auto& [name, text] : files) {
      fs::create_directories(fs::path(Path(directory) + "/" + name).parent_path());
      std::ofstream(Path(directory) + "/" + name, std::ios::binary) << text;
    }
  }
  Files Read(const std::string& directory) const {
    Files files;
    for (const auto& file : fs::recursive_directory_iterator(Path(directory))) {
      if (!file.is_regular_file()) continue;
      std::ifstream in(file.path(), std::ios::binary);
      files[fs::relative(file.path(), Path(directory)).string()] = {std::istreambuf_iterator<char>(in), {}};
    }
    return files;
  }
  FindEarlier From(const std::string& names) const {
    return [this, names](const Sample&) {
      std::vector<std::string> directories;
      std::istringstream in(names);
      for (std::string name; in >> name;) directories.push_back(Path(name));
      return directories;
    };
  }
  /// `earlier`: directories, with spaces between.
  Packed PackTo(const std::string& to, const Files& files, const std::string& earlier = "") const {
    Write("from", files);
    fs::create_directories(Path(to));
    const Result<Packed> packed = Pack(Path("from"), Path(to), From(earlier), {});
    EXPECT_TRUE(packed.ok()) << packed.status().message();
    return packed.ok() ? *packed : Packed();
  }
  Status UnpackFrom(const std::string& from, Files* files) const {
    fs::remove_all(Path("back"));
    fs::create_directories(Path("back"));
    const Status status = Unpack(Path(from), Path("back"), {});
    *files = Read("back");
    return status;
  }
  Files Back(const std::string& from) const {
    Files files;
    const Status status = UnpackFrom(from, &files);
    EXPECT_TRUE(status.ok()) << status.message();
    return files;
  }
  uint64_t Number(uint64_t below) { return std::uniform_int_distribution<uint64_t>(0, below - 1)(draw_); }
  std::string Noise(size_t bytes) { return DrawnNoise(&draw_, bytes); }
  std::string Numbers(size_t bytes) { return DrawnNumbers(&draw_, bytes); }
  /// Of pages that are zeros, a few that come again and again, and others.
  std::string Drawn() {
    std::string text;
    const bool numbers = Number(2) == 0;
    for (uint64_t pages = Number(300); pages > 0; --pages) {
      const uint64_t kind = Number(4);
      text += kind == 0   ? std::string(4096, '\0')
              : kind == 1 ? std::string(4096, static_cast<char>('a' + Number(5)))
              : numbers   ? Numbers(4096)
                          : Noise(4096);
    }
    return text.substr(0, text.size() - std::min<size_t>(text.size(), Number(4096)));
  }

  std::string top_, seed_;
  std::mt19937_64 draw_;
};

TEST_F(PackedTest, FilesComeBackAsTheyWere) {
  const Files files = {{"empty", ""}, {"zeros", std::string(3 * 4096, '\0')}, {"short", "x"}, {"d/e/page", std::string(4096, 'p')},
                       {"more", std::string(4096, 'p') + "q"}, {std::string("strange\n%", 9), Noise(3 << 20)}};
  const Packed packed = PackTo("a", files);
  EXPECT_EQ(packed.files, files.size());
  EXPECT_EQ(packed.bytes, (3 + 1 + 1) * 4096 + 2 + (3 << 20));
  EXPECT_EQ(Back("a"), files);
  fs::permissions(Path("from/short"), fs::perms::owner_all);
  fs::create_directories(Path("b"));
  ASSERT_TRUE(Pack(Path("from"), Path("b"), {}, {}).ok());
  Back("b");
  EXPECT_EQ(fs::status(Path("back/short")).permissions(), fs::perms::owner_all);
}

TEST_F(PackedTest, ZerosAndWhatIsThereTwiceTakeNoRoom) {
  const std::string page = Noise(4096);
  std::string often;
  for (int i = 0; i < 1000; ++i) often += page;
  EXPECT_LT(PackTo("a", {{"zeros", std::string(8 << 20, '\0')}, {"often", often}, {"again", page}}).written, 4300);
  EXPECT_EQ(Back("a")["often"], often);
  // Zeros are not written either.
  Back("a");
  std::error_code error;
  EXPECT_LT(fs::space(top_, error).capacity == 0 ? 0 : 512 * [&] {
    struct stat st {};
    stat(Path("back/zeros").c_str(), &st);
    return st.st_blocks;
  }(), 1 << 20);
}

TEST_F(PackedTest, DrawnFilesWithEarlierOnes) {
  std::string earlier;
  Files files = {{"a", Drawn()}, {"b", Drawn()}};
  for (int i = 0; i < 25; ++i) {
    for (auto& [name, text] : files) {
      if (text.empty() || Number(20) == 0) text = Drawn();
      for (uint64_t changes = Number(1) + Number(40); changes > 0 && !text.empty(); --changes) text[Number(text.size())] ^= 1;
      if (Number(10) == 0) text = text.substr(0, Number(text.size() + 1));
      if (Number(10) == 0) text += Drawn();
    }
    const std::string to = StrCat("p", i);
    PackTo(to, files, earlier);
    if (!earlier.empty() && Number(2) == 0) fs::remove_all(Path(earlier));
    ASSERT_EQ(Back(to), files) << seed_ << " " << i;
    uint64_t packs = 0, bytes = 0;
    for (const auto& file : fs::directory_iterator(Path(to))) packs += file.file_size();
    for (const auto& [name, text] : files) bytes += text.size();
    ASSERT_LE(packs, 2 * bytes + 64 * 1024) << seed_ << " " << i;
    earlier = to;
  }
}

TEST_F(PackedTest, DamageIsFound) {
  const Files files = {{"a", Noise(40'000) + std::string(40'000, 'x')}, {"b", "text"}};
  PackTo("a", files);
  for (const char* name : {"index", "1.pages"}) {
    std::ifstream in(Path("a/") + name, std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(in), {}};
    const auto damage = [&](const std::string& text) {
      std::ofstream(Path("a/") + name, std::ios::binary | std::ios::trunc) << text;
      Files back;
      const Status status = UnpackFrom("a", &back);
      // What is not used, as a frame's tail may be, is no damage.
      if (status.ok()) {
        ASSERT_EQ(back, files);
      } else {
        ASSERT_EQ(status.code(), Code::kDamaged) << status.message();
      }
    };
    for (int i = 0; i < 300; ++i) {
      std::string text = whole;
      text[i < 100 ? static_cast<size_t>(i) : Number(text.size())] ^= static_cast<char>(1 << Number(8));
      damage(text);
      damage(whole.substr(0, Number(whole.size())));
    }
    fs::remove(Path("a/") + name);
    Files back;
    EXPECT_EQ(UnpackFrom("a", &back).code(), Code::kDamaged);
    std::ofstream(Path("a/") + name, std::ios::binary) << whole;
  }
  EXPECT_EQ(Back("a"), files);
}

/// The text of an index, and one of such a text, with its digest.
std::string TextOfIndex(const std::string& whole) {
  const Result<std::string> text = Decompress(std::string_view(whole).substr(16 + 16), 1 << 30, true);
  return text.ok() ? *text : "";
}
std::string IndexOfText(const std::string& text, const std::string& head = "harrow-packed 2\n") {
  const std::string body = Compress(text);
  std::string whole = head;
  PutId(store::IdOf(body, store::Kind::kFile), &whole);
  return whole + body;
}

TEST_F(PackedTest, AnIndexThatSomebodyMadeUpTouchesNothingElse) {
  const Files files = {{"a", Noise(9000)}, {"dir/b", "text"}};
  PackTo("a", files);
  std::ifstream in(Path("a/index"), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const std::string text = TextOfIndex(whole);
  ASSERT_FALSE(text.empty());
  ASSERT_EQ(IndexOfText(text), whole);
  const auto unpack = [&](const std::string& made_up) {
    std::ofstream(Path("a/index"), std::ios::binary | std::ios::trunc) << IndexOfText(made_up);
    Files back;
    const Status status = UnpackFrom("a", &back);
    std::vector<std::string> beside;
    for (const auto& each : fs::directory_iterator(top_)) beside.push_back(each.path().filename());
    std::sort(beside.begin(), beside.end());
    EXPECT_EQ(beside, (std::vector<std::string>{"a", "back", "from"}));
    return status;
  };
  EXPECT_TRUE(unpack(text).ok());
  // Names that lead elsewhere, of the same length as "dir/b".
  for (const std::string& name : {std::string("../ab"), std::string("/tmpb"), std::string("a/../"), std::string("x/../"), std::string("..\0/b", 5), std::string("../..")}) {
    std::string other = text;
    other.replace(other.find("dir/b"), 5, name);
    EXPECT_EQ(unpack(other).code(), Code::kDamaged) << name;
  }
  // Each number of it as large as can be, and each place of it cut or gone on.
  for (size_t at = 0; at < text.size(); ++at) {
    for (const uint32_t number : {0u, 1u, 0x7fffffffu, 0xffffffffu}) {
      std::string other = text;
      other.replace(at, 4, reinterpret_cast<const char*>(&number), std::min<size_t>(4, text.size() - at));
      if (other != text && at % 3 == 0) (void)unpack(other);
    }
    if (at % 5 != 0) continue;
    EXPECT_FALSE(unpack(text.substr(0, at)).ok()) << at;
  }
  EXPECT_EQ(unpack(text + "x").code(), Code::kDamaged);
}

TEST_F(PackedTest, FormatOneIsRead) {
  Files files = {{"a", Noise(600 * 4096)}};
  for (char& letter : files["a"]) letter = static_cast<char>('a' + (letter & 15));
  PackTo("a", files);
  std::ifstream in(Path("a/index"), std::ios::binary);
  std::string text = TextOfIndex({std::istreambuf_iterator<char>(in), {}});
  // One pack: its number, contents, the digest of their list, ends and ways of its blocks, which are all zstd's.
  ASSERT_EQ(text.substr(12, 4), std::string("\x58\2\0\0", 4));
  const size_t ends = 12 + 4 + 16, ways = ends + 3 * 8;
  ASSERT_EQ(text.substr(ways, 3), std::string(3, '\1'));
  uint64_t end = 0;
  std::memcpy(&end, text.data() + ways - 8, sizeof end);
  const std::string pack = Read("a")["1.pages"];
  ASSERT_EQ(pack.size(), end + 600 * 16);
  text.erase(ways, 3);
  text.replace(ends - 16, 16, pack.substr(end));
  std::ofstream(Path("a/1.pages"), std::ios::binary | std::ios::trunc) << pack.substr(0, end);
  const auto write = [&](const std::string& head) { std::ofstream(Path("a/index"), std::ios::binary | std::ios::trunc) << IndexOfText(text, head); };
  Files back;
  write("harrow-packed 2\n");
  EXPECT_EQ(UnpackFrom("a", &back).code(), Code::kDamaged);
  write("harrow-packed 3\n");
  EXPECT_EQ(UnpackFrom("a", &back).code(), Code::kDamaged);
  write("harrow-packed 1\n");
  EXPECT_EQ(Back("a"), files);
  EXPECT_GT(PackTo("b", files, "a").written, 600 * 4096 / 4) << "nothing goes on from it";
  EXPECT_EQ(Back("b"), files);
}

TEST_F(PackedTest, NumbersTakeLessRoom) {
  const Files files = {{"numbers", Numbers(300 * 4096)}, {"noise", Noise(300 * 4096)}};
  const int64_t written = PackTo("a", files).written;
  EXPECT_GT(written, 500 * 4096);
  EXPECT_LT(written, 560 * 4096);
  EXPECT_EQ(Back("a"), files);
}

TEST_F(PackedTest, APackWhoseListIsDamagedIsDoneWithout) {
  const Files files = {{"a", Noise(40 * 4096)}};
  PackTo("a", files);
  const std::string whole = Read("a")["1.pages"];
  const auto written = [&](const std::string& text) {
    std::ofstream(Path("a/1.pages"), std::ios::binary | std::ios::trunc) << text;
    fs::remove_all(Path("b"));
    const int64_t bytes = PackTo("b", files, "a").written;
    EXPECT_EQ(Back("b"), files) << seed_;
    return bytes;
  };
  EXPECT_EQ(written(whole), 0);
  for (int i = 0; i < 30; ++i) {
    std::string text = whole;
    text[40 * 4096 + Number(40 * 16)] ^= static_cast<char>(1 << Number(8));
    EXPECT_EQ(written(text), 40 * 4096) << seed_;
    EXPECT_EQ(Back("a"), files) << "it is for others only";
    EXPECT_EQ(written(whole.substr(0, 40 * 4096 + Number(40 * 16))), 40 * 4096) << seed_;
  }
}

TEST_F(PackedTest, OneThatIsToldOfNoEarlierOnesIsWhole) {
  const std::string common = Noise(500 * 4096);
  PackTo("a", {{"x", common}});
  const Files files = {{"u", Numbers(100 * 4096)}, {"v", common.substr(0, 1000 * 1000)}, {"w", common.substr(4096)}};
  for (const bool is_told : {false, true}) {
    Write("from", files);
    const std::string to = StrCat("b", is_told);
    fs::create_directories(Path(to));
    const Result<Packed> packed = Pack(Path("from"), Path(to), [&](const Sample& sample) {
      EXPECT_FALSE(sample.empty());
      return is_told ? std::vector<std::string>{Path("a")} : std::vector<std::string>();
    }, {});
    ASSERT_TRUE(packed.ok()) << packed.status().message();
    EXPECT_EQ(packed->written < 110 * 4096, is_told);
    EXPECT_EQ(Back(to), files);
  }
}

TEST_F(PackedTest, ErrorsOfTheSystemAreNoDamage) {
  const Files files = {{"a", Noise(9000)}};
  PackTo("a", files);
  Files back;
  fs::create_directories(Path("back/a"));
  EXPECT_EQ(Unpack(Path("a"), Path("back"), {}).code(), Code::kUnavailable) << "something is there";
  EXPECT_EQ(Pack(Path("from"), Path("a"), {}, {}).status().code(), Code::kUnavailable) << "there is one";
  EXPECT_EQ(Pack(Path("nowhere"), Path("b"), {}, {}).status().code(), Code::kUnavailable);
  EXPECT_EQ(Pack(Path("from"), Path("no/such"), {}, {}).status().code(), Code::kUnavailable);
}

TEST_F(PackedTest, AnEarlierOneThatIsDamagedOrGoneIsDoneWithout) {
  const Files files = {{"a", Noise(100'000)}};
  PackTo("a", files);
  std::ofstream(Path("a/index")) << "no index";
  EXPECT_GT(PackTo("b", files, "a").written, 90'000);
  EXPECT_EQ(Back("b"), files);
  EXPECT_GT(PackTo("c", files, "nowhere").written, 90'000);
  EXPECT_EQ(PackTo("d", files, "c").written, 0);
  EXPECT_EQ(Back("d"), files);
  fs::remove(Path("d/1.pages"));
  EXPECT_GT(PackTo("e", files, "d").written, 90'000) << "a pack that is not there is not linked";
  EXPECT_EQ(Back("e"), files);
}

TEST_F(PackedTest, ContentsAreTakenFromSeveralDirectories) {
  const std::string common = Noise(200 * 4096), own = Noise(100 * 4096), others = Noise(90 * 4096), new_ones = Noise(10 * 4096);
  PackTo("before", {{"own", own}});
  PackTo("other", {{"common", common}, {"others", others}});
  const Files files = {{"x", common + own + new_ones}};
  EXPECT_GT(PackTo("without", files).written, 310 * 4096 * 9 / 10);
  const int64_t written = PackTo("mine", files, "before other nowhere").written;
  EXPECT_GT(written, 9 * 4096);
  EXPECT_LT(written, 12 * 4096);
  EXPECT_TRUE(fs::exists(Path("mine/1.pages")) && fs::equivalent(Path("mine/1.pages"), Path("before/1.pages"))) << "its own keeps its name";
  EXPECT_TRUE(fs::exists(Path("mine/2.pages")) && fs::equivalent(Path("mine/2.pages"), Path("other/1.pages")));
  fs::remove_all(Path("before"));
  fs::remove_all(Path("other"));
  EXPECT_EQ(Back("mine"), files);
  // What one has is not taken from another as well.
  PackTo("twin", {{"common", common}});
  EXPECT_EQ(PackTo("again", files, "mine twin").written, 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(Path("again")), {}), std::distance(fs::directory_iterator(Path("mine")), {}));
  EXPECT_EQ(Back("again"), files);
}

TEST_F(PackedTest, TheSampleTellsHowMuchTwoHaveInCommon) {
  std::vector<Sample> samples;
  const auto sample_of = [&](const std::string& to, const Files& files) {
    Write("from", files);
    fs::create_directories(Path(to));
    EXPECT_TRUE(Pack(Path("from"), Path(to), [&](const Sample& sample) { return samples.push_back(sample), std::vector<std::string>(); }, {}).ok());
  };
  const std::string common = Noise(3000 * 4096);
  sample_of("a", {{"x", common + Noise(1000 * 4096)}, {"y", common}});
  sample_of("b", {{"x", Noise(1000 * 4096) + common + std::string(8192, '\0')}});
  Sample both;
  std::set_intersection(samples[0].begin(), samples[0].end(), samples[1].begin(), samples[1].end(), std::back_inserter(both));
  for (const Sample& sample : samples) {
    EXPECT_TRUE(std::is_sorted(sample.begin(), sample.end()));
    EXPECT_EQ(std::adjacent_find(sample.begin(), sample.end()), sample.end());
    EXPECT_NEAR(static_cast<double>(sample.size()), 4000.0 / kSampled, 80) << seed_;
  }
  EXPECT_NEAR(static_cast<double>(both.size()), 3000.0 / kSampled, 70) << seed_;
}

TEST_F(PackedTest, NobodyWaitsForOneThatIsToEnd) {
  Write("from", {{"a", Noise(4 << 20)}});
  fs::create_directories(Path("a"));
  int calls = 0;
  EXPECT_EQ(Pack(Path("from"), Path("a"), {}, [&] { return ++calls > 1; }).status().message(), "it is to end");
  EXPECT_LE(calls, 2);
  fs::remove_all(Path("a"));
  fs::create_directories(Path("a"));
  ASSERT_TRUE(Pack(Path("from"), Path("a"), {}, {}).ok());
  EXPECT_EQ(Unpack(Path("a"), Path("back"), [] { return true; }).message(), "it is to end");
}

}  // namespace
}  // namespace harrow::migrate
