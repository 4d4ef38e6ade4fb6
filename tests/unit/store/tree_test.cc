#include "store/tree.h"

#include <algorithm>

#include "unit/store/store_fixture.h"

namespace harrow::store {
namespace {

class TreeTest : public StoreTest {
 protected:
  TreeTest() {
    fs::create_directories(top_ + "/user");
    root_ = OpenAt(AT_FDCWD, (top_ + "/user").c_str(), O_RDONLY | O_DIRECTORY);
  }
  Fd root_;
};

TEST_F(TreeTest, EverythingIsVisitedADirectoryBeforeWhatIsInIt) {
  for (const char* name : {"a", "d/b", "d/e/c", "f/g/h/i"}) Write(name, name);
  fs::create_directory_symlink("d", At("link"));
  std::vector<std::string> paths;
  Ok(WalkTree(root_.get(), "top", false, [&](const Found& found) -> Status {
    EXPECT_EQ(NameOf(found.path), found.name);
    struct stat info {};
    EXPECT_EQ(fstatat(found.directory, found.name.c_str(), &info, AT_SYMLINK_NOFOLLOW), 0);
    EXPECT_EQ(info.st_ino, found.info.st_ino);
    const std::string parent(ParentOf(found.path));
    EXPECT_TRUE(parent.empty() || std::find(paths.begin(), paths.end(), parent) != paths.end()) << found.path;
    paths.push_back(found.path);
    return {};
  }));
  std::sort(paths.begin(), paths.end());
  EXPECT_EQ(paths, (std::vector<std::string>{"a", "d", "d/b", "d/e", "d/e/c", "f", "f/g", "f/g/h", "f/g/h/i",
                                             "link"}));
  const Status stopped =
      WalkTree(root_.get(), "top", false, [](const Found&) { return Status(Code::kRefused, "no"); });
  EXPECT_EQ(stopped.code(), Code::kRefused);
}

TEST_F(TreeTest, AWalkThatIsMovedElsewhereEnds) {
  Write("a/b/file", "x");
  Write("other/file", "stays");
  const Status status = WalkTree(root_.get(), "top", false, [&](const Found& found) -> Status {
    if (found.name == "b") fs::rename(At("a"), top_ + "/gone");
    return {};
  });
  // It goes on down; on the way up the directory above is not the one that it came from.
  EXPECT_FALSE(status.ok());
}

TEST_F(TreeTest, ADescentFollowsNoLinkAndGoesToAndFro) {
  Write("d/e/file", "x");
  fs::create_directory_symlink("d", At("link"));
  std::vector<std::string> made;
  Descent descent(root_.get(), "top", Descent::Make::kYes, 0700);
  descent.made = [&](int, const std::string& name) { made.push_back(name); };
  const auto inode = [](int fd) {
    struct stat info {};
    EXPECT_EQ(fstat(fd, &info), 0);
    return info.st_ino;
  };
  const auto expect = [&](const std::string& path) {
    struct stat info {};
    const Result<int> at = descent.To(path);
    ASSERT_TRUE(at.ok()) << path << ": " << at.status().message();
    EXPECT_EQ(stat(At(path).c_str(), &info), 0);
    EXPECT_EQ(inode(*at), info.st_ino) << path;
  };
  for (const char* path : {"d/e", "", "d", "d/e", "d", "d/new/er", "de", "de/e", "d/e"}) expect(path);
  EXPECT_EQ(made, (std::vector<std::string>{"new", "er", "de", "e"}));
  EXPECT_EQ(ModeOf(At("d/new")), 0700u);
  EXPECT_EQ(descent.To("link/e").status().code(), Code::kInvalid);
  EXPECT_EQ(descent.To("d/e/file").status().code(), Code::kExists);
  EXPECT_EQ(descent.To("d/e/file/x").status().code(), Code::kExists);
  expect("d/e");  // as before
  Descent reader(root_.get(), "top", Descent::Make::kNo);
  EXPECT_EQ(reader.To("d/none").status().code(), Code::kNotFound);
  EXPECT_FALSE(fs::exists(At("d/none")));
  EXPECT_TRUE(reader.To("d/e").ok());
}

TEST_F(TreeTest, NamesOfPaths) {
  EXPECT_EQ(ParentOf("a/b/c"), "a/b");
  EXPECT_EQ(NameOf("a/b/c"), "c");
  EXPECT_EQ(ParentOf("a"), "");
  EXPECT_EQ(NameOf("a"), "a");
}

TEST_F(TreeTest, WhateverHasTheNameIsRemoved) {
  Write("d/e/f", "x");
  Write("file", "x");
  Write("kept", "stays");
  fs::create_symlink("kept", At("link"));
  mkfifo(At("fifo").c_str(), 0);
  for (const char* name : {"d", "file", "link", "fifo", "absent"}) {
    Ok(RemoveAll(root_.get(), name, name));
    EXPECT_FALSE(fs::exists(fs::symlink_status(At(name))));
  }
  EXPECT_EQ(TextOf(At("kept")), "stays");
}

}  // namespace
}  // namespace harrow::store
