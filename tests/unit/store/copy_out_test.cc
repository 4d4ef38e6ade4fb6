#include <algorithm>

#include "store/local_store_internal.h"
#include "unit/store/store_fixture.h"

namespace harrow::store {
namespace {

using CopyOutTest = StoreTest;

TEST_F(CopyOutTest, AFileReplacesWhatIsThere) {
  const Object file = CopyIn(Write("f", "new")), program = CopyIn(Write("p", "prog", 0755));
  Ok(store_->CopyOut(file.id, At("deep/er/out"), 027));
  EXPECT_EQ(TextOf(At("deep/er/out")), "new");
  EXPECT_EQ(ModeOf(At("deep/er/out")), 0640u);
  EXPECT_EQ(ModeOf(At("deep")), 0750u);
  Ok(store_->CopyOut(program.id, At("deep/er/out"), 022));
  EXPECT_EQ(TextOf(At("deep/er/out")), "prog");
  EXPECT_EQ(ModeOf(At("deep/er/out")), 0755u);
  // A link at its place is replaced, not followed; who reads the old file goes on.
  Write("target", "old");
  fs::create_symlink(At("target"), At("link"));
  Ok(store_->CopyOut(file.id, At("link"), 022));
  EXPECT_EQ(TextOf(At("target")), "old");
  EXPECT_FALSE(fs::is_symlink(At("link")));
  EXPECT_EQ(TextOf(At("link")), "new");
  const int reader = open(At("target").c_str(), O_RDONLY);
  Ok(store_->CopyOut(file.id, At("target"), 022));
  char old[4] = {};
  EXPECT_EQ(read(reader, old, 3), 3);
  EXPECT_STREQ(old, "old");
  close(reader);
}

TEST_F(CopyOutTest, WhatCannotBeReplacedStaysAndNothingHalfIsLeft) {
  const Object file = Take("new");
  Write("dir/inside", "x");
  EXPECT_EQ(store_->CopyOut(file.id, At("dir"), 022).code(), Code::kExists);
  EXPECT_EQ(TextOf(At("dir/inside")), "x");
  EXPECT_EQ(store_->CopyOut(file.id, "relative", 022).code(), Code::kInvalid);
  EXPECT_EQ(store_->CopyOut(file.id, At("x/.."), 022).code(), Code::kInvalid);
  EXPECT_EQ(store_->CopyOut(FileObject("absent").id, At("absent"), 022).code(), Code::kNotFound);
  EXPECT_NE(store_->CopyOut(file.id, At("dir/inside/below"), 022).code(), Code::kOk);
  Write("tree/dir", "a file there");
  const Object tree = CopyIn(At("tree"));
  Write("to/dir/x", "x");
  EXPECT_EQ(store_->CopyOut(tree.id, At("to"), 022).code(), Code::kExists);
  EXPECT_EQ(store_->CopyOut(tree.id, At("dir/inside"), 022).code(), Code::kExists);
  size_t left = 0;
  for (const fs::directory_entry& e : fs::recursive_directory_iterator(top_ + "/user")) {
    left += e.path().filename().string().starts_with(".harrow");
  }
  EXPECT_EQ(left, 0u);
}

TEST_F(CopyOutTest, DirectoriesAreMergedAndNoLinkInThemIsFollowed) {
  Write("d/sub/new", "new");
  Write("d/both", "from the store");
  Write("d/tool", "#!", 0755);
  fs::create_symlink("both", At("d/link"));
  fs::create_directories(At("d/empty"));
  const Object directory = CopyIn(At("d"));
  Write("out/both", "old");
  Write("out/kept", "kept");
  fs::create_symlink("kept", At("out/link"));
  Ok(store_->CopyOut(directory.id, At("out"), 022));
  EXPECT_EQ(TextOf(At("out/both")), "from the store");
  EXPECT_EQ(TextOf(At("out/kept")), "kept");
  EXPECT_EQ(TextOf(At("out/sub/new")), "new");
  EXPECT_EQ(fs::read_symlink(At("out/link")), "both");
  EXPECT_EQ(ModeOf(At("out/tool")), 0755u);
  EXPECT_EQ(ModeOf(At("out/both")), 0644u);
  EXPECT_EQ(ModeOf(At("out/sub")), 0755u);
  EXPECT_TRUE(fs::is_directory(At("out/empty")));

  fs::create_directories(At("elsewhere"));
  fs::create_directories(At("trap"));
  fs::create_directory_symlink(At("elsewhere"), At("trap/sub"));
  const Status status = store_->CopyOut(directory.id, At("trap"), 022);
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_NE(status.message().find("symbolic link"), std::string::npos) << status.message();
  EXPECT_TRUE(fs::is_empty(At("elsewhere")));
  // The top itself may be the user's link to a scratch disk.
  fs::create_directory_symlink(At("elsewhere"), At("results"));
  Ok(store_->CopyOut(directory.id, At("results"), 022));
  EXPECT_EQ(TextOf(At("elsewhere/sub/new")), "new");
}

TEST_F(CopyOutTest, WhoWatchesKnowsTemporariesAndMayRefuseNames) {
  const Object file = CopyIn(Write("f", "new"));
  for (int i = 0; i < 20; ++i) Write(StrCat("d/sub/", i), StrCat(i));
  fs::create_symlink("0", At("d/link"));
  const Object directory = CopyIn(At("d"));
  std::vector<std::string> temporaries;
  int may = 0;
  const CopyWatch watch{
      .temporary =
          [&](const std::string& path) {
            EXPECT_FALSE(fs::exists(path)) << "told before";
            temporaries.push_back(path);
          },
      .may_name =
          [&] {
            EXPECT_TRUE(std::any_of(temporaries.begin(), temporaries.end(),
                                    [](const auto& t) { return fs::is_symlink(t) || fs::exists(t); }));
            return --may >= 0 ? Status() : Status(Code::kRefused, "not now");
          }};
  Write("out/f", "old");
  EXPECT_EQ(store_->CopyOut(file.id, At("out/f"), 022, watch).code(), Code::kRefused);
  EXPECT_EQ(TextOf(At("out/f")), "old");
  may = 1;
  Ok(store_->CopyOut(file.id, At("out/f"), 022, watch));
  EXPECT_EQ(TextOf(At("out/f")), "new");
  EXPECT_EQ(temporaries.size(), 2u);
  EXPECT_EQ(fs::path(temporaries[0]).parent_path(), At("out"));

  temporaries.clear();
  may = 10;
  EXPECT_EQ(store_->CopyOut(directory.id, At("out/d"), 022, watch).code(), Code::kRefused);
  EXPECT_EQ(temporaries.size(), 21u);
  size_t files = 0;
  for (const fs::directory_entry& e : fs::recursive_directory_iterator(At("out/d"))) {
    files += !e.is_directory() || e.is_symlink();
    EXPECT_FALSE(e.path().filename().string().starts_with(".harrow")) << e.path();
  }
  EXPECT_EQ(files, 10u);
  for (const std::string& path : temporaries) EXPECT_FALSE(fs::is_symlink(path) || fs::exists(path)) << path;
  may = 21;
  Ok(store_->CopyOut(directory.id, At("out/d"), 022, watch));
  EXPECT_EQ(TextOf(At("out/d/sub/19")), "19");
}

TEST_F(CopyOutTest, FileSystemsThatCommitLaterGetASyncAFile) {
  for (const long type : {0xef53L, 0x58465342L, 0x9123683eL, 0x01021994L, 0x6969L})
    EXPECT_TRUE(SyncfsSuffices(type));
  for (const long type : {0x65735546L, 0x0bd00bd0L, 0x47504653L, 0L}) EXPECT_FALSE(SyncfsSuffices(type));
}

TEST_F(CopyOutTest, IncompleteDirectoriesAreNot) {
  Write("d/f", "here");
  const Object directory = CopyIn(At("d"));
  const std::string listing = ReadText(directory.id);
  store_->Drop(directory.id);
  Ok(Deliver({directory.id, static_cast<int64_t>(listing.size())}, listing));
  EXPECT_EQ(store_->CopyOut(directory.id, At("out"), 022).code(), Code::kNotFound);
  EXPECT_FALSE(fs::exists(At("out")));
}

}  // namespace
}  // namespace harrow::store
