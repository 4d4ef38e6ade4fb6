#include <limits>

#include "unit/store/store_fixture.h"

namespace harrow::store {
namespace {

using PlaceTest = StoreTest;

TEST_F(PlaceTest, FilesComeAtTheirPathsReadOnly) {
  const Object file = CopyIn(Write("f", "text"));
  const Object program = CopyIn(Write("p", "text", 0755));
  const std::string sandbox = Sandbox();
  EXPECT_EQ(ModeOf(sandbox), 0700u);
  Ok(store_->Place(file.id, "", sandbox + "/raw/deep/f"));
  Ok(store_->Place(file.id, "", sandbox + "/./raw//g"));
  Ok(store_->Place(program.id, "", sandbox + "/bin/p"));
  EXPECT_EQ(TextOf(sandbox + "/raw/deep/f"), "text");
  EXPECT_EQ(TextOf(sandbox + "/raw/g"), "text");
  EXPECT_EQ(ModeOf(sandbox + "/raw/deep/f"), 0444u);
  EXPECT_EQ(ModeOf(sandbox + "/bin/p"), 0555u);
  EXPECT_EQ(ModeOf(sandbox + "/raw"), 0755u);
  Ok(store_->Place(file.id, "", sandbox + "/raw/g"));  // there already, and the very same
  EXPECT_EQ(store_->Place(program.id, "", sandbox + "/raw/g").code(), Code::kExists);
  EXPECT_EQ(store_->Place(program.id, "", sandbox + "/raw/g/x").code(), Code::kExists);
  store_->RemoveSandbox(sandbox);
  EXPECT_FALSE(fs::exists(sandbox));
  EXPECT_TRUE(store_->Unchanged(file.id));
}

TEST_F(PlaceTest, NothingIsPlacedOutsideOfASandbox) {
  const Object file = Take("text");
  const std::string sandbox = Sandbox();
  for (const std::string& path : {At("f"), sandbox, sandbox + "/", sandbox + "/../../f", Root() + "/f",
                                  std::string("f"), std::string(), Root() + "/sandboxes/../f"}) {
    EXPECT_EQ(store_->Place(file.id, "", path).code(), Code::kInvalid) << path;
  }
  EXPECT_EQ(store_->Place(file.id, "", Root() + "/sandboxes/other/f").code(), Code::kNotFound);
  fs::create_directory_symlink(top_, sandbox + "/out");
  EXPECT_EQ(store_->Place(file.id, "", sandbox + "/out/f").code(), Code::kInvalid);
  EXPECT_FALSE(fs::exists(top_ + "/f"));
  EXPECT_EQ(store_->Place(FileObject("other").id, "", sandbox + "/f").code(), Code::kNotFound);
  EXPECT_EQ(store_->Place(file.id, "inside", sandbox + "/f").code(), Code::kInvalid);
}

TEST_F(PlaceTest, ADirectoryOrAPartOfOne) {
  for (const char* name : {"d/a/x", "d/a/sub/y", "d/a-b", "d/a.c", "d/a0", "d/z"}) Write(name, name);
  fs::create_symlink("x", At("d/a/link"));
  fs::create_directories(At("d/a/empty"));
  const Object directory = CopyIn(At("d"));
  const std::string sandbox = Sandbox();
  Ok(store_->Place(directory.id, "", sandbox + "/all"));
  Ok(store_->Place(directory.id, "", sandbox + "/all"));  // merged with itself
  EXPECT_EQ(Checked(store_->CopyIn(sandbox + "/all")), directory);
  Ok(store_->Place(directory.id, "a", sandbox + "/part"));
  EXPECT_EQ(TextOf(sandbox + "/part/sub/y"), "d/a/sub/y");
  EXPECT_EQ(fs::read_symlink(sandbox + "/part/link"), "x");
  EXPECT_TRUE(fs::is_directory(sandbox + "/part/empty"));
  EXPECT_EQ(std::distance(fs::directory_iterator(sandbox + "/part"), {}), 4);
  Ok(store_->Place(directory.id, "a/sub/y", sandbox + "/p/y"));
  EXPECT_EQ(TextOf(sandbox + "/p/y"), "d/a/sub/y");
  Ok(store_->Place(directory.id, "a/link", sandbox + "/p/l"));
  EXPECT_EQ(fs::read_symlink(sandbox + "/p/l"), "x");
  for (const char* absent : {"b", "a/s", "a/sub/y/z", "..", "a/", "/a"}) {
    EXPECT_EQ(store_->Place(directory.id, absent, sandbox + "/q").code(), Code::kNotFound) << absent;
  }
  // A link that came with a directory leads nothing outside.
  fs::create_directories(At("e"));
  fs::create_directory_symlink(top_, At("e/evil"));
  Ok(store_->Place(CopyIn(At("e")).id, "", sandbox + "/e"));
  EXPECT_EQ(store_->Place(directory.id, "", sandbox + "/e/evil/x").code(), Code::kInvalid);
  EXPECT_FALSE(fs::exists(top_ + "/x"));
}

TEST_F(PlaceTest, WritingThroughAPlacedFileIsFoundOut) {
  const std::string sandbox = Sandbox();
  const auto path = [&] { return sandbox + "/in"; };
  const auto place = [&] {
    unlink(path().c_str());
    const Object object = Take("content");
    Ok(store_->Place(object.id, "", path()));
    EXPECT_TRUE(store_->Unchanged(object.id));
    return object;
  };
  const auto write_at = [&](int flags, const char* text) {
    chmod(path().c_str(), 0644);
    const int fd = open(path().c_str(), O_WRONLY | flags);
    EXPECT_GE(write(fd, text, strlen(text)), 0);
    close(fd);
  };
  place();
  if (!Linked(path())) return;
  for (const auto& [flags, text] :
       {std::pair{0, "CONTENT"}, {O_APPEND, "x"}, {O_TRUNC, ""}, {0, "content"}}) {
    const Object object = place();
    write_at(flags, text);
    EXPECT_FALSE(store_->Unchanged(object.id)) << text;
    EXPECT_FALSE(store_->Has(object.id));
    EXPECT_FALSE(fs::exists(ObjectFile(object.id)));
    EXPECT_EQ(store_->room().used, 0u);
  }
  // A mode is no content, and is set right.
  Object object = place();
  chmod(path().c_str(), 0777);
  EXPECT_TRUE(store_->Unchanged(object.id));
  EXPECT_EQ(ModeOf(ObjectFile(object.id)), 0444u);
  unlink(path().c_str());  // and a name is not, either
  EXPECT_TRUE(store_->Unchanged(object.id));

  // Nobody gets it, asked for or not.
  object = place();
  write_at(0, "CONTENT");
  EXPECT_EQ(store_->Place(object.id, "", sandbox + "/second").code(), Code::kDamaged);
  EXPECT_FALSE(fs::exists(sandbox + "/second"));
  object = place();
  write_at(0, "CONTENT");
  EXPECT_EQ(store_->Read(object.id).status().code(), Code::kDamaged);
  object = place();
  write_at(0, "CONTENT");
  EXPECT_EQ(store_->CopyOut(object.id, At("out"), 022).code(), Code::kDamaged);
  EXPECT_FALSE(fs::exists(At("out")));
  object = place();
  unlink(ObjectFile(object.id).c_str());
  fs::create_symlink(path(), ObjectFile(object.id));
  EXPECT_EQ(store_->Read(object.id).status().code(), Code::kDamaged);
  EXPECT_EQ(store_->Read(object.id).status().code(), Code::kNotFound);
  EXPECT_EQ(TextOf(path()), "content");
  object = place();
  unlink(ObjectFile(object.id).c_str());
  EXPECT_FALSE(store_->Unchanged(object.id));
  EXPECT_FALSE(store_->Has(object.id));
}

TEST_F(PlaceTest, AChangedFileTakesItsDirectoriesAlong) {
  Write("d/shared", "shared");
  Write("d/one", "1");
  Write("e/shared", "shared");
  Write("e/two", "2");
  Write("f/two", "2");
  const Object d = CopyIn(At("d")), e = CopyIn(At("e")), f = CopyIn(At("f")), two = CopyIn(At("f/two"));
  const std::string sandbox = Sandbox();
  Ok(store_->Place(d.id, "", sandbox + "/d"));
  if (!Linked(sandbox + "/d/shared")) return;
  chmod((sandbox + "/d/shared").c_str(), 0644);
  WriteAt(sandbox + "/d/shared", "SHARED");
  chmod((sandbox + "/d/one").c_str(), 0600);
  EXPECT_FALSE(store_->Unchanged(d.id));
  EXPECT_FALSE(store_->Has(d.id));
  EXPECT_FALSE(store_->Has(e.id));
  EXPECT_TRUE(store_->Has(f.id));
  EXPECT_TRUE(store_->Unchanged(f.id));
  std::vector<Object> all = store_->All();
  std::sort(all.begin(), all.end());
  std::vector<Object> expected{f, two};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(all, expected);
  EXPECT_EQ(store_->room().objects, 2u);
  EXPECT_EQ(Files("parts"), 0u);
}

TEST_F(PlaceTest, SandboxesHaveNamesAndGoWithAllThatIsInThem) {
  for (const char* name : {"", ".", "..", "a/b", "/"}) {
    EXPECT_EQ(store_->MakeSandbox(name).status().code(), Code::kInvalid) << name;
  }
  const std::string sandbox = Sandbox("odd\nname");
  EXPECT_EQ(store_->MakeSandbox("odd\nname").status().code(), Code::kExists);
  Write("precious", "stays");
  fs::create_directory_symlink("/", sandbox + "/root");
  fs::create_directory_symlink(top_ + "/user", sandbox + "/user");
  WriteAt(sandbox + "/new\nline/\xff/file", "x", 0);
  WriteAt(sandbox + "/locked/in/file", "x");
  chmod((sandbox + "/locked/in").c_str(), 0);
  chmod((sandbox + "/locked").c_str(), 0500);
  chmod(sandbox.c_str(), 0500);
  mkfifo((sandbox + "/fifo").c_str(), 0);
  store_->RemoveSandbox(top_ + "/user");
  store_->RemoveSandbox(Root() + "/sandboxes");
  store_->RemoveSandbox(Root() + "/sandboxes/..");
  store_->RemoveSandbox(sandbox + "/locked");
  EXPECT_TRUE(fs::exists(sandbox + "/root"));
  store_->RemoveSandbox(sandbox);
  EXPECT_FALSE(fs::exists(fs::symlink_status(sandbox)));
  EXPECT_EQ(TextOf(At("precious")), "stays");
  store_->RemoveSandbox(sandbox);
  // A task that swaps its sandbox for a link.
  Sandbox("swapped");
  fs::remove(Root() + "/sandboxes/swapped");
  fs::create_directory_symlink(top_ + "/user", Root() + "/sandboxes/swapped");
  store_->RemoveSandbox(Root() + "/sandboxes/swapped");
  EXPECT_EQ(TextOf(At("precious")), "stays");
}

TEST_F(PlaceTest, MoreLinksThanAnInodeTakes) {
  const Object object = Take("popular");
  const std::string sandbox = Sandbox();
  Ok(store_->Place(object.id, "", sandbox + "/first"));
  const int from = open(sandbox.c_str(), O_PATH | O_DIRECTORY);
  fs::create_directories(sandbox + "/many");
  const int to = open((sandbox + "/many").c_str(), O_PATH | O_DIRECTORY);
  constexpr int kEnough = 70'000;  // ext4 has 65 000; others none that can be reached
  int made = 0;
  while (made < kEnough && linkat(from, "first", to, StrCat(made).c_str(), 0) == 0) ++made;
  EXPECT_TRUE(made == kEnough || errno == EMLINK) << errno;
  close(from);
  close(to);
  Ok(store_->Place(object.id, "", sandbox + "/copy"));
  EXPECT_EQ(TextOf(sandbox + "/copy"), "popular");
  EXPECT_EQ(ModeOf(sandbox + "/copy"), 0444u);
  fs::remove_all(sandbox + "/many");
  Ok(store_->Place(object.id, "", sandbox + "/linked"));  // links are the way again
  struct stat info {};
  EXPECT_EQ(stat((sandbox + "/linked").c_str(), &info), 0);
  EXPECT_NE(info.st_nlink, 2u);
}

TEST_F(PlaceTest, WhatAnotherNodeFoundDamagedIsHereNoMoreThoughADirectoryHoldsIt) {
  Write("d/shared", "shared");
  Write("d/one", "1");
  Write("e/shared", "shared");
  Write("e/two", "2");
  Write("f/two", "2");
  for (const bool of_directory : {false, true}) {
    const Object d = CopyIn(At("d")), e = CopyIn(At("e")), f = CopyIn(At("f"));
    const Object shared = CopyIn(At("d/shared")), two = CopyIn(At("e/two"));
    store_->Spare(shared.id);
    store_->Damaged(of_directory ? d.id : shared.id);
    EXPECT_FALSE(store_->Has(shared.id));
    EXPECT_FALSE(store_->Has(d.id));
    EXPECT_FALSE(store_->Has(e.id)) << "it is the same there";
    EXPECT_TRUE(store_->Has(f.id));
    EXPECT_TRUE(store_->Has(two.id)) << "good, and asked for by itself";
    EXPECT_EQ(Files("objects") + Files("parts"), 2u);
    EXPECT_EQ(ReadText(CopyIn(At("d/shared")).id), "shared") << "it may come again";
    store_->Drop(shared.id);
  }
}

}  // namespace
}  // namespace harrow::store
