#include <dirent.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "unit/store/store_fixture.h"

namespace harrow::store {
namespace {

using TakeInTest = StoreTest;

TEST_F(TakeInTest, FilesAndProgramsAreTakenAsTheyAre) {
  const Object file = CopyIn(Write("f", "some text"));
  const Object program = CopyIn(Write("p", "some text", 0755));
  EXPECT_EQ(file, FileObject("some text"));
  EXPECT_EQ(program, FileObject("some text", Kind::kProgram));
  EXPECT_TRUE(store_->Has(file.id));
  EXPECT_TRUE(store_->Has(program.id));
  EXPECT_EQ(ReadText(file.id), "some text");
  EXPECT_EQ(ModeOf(ObjectFile(file.id)), 0444u);
  EXPECT_EQ(ModeOf(ObjectFile(program.id)), 0555u);
  EXPECT_EQ(TextOf(At("f")), "some text");
  EXPECT_EQ(Files("arriving"), 0u);
  EXPECT_EQ(store_->room().objects, 2u);
}

TEST_F(TakeInTest, LargeAndEmptyFiles) {
  std::string text(3'000'001, 'x');
  for (size_t i = 0; i < text.size(); i += 1001) text[i] = static_cast<char>(i / 1001);
  EXPECT_EQ(Take(text), FileObject(text));
  EXPECT_EQ(ReadText(FileObject(text).id), text);
  EXPECT_EQ(Take(""), FileObject(""));
  EXPECT_EQ(ReadText(FileObject("").id), "");
  EXPECT_EQ(store_->room().used, (3'000'001u + 4095) / 4096 * 4096);
}

TEST_F(TakeInTest, EqualContentsAreThereOnce) {
  const Object first = CopyIn(Write("a", "same"));
  EXPECT_EQ(CopyIn(Write("b", "same")), first);
  WriteAt(Sandbox() + "/out", "same");
  EXPECT_EQ(Checked(store_->MoveIn(Root() + "/sandboxes/s/out")), first);
  EXPECT_FALSE(fs::exists(Root() + "/sandboxes/s/out"));
  EXPECT_EQ(Files("objects"), 1u);
  EXPECT_EQ(store_->room().used, 4096u);
  EXPECT_EQ(store_->All(), std::vector<Object>{first});
}

TEST_F(TakeInTest, MovedFilesKeepTheirInode) {
  const std::string path = WriteAt(Sandbox() + "/dir/out", "made", 0700);
  struct stat before {
  }, after{};
  stat(path.c_str(), &before);
  const Object made = Checked(store_->MoveIn(path));
  EXPECT_EQ(made, FileObject("made", Kind::kProgram));
  EXPECT_FALSE(fs::exists(path));
  ASSERT_EQ(stat(ObjectFile(made.id).c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(ModeOf(ObjectFile(made.id)), 0555u);
  EXPECT_EQ(store_->room().used, 4096u);
}

TEST_F(TakeInTest, WhatCannotBeReadByItsModeIsMovedAllTheSame) {
  const std::string file = WriteAt(Sandbox() + "/out", "made", 0);
  EXPECT_EQ(Checked(store_->MoveIn(file)), FileObject("made"));
  const std::string directory = Root() + "/sandboxes/s/d";
  WriteAt(directory + "/f", "x", 0);
  chmod(directory.c_str(), 0);
  Checked(store_->MoveIn(directory));
  EXPECT_FALSE(fs::exists(directory));
}

TEST_F(TakeInTest, AnInputChangedInPlaceAndCalledOutputIsAnObjectOfItsOwn) {
  const Object input = Take("before");
  const std::string path = Sandbox() + "/inout";
  Ok(store_->Place(input.id, "", path));
  const bool linked = Linked(path);
  chmod(path.c_str(), 0644);
  WriteAt(path, "after!");
  const Object output = Checked(store_->MoveIn(path));
  EXPECT_EQ(output, FileObject("after!"));
  EXPECT_EQ(store_->Unchanged(input.id), !linked);
  EXPECT_EQ(store_->Has(input.id), !linked);
  EXPECT_TRUE(store_->Unchanged(output.id));
  EXPECT_EQ(ReadText(output.id), "after!");
}

TEST_F(TakeInTest, AnInputRenamedToAnOutputIsTheSameObject) {
  const Object input = Take("same");
  const std::string path = Sandbox() + "/in";
  Ok(store_->Place(input.id, "", path));
  EXPECT_EQ(Checked(store_->MoveIn(path)), input);
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(store_->Unchanged(input.id));
}

TEST_F(TakeInTest, DirectoriesWithLinksAndEmptyOnes) {
  Write("d/b/deep/file", "1");
  Write("d/a", "2");
  Write("d/b/prog", "2", 0700);
  Write("d/again", "2");
  fs::create_directories(At("d/empty"));
  fs::create_symlink("/nowhere/at all", At("d/link"));
  fs::create_directory_symlink("..", At("d/b/up"));
  const Object copied = CopyIn(At("d"));
  EXPECT_EQ(copied.id.kind, Kind::kDirectory);
  EXPECT_EQ(copied.bytes, 4);
  const auto entries = Checked(ReadListing(ReadText(copied.id)));
  std::string names;
  for (const Entry& e : entries)
    names += StrCat(e.path, e.type == Entry::Type::kLink ? " -> " + e.target : "", "|");
  EXPECT_EQ(names, "a|again|b|b/deep|b/deep/file|b/prog|b/up -> ..|empty|link -> /nowhere/at all|");
  EXPECT_EQ(store_->All(), std::vector<Object>{copied});
  EXPECT_EQ(store_->room().objects, 4u);
  EXPECT_EQ(Files("parts"), 3u);

  // The same tree from a sandbox is the same object.
  const std::string sandbox = Sandbox();
  fs::copy(At("d"), sandbox + "/d", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  EXPECT_EQ(Checked(store_->MoveIn(sandbox + "/d")), copied);
  EXPECT_TRUE(fs::is_empty(sandbox));
}

TEST_F(TakeInTest, WhatIsNeitherFileNorDirectoryIsRefusedInWords) {
  const std::string sandbox = Sandbox();
  mkfifo((sandbox + "/fifo").c_str(), 0600);
  fs::create_symlink("f", sandbox + "/link");
  WriteAt(sandbox + "/f", "x");
  fs::create_directories(sandbox + "/d");
  mkfifo((sandbox + "/d/pipe").c_str(), 0600);
  WriteAt(sandbox + "/d/file", "in it");
  fs::create_directory_symlink("d", sandbox + "/dlink");
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (sandbox + "/sock").copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  close(fd);
  const std::pair<const char*, const char*> cases[] = {
      {"fifo", "FIFO"},   {"link", "symbolic link"},  {"d", "pipe is a FIFO"},
      {"sock", "socket"}, {"dlink", "symbolic link"}, {"dlink/file", "symbolic link"}};
  for (const auto& [name, word] : cases) {
    const Status status = store_->MoveIn(sandbox + "/" + name).status();
    EXPECT_EQ(status.code(), Code::kInvalid) << name;
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  }
  EXPECT_EQ(TextOf(sandbox + "/d/file"), "in it");
  EXPECT_EQ(store_->CopyIn(sandbox + "/fifo").status().code(), Code::kInvalid);
  EXPECT_EQ(store_->CopyIn("/dev/null").status().code(), Code::kInvalid);
  EXPECT_EQ(store_->CopyIn(At("absent")).status().code(), Code::kNotFound);
  EXPECT_EQ(store_->MoveIn(sandbox + "/absent").status().code(), Code::kNotFound);
  EXPECT_EQ(store_->MoveIn(sandbox + "/../../held-by").status().code(), Code::kInvalid);
  EXPECT_EQ(Checked(store_->CopyIn(sandbox + "/link")), FileObject("x"));  // a user's own arrangement
  EXPECT_EQ(store_->room().objects, 1u);
  EXPECT_EQ(store_->room().used, 4096u);
  EXPECT_EQ(Files("parts") + Files("arriving"), 0u);
}

TEST_F(TakeInTest, OddNames) {
  const std::string sandbox = Sandbox();
  const std::vector<std::string> names{
      std::string(255, 'n'), "new\nline", "sp ace", "\xff\xfe", "-rf", "\"'$`\\", ".harrow"};
  for (const std::string& name : names) WriteAt(sandbox + "/d/" + name, name);
  const Object taken = Checked(store_->MoveIn(sandbox + "/d"));
  Ok(store_->Place(taken.id, "", sandbox + "/again"));
  Ok(store_->CopyOut(taken.id, At("out"), 022));
  for (const std::string& name : names) {
    EXPECT_EQ(TextOf(sandbox + "/again/" + name), name);
    EXPECT_EQ(TextOf(At("out/" + name)), name);
  }
  const std::string file = WriteAt(sandbox + "/" + names[0], "long");
  EXPECT_EQ(Checked(store_->MoveIn(file)), FileObject("long"));
  Ok(store_->CopyOut(FileObject("long").id, At(names[0]), 022));
  EXPECT_EQ(TextOf(At(names[0])), "long");
}

/// Directories one in the other with a file in the last.
std::string DeepTree(const std::string& top, int depth, const std::string& name) {
  fs::create_directories(top);
  int at = open(top.c_str(), O_PATH | O_DIRECTORY);
  for (int i = 0; i < depth; ++i) {
    mkdirat(at, name.c_str(), 0755);
    const int next = openat(at, name.c_str(), O_PATH | O_DIRECTORY);
    close(at);
    at = next;
  }
  const int fd = openat(at, "file", O_WRONLY | O_CREAT, 0644);
  EXPECT_EQ(write(fd, "bottom", 6), 6);
  close(fd);
  close(at);
  return top;
}

TEST_F(TakeInTest, TreesDeeperThanAPathCanNameAreTakenPlacedCopiedAndRemoved) {
  const std::string sandbox = Sandbox(), name(100, 'n');
  const Object taken = Checked(store_->MoveIn(DeepTree(sandbox + "/d", 60, name)));
  EXPECT_EQ(taken.bytes, 6);
  Ok(store_->Place(taken.id, "", sandbox + "/placed"));
  EXPECT_EQ(Checked(store_->CopyIn(sandbox + "/placed")), taken);
  Ok(store_->CopyOut(taken.id, sandbox + "/out", 022));
  EXPECT_EQ(Checked(store_->CopyIn(sandbox + "/out")), taken);
  store_->RemoveSandbox(sandbox);
  EXPECT_FALSE(fs::exists(sandbox));
}

TEST_F(TakeInTest, TreesDeeperThanThereAreDescriptors) {
  const std::string sandbox = Sandbox();
  const Object taken = Checked(store_->MoveIn(DeepTree(sandbox + "/d", 1100, "d")));
  EXPECT_EQ(taken.bytes, 6);
  EXPECT_FALSE(fs::exists(sandbox + "/d"));
  Ok(store_->Place(taken.id, "", sandbox + "/placed"));
  store_->RemoveSandbox(sandbox);
  EXPECT_FALSE(fs::exists(sandbox));
}

TEST_F(TakeInTest, TreesHaveAnEnd) {
  const std::string sandbox = Sandbox();
  const std::string top = DeepTree(sandbox + "/d", 170, std::string(200, 'n'));
  const Status too_deep = store_->MoveIn(top).status();
  EXPECT_EQ(too_deep.code(), Code::kInvalid);
  EXPECT_NE(too_deep.message().find("too deep"), std::string::npos) << too_deep.message();
  store_->RemoveSandbox(sandbox);
  EXPECT_FALSE(fs::exists(sandbox));
}

TEST_F(TakeInTest, ManyFilesInOneDirectory) {
  constexpr int kFiles = 1000;
  const std::string sandbox = Sandbox();
  for (int i = 0; i < kFiles; ++i)
    WriteAt(StrCat(sandbox, "/d/", i), i % 10 == 0 ? "" : StrCat("content ", i));
  const Object taken = Checked(store_->MoveIn(sandbox + "/d"));
  EXPECT_EQ(store_->room().objects, kFiles * 9 / 10 + 2u);
  Ok(store_->Place(taken.id, "", sandbox + "/e"));
  EXPECT_EQ(TextOf(sandbox + "/e/999"), "content 999");
  Ok(store_->CopyOut(taken.id, At("out"), 022));
  EXPECT_EQ(Checked(store_->CopyIn(At("out"))), taken);
  EXPECT_TRUE(store_->Unchanged(taken.id));
  store_->Drop(taken.id);
  EXPECT_EQ(Files("objects") + Files("parts"), 0u);
  EXPECT_EQ(store_->room().used, 0u);
}

}  // namespace
}  // namespace harrow::store
