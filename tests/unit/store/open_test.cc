#include <sys/time.h>

#include "unit/store/store_fixture.h"

namespace harrow::store {
namespace {

using OpenTest = StoreTest;

std::vector<Object> Sorted(std::vector<Object> objects) {
  std::sort(objects.begin(), objects.end());
  return objects;
}

TEST_F(OpenTest, WholeObjectsAreFoundAgainAndTheRestIsRemoved) {
  Write("d/f", "in it");
  Write("d/both", "both");
  const Object file = Take("alone"), directory = CopyIn(At("d")), both = Take("both");
  const Object program = CopyIn(Write("p", "prog", 0755));
  const Object half = FileObject("half");
  const std::string sandbox = Sandbox();
  Ok(store_->Place(file.id, "", sandbox + "/f"));
  {
    auto arrival = Checked(store_->Begin(half));
    Ok(arrival->Write(0, "ha"));
  }
  const Store::Room before = store_->room();
  // A listing whose files are not all here.
  Write("e/there", "there");
  const Object partial = CopyIn(At("e"));
  const std::string listing = ReadText(partial.id);
  store_->Drop(partial.id);
  Ok(Deliver({partial.id, static_cast<int64_t>(listing.size())}, listing));

  Open();
  EXPECT_EQ(Sorted(store_->All()), Sorted({file, directory, both, program}));
  EXPECT_FALSE(store_->Has(half.id));
  EXPECT_FALSE(store_->Has(partial.id));
  EXPECT_EQ(store_->MissingOf(partial.id).status().code(), Code::kNotFound);
  EXPECT_FALSE(fs::exists(sandbox));
  EXPECT_EQ(Files("arriving"), 0u);
  EXPECT_EQ(store_->room().used, before.used - 4096);
  EXPECT_EQ(ReadText(both.id), "both");
  EXPECT_TRUE(store_->Unchanged(directory.id));
  store_->Drop(directory.id);
  EXPECT_TRUE(store_->Has(both.id));
  EXPECT_FALSE(store_->Has(FileObject("in it").id));
  Open();
  EXPECT_EQ(Sorted(store_->All()), Sorted({file, both, program}));
}

TEST_F(OpenTest, WhatANewProcessCannotTrustGoes) {
  Write("d/f", "in it");
  const Object touched = Take("touched"), written = Take("written"), good = Take("good"),
               directory = CopyIn(At("d"));
  const Object linked = Take("linked"), torn = CopyIn(Write("e/g", "torn")), listed = CopyIn(At("e"));
  store_.reset();
  utimes(ObjectFile(touched.id).c_str(), nullptr);
  chmod(ObjectFile(written.id).c_str(), 0644);
  std::ofstream(ObjectFile(written.id), std::ios::app) << "x";
  fs::remove(ObjectFile(linked.id));
  fs::create_symlink(ObjectFile(good.id), ObjectFile(linked.id));
  fs::remove(ObjectFile(FileObject("in it").id, "parts"));
  // A listing of other bytes with the right time.
  timespec times[2];
  struct stat info {};
  ASSERT_EQ(stat(ObjectFile(listed.id).c_str(), &info), 0);
  times[0] = times[1] = info.st_mtim;
  chmod(ObjectFile(listed.id).c_str(), 0644);
  std::ofstream(ObjectFile(listed.id)) << "HRLIST 1";
  utimensat(AT_FDCWD, ObjectFile(listed.id).c_str(), times, 0);
  WriteAt(Root() + "/objects/zz/file", "x");
  WriteAt(Root() + "/objects/file", "x");
  WriteAt(Root() + "/objects/00/" + std::string(32, '0') + "f", "no object's time");
  fs::create_directories(Root() + "/objects/" + good.id.Text().substr(0, 2) + "/" + std::string(32, '0') +
                         "x");
  Open();
  EXPECT_EQ(Sorted(store_->All()), Sorted({good, torn}));
  EXPECT_FALSE(store_->Read(directory.id).ok());
  EXPECT_EQ(Files("objects"), 2u);
  EXPECT_EQ(Files("parts"), 0u);
}

TEST_F(OpenTest, OneProcessHasIt) {
  const Object file = Take("x");
  Result<std::unique_ptr<Store>> second = Store::Open(Root(), {});
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  EXPECT_NE(second.status().message().find("in use"), std::string::npos);
  EXPECT_TRUE(store_->Has(file.id));
  Open();
  EXPECT_TRUE(store_->Has(file.id));
}

TEST_F(OpenTest, OddDirectoriesAreRefused) {
  const auto code = [](const std::string& path) { return Store::Open(path, {}).status().code(); };
  fs::create_directory_symlink(Root(), top_ + "/link");
  EXPECT_EQ(code(top_ + "/link"), Code::kPermission);
  EXPECT_EQ(code(top_ + "/link/"), Code::kPermission);
  fs::create_directories(top_ + "/open");
  chmod((top_ + "/open").c_str(), 0750);
  EXPECT_EQ(code(top_ + "/open"), Code::kPermission);
  Write("precious", "x");
  chmod((top_ + "/user").c_str(), 0700);
  EXPECT_EQ(code(top_ + "/user"), Code::kInvalid);
  EXPECT_EQ(TextOf(At("precious")), "x");
  EXPECT_EQ(code(At("precious")), Code::kInvalid);
  EXPECT_EQ(code("relative"), Code::kInvalid);
  EXPECT_EQ(code(""), Code::kInvalid);
  EXPECT_EQ(code("/"), Code::kInvalid);
  EXPECT_EQ(code(top_ + "/new/and/deep//"), Code::kOk);
  EXPECT_EQ(ModeOf(top_ + "/new/and/deep"), 0700u);
  if (geteuid() == 0) {
    fs::create_directories(top_ + "/others");
    chmod((top_ + "/others").c_str(), 0700);
    EXPECT_EQ(chown((top_ + "/others").c_str(), 65534, 65534), 0);
    EXPECT_EQ(code(top_ + "/others"), Code::kPermission);
  }
}

TEST_F(OpenTest, AfterAnotherBootOnlyWhatWasSyncedIsTrusted) {
  const std::string owner = Root() + "/held-by";
  const auto reboot = [&] {
    store_.reset();
    std::string text = TextOf(owner);
    const size_t boot = text.find(' ', sizeof "harrow store") + 1;
    text.replace(boot, 8, "anotherb");
    std::ofstream(owner) << text;
  };
  const Object file = Take("x");
  EXPECT_TRUE(TextOf(owner).starts_with("harrow store 1 "));
  EXPECT_TRUE(TextOf(owner).ends_with(" sync=0\n"));
  Open({.durable = true});
  EXPECT_TRUE(store_->Has(file.id));
  Take("y");
  Write("d/f", "in it");
  CopyIn(At("d"));
  Ok(Deliver(FileObject("z"), "z"));
  reboot();
  Open();
  EXPECT_EQ(store_->All().size(), 4u);
  reboot();
  Open();
  EXPECT_EQ(store_->All().size(), 0u);
  EXPECT_EQ(Files("objects") + Files("parts"), 0u);
  Take("x");
  store_.reset();
  std::ofstream(owner) << "harrow store 2 what comes later\n";
  Open();
  EXPECT_EQ(store_->room().objects, 0u);
  Open();
  Take("x");
  store_.reset();
  std::ofstream(owner) << "";
  Open();
  EXPECT_EQ(store_->room().objects, 0u);
}

TEST_F(OpenTest, EraseLeavesNothing) {
  Write("d/f", "in it");
  const Object file = Take("x");
  CopyIn(At("d"));
  const std::string sandbox = Sandbox();
  WriteAt(sandbox + "/locked/f", "x");
  chmod((sandbox + "/locked").c_str(), 0);
  fs::create_directory_symlink(top_ + "/user", sandbox + "/link");
  Checked(store_->Begin(FileObject("half"))).reset();
  auto reader = Checked(store_->Read(file.id));
  store_->Erase();
  EXPECT_FALSE(fs::exists(Root()));
  EXPECT_FALSE(store_->Has(file.id));
  EXPECT_EQ(store_->room().used, 0u);
  char byte = 0;
  EXPECT_EQ(pread(reader->fd(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_EQ(TextOf(At("d/f")), "in it");
  Open();
  EXPECT_EQ(store_->room().objects, 0u);
}

}  // namespace
}  // namespace harrow::store
