#include <functional>
#include <sched.h>
#include <sys/mount.h>
#include <thread>

#include "store/tree.h"
#include "unit/store/store_fixture.h"

namespace harrow::store {
namespace {

using RoomTest = StoreTest;

TEST_F(RoomTest, ALimitIsHeldInBlocks) {
  Open({.limit = 5 * 4096});
  EXPECT_EQ(store_->room().limit, 5 * 4096u);
  Take("one byte is one block");
  EXPECT_EQ(store_->room().used, 4096u);
  const Object large = FileObject(std::string(4096 * 3 + 1, 'l'));
  auto arrival = Checked(store_->Begin(large));
  EXPECT_EQ(store_->room().used, 5 * 4096u);
  Status status = store_->CopyIn(Write("f", "x")).status();
  EXPECT_EQ(status.code(), Code::kExhausted);
  EXPECT_NE(status.message().find("20.0 KiB of the 20.0 KiB"), std::string::npos) << status.message();
  EXPECT_EQ(store_->Begin(FileObject("y")).status().code(), Code::kExhausted);
  const std::string made = WriteAt(Sandbox() + "/made", "made");
  EXPECT_EQ(store_->MoveIn(made).status().code(), Code::kExhausted);
  EXPECT_EQ(TextOf(made), "made");
  EXPECT_EQ(ModeOf(made), 0644u);
  WriteAt(Root() + "/sandboxes/s/d/a", "aa");
  WriteAt(Root() + "/sandboxes/s/d/b", "bb");
  EXPECT_EQ(store_->MoveIn(Root() + "/sandboxes/s/d").status().code(), Code::kExhausted);
  EXPECT_EQ(TextOf(Root() + "/sandboxes/s/d/a"), "aa");
  CopyIn(Write("empty", ""));  // takes no block
  arrival.reset();
  store_->Drop(large.id);
  EXPECT_EQ(store_->room().used, 4096u);
  EXPECT_EQ(Checked(store_->MoveIn(made)), FileObject("made"));
  Checked(store_->MoveIn(Root() + "/sandboxes/s/d"));
  EXPECT_EQ(store_->room().used, 5 * 4096u);
  Open({.limit = 2 * 4096});  // smaller than what is there: it stays, nothing comes
  EXPECT_EQ(store_->room().used, 5 * 4096u);
  EXPECT_EQ(store_->room().limit, 2 * 4096u);
  EXPECT_EQ(store_->Begin(FileObject("y")).status().code(), Code::kExhausted);
}

TEST_F(RoomTest, WhatNobodyBringsAnyMoreGoesWhenItsRoomIsWanted) {
  Open({.limit = 6 * 4096});
  const Object first = FileObject(std::string(4096 * 2, '1')),
               second = FileObject(std::string(4096 * 2, '2')),
               third = FileObject(std::string(4096 * 2, '3'));
  auto one = Checked(store_->Begin(first)), two = Checked(store_->Begin(second)),
       three = Checked(store_->Begin(third));
  Ok(two->Write(0, "2"));
  EXPECT_EQ(store_->Begin(FileObject("x")).status().code(), Code::kExhausted) << "all three still come";
  bool told = false;
  const auto reader = Checked(store_->Read(second.id));
  reader->WhenBeyond(1, [&](bool failed) { told = failed; });
  two.reset();
  one.reset();
  Take("x");  // in the place of the one that was left first
  EXPECT_TRUE(told);
  EXPECT_EQ(store_->room().used, 5 * 4096u);
  EXPECT_EQ(Files("arriving"), 2u);
  EXPECT_EQ(store_->CopyIn(Write("f", std::string(4096 * 4, 'f'))).status().code(), Code::kExhausted);
  EXPECT_EQ(store_->room().used, 3 * 4096u) << "one, which has gone as well";
  Ok(three->Write(0, std::string(4096 * 2, '3')));
  Ok(three->Finish());
  EXPECT_TRUE(Checked(store_->Begin(second))->Missing().front().offset == 0) << "from the beginning";
}

TEST_F(RoomTest, OthersMayTakePartOfALimit) {
  Open({.limit = 4 * 4096});
  store_->SetOthers(2 * 4096);
  EXPECT_EQ(store_->room().limit, 2 * 4096u);
  Take("a");
  Take("b");
  const Status status = store_->CopyIn(Write("f", "c")).status();
  EXPECT_EQ(status.code(), Code::kExhausted);
  EXPECT_NE(status.message().find("it holds 8.0 KiB, and others 8.0 KiB, of the 16.0 KiB that they may"),
            std::string::npos)
      << status.message();
  store_->SetOthers(100 * 4096);
  EXPECT_EQ(store_->room().limit, 0u);
  EXPECT_EQ(store_->CopyIn(Write("f", "c")).status().code(), Code::kExhausted);
  store_->SetOthers(0);
  Take("c");
}

TEST_F(RoomTest, WhatIsSpareGoesWhenItsRoomIsWantedTheFirstFirst) {
  Open({.limit = 4 * 4096});
  const Object a = Take("a"), b = Take("b"), c = Take("c");
  store_->Spare(b.id);
  store_->Spare(a.id);
  store_->Spare(c.id);
  EXPECT_EQ(store_->room().used, 0u) << "all may go";
  EXPECT_TRUE(store_->Has(a.id) && store_->Has(b.id) && store_->Has(c.id));
  Take("d");
  EXPECT_TRUE(store_->Has(b.id)) << "there was room";
  Take("e");
  EXPECT_FALSE(store_->Has(b.id));
  EXPECT_TRUE(store_->Has(a.id) && store_->Has(c.id));
  EXPECT_EQ(store_->Begin(a).status().code(), Code::kExists) << "and so it is kept";
  Take("f");
  EXPECT_TRUE(store_->Has(a.id));
  EXPECT_FALSE(store_->Has(c.id));
  EXPECT_EQ(store_->CopyIn(Write("g", "g")).status().code(), Code::kExhausted);
  EXPECT_TRUE(store_->Has(a.id));
  EXPECT_EQ(store_->room().used, 4 * 4096u);
}

TEST_F(RoomTest, WhatIsSpareStaysWhereAllOfItWouldNotDo) {
  Open({.limit = 4 * 4096});
  const Object a = Take("a"), b = Take("b");
  Take("c");
  store_->Spare(a.id);
  store_->Spare(b.id);
  EXPECT_EQ(store_->CopyIn(Write("large", std::string(4 * 4096, 'l'))).status().code(), Code::kExhausted);
  EXPECT_TRUE(store_->Has(a.id) && store_->Has(b.id));
  CopyIn(Write("fits", std::string(3 * 4096, 'l')));
  EXPECT_FALSE(store_->Has(a.id) || store_->Has(b.id));
}

TEST_F(RoomTest, WhatIsSpareGoesForOthers) {
  Open({.limit = 4 * 4096});
  const Object a = Take("a"), b = Take("b");
  Take("c");
  store_->Spare(a.id);
  store_->Spare(b.id);
  store_->SetOthers(2 * 4096);
  EXPECT_FALSE(store_->Has(a.id));
  EXPECT_TRUE(store_->Has(b.id));
  store_->SetOthers(4 * 4096);
  EXPECT_FALSE(store_->Has(b.id));
  EXPECT_EQ(store_->room().used, 4096u);
}

TEST_F(RoomTest, WhatIsTakenInAgainIsNotSpare) {
  Open({.limit = 2 * 4096});
  const Object a = Take("a");
  store_->Spare(a.id);
  EXPECT_EQ(CopyIn(Write("again", "a")), a);
  EXPECT_EQ(store_->room().used, 4096u);
  Take("b");
  EXPECT_EQ(store_->CopyIn(Write("c", "c")).status().code(), Code::kExhausted);
  store_->Spare(a.id);
  store_->Drop(a.id);
  EXPECT_EQ(store_->room().used, 4096u);
  store_->Spare(a.id);  // it is not here
  EXPECT_EQ(store_->room().used, 4096u);
}

TEST_F(RoomTest, DirectoriesShareWhatTheyHold) {
  Write("d/shared", "shared");
  Write("d/own", "d's");
  Write("e/shared", "shared");
  Write("e/twice", "shared");
  const Object d = CopyIn(At("d")), e = CopyIn(At("e")), shared = FileObject("shared");
  EXPECT_EQ(e.bytes, 12);
  EXPECT_EQ(store_->room().objects, 4u);
  store_->Drop(d.id);
  EXPECT_FALSE(store_->Has(d.id));
  EXPECT_FALSE(store_->Has(FileObject("d's").id));
  EXPECT_TRUE(store_->Has(shared.id));
  EXPECT_TRUE(store_->Has(e.id));
  EXPECT_EQ(Take("shared"), shared);
  EXPECT_EQ(Files("parts"), 0u);
  store_->Drop(e.id);
  EXPECT_TRUE(store_->Has(shared.id));
  CopyIn(At("e"));
  store_->Drop(shared.id);
  EXPECT_TRUE(store_->Has(shared.id));
  EXPECT_EQ(store_->All(), std::vector<Object>{e});
  EXPECT_EQ(Files("parts"), 1u);
  EXPECT_EQ(ReadText(shared.id), "shared");
  store_->Drop(shared.id);
  EXPECT_TRUE(store_->Has(e.id));
  store_->Drop(e.id);
  store_->Drop(e.id);
  store_->Drop(FileObject("never").id);
  EXPECT_EQ(store_->room().used, 0u);
  EXPECT_EQ(Files("objects") + Files("parts"), 0u);
}

TEST_F(RoomTest, WhatIsPlacedStaysWhenItIsDropped) {
  const Object file = Take("text");
  const std::string sandbox = Sandbox();
  Ok(store_->Place(file.id, "", sandbox + "/f"));
  store_->Drop(file.id);
  EXPECT_EQ(TextOf(sandbox + "/f"), "text");
  EXPECT_FALSE(store_->Unchanged(file.id));
}

/// Runs `what` in a thread that has a small disk of its own at `path`; false: this machine does not allow it.
bool WithSmallDisk(const std::string& path, const std::string& options, const std::function<void()>& what) {
  bool could = false;
  std::thread thread([&] {
    fs::create_directories(path);
    could = unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
            mount("harrow-test", path.c_str(), "tmpfs", 0, options.c_str()) == 0;
    if (could) what();
  });
  thread.join();
  return could;
}

class FullDiskTest : public StoreTest {
 protected:
  /// Nothing of what failed is left, and there is as much room as before.
  void ExpectClean(uint64_t used) const {
    EXPECT_EQ(store_->room().used, used);
    EXPECT_EQ(Files("arriving"), 0u);
    EXPECT_EQ(Files("parts"), 0u);
  }
};

TEST_F(FullDiskTest, OfBlocks) {
  store_.reset();
  fs::remove_all(Root());
  const bool could = WithSmallDisk(Root(), "size=1m,mode=0700", [&] {
    Open({.spare = 0});
    const std::string text(300 << 10, 't');
    const Object kept = Take(text);
    const uint64_t used = store_->room().used;
    EXPECT_LE(store_->room().limit, 1u << 20);
    Status status = store_->CopyIn(Write("large", std::string(900 << 10, 'l'))).status();
    EXPECT_EQ(status.code(), Code::kExhausted);
    EXPECT_NE(status.message().find("KiB are free"), std::string::npos) << status.message();
    EXPECT_EQ(store_->Begin(FileObject(std::string(900 << 10, 'x'))).status().code(), Code::kExhausted);
    ExpectClean(used);

    // Filled by others, behind its back.
    const std::string sandbox = Sandbox();
    std::string filler(900 << 10, 'f');
    const int fd = open((sandbox + "/filler").c_str(), O_WRONLY | O_CREAT, 0600);
    EXPECT_GT(write(fd, filler.data(), filler.size()), 0);
    close(fd);
    EXPECT_EQ(store_->CopyIn(Write("small", "small")).status().code(), Code::kExhausted);
    EXPECT_EQ(store_->Begin(FileObject("small")).status().code(), Code::kExhausted);
    ExpectClean(used);
    // What fills it can be moved in: it needs no more room.
    const Object moved = Checked(store_->MoveIn(sandbox + "/filler"));
    EXPECT_TRUE(store_->Has(moved.id));
    store_->Drop(moved.id);
    ExpectClean(used);

    // While it arrives.
    Write("d/a", std::string(200 << 10, 'a'));
    Write("d/b", std::string(900 << 10, 'b'));
    EXPECT_EQ(store_->CopyIn(At("d")).status().code(), Code::kExhausted);
    ExpectClean(used);
    EXPECT_EQ(ReadText(kept.id), text);

    // The disk that it is copied to is full.
    const std::string target = sandbox + "/target";
    fs::create_directories(target);
    WriteAt(target + "/out", "old");
    const Object large = Take(std::string(400 << 10, 'm'));
    status = store_->CopyOut(large.id, target + "/out", 022);
    EXPECT_EQ(status.code(), Code::kExhausted) << status.message();
    EXPECT_EQ(TextOf(target + "/out"), "old");
    EXPECT_EQ(std::distance(fs::directory_iterator(target), {}), 1);
    store_.reset();
  });
  if (!could) GTEST_SKIP() << "a disk of its own (needs mounting)";
}

TEST_F(FullDiskTest, OfInodes) {
  store_.reset();
  fs::remove_all(Root());
  const bool could = WithSmallDisk(Root(), "size=8m,nr_inodes=30,mode=0700", [&] {
    Open({.spare = 0});
    Status status;
    std::vector<Object> kept;
    const std::string sandbox = Sandbox();
    const std::string made = WriteAt(sandbox + "/made", "made");
    for (int i = 0; i < 30 && status.ok(); ++i) {
      const Result<Object> taken = store_->CopyIn(Write("f", StrCat("content ", i)));
      status = taken.status();
      if (taken.ok()) kept.push_back(*taken);
    }
    EXPECT_EQ(status.code(), Code::kExhausted);
    EXPECT_NE(status.message().find("inodes"), std::string::npos) << status.message();
    EXPECT_EQ(store_->All().size(), kept.size());
    ExpectClean(kept.size() * 4096);
    const Status moved = store_->MoveIn(made).status();
    if (!moved.ok()) {  // it may need a directory
      EXPECT_EQ(moved.code(), Code::kExhausted);
      EXPECT_EQ(TextOf(made), "made");
    }
    EXPECT_EQ(store_->Begin(FileObject("more")).status().code(), Code::kExhausted);
    EXPECT_EQ(store_->MakeSandbox("t").status().code(), Code::kExhausted);
    for (const Object& object : kept) EXPECT_TRUE(store_->Unchanged(object.id));
    for (const Object& object : kept) store_->Drop(object.id);
    Take("again");
    store_.reset();
  });
  if (!could) GTEST_SKIP() << "a disk of its own (needs mounting)";
}

TEST_F(FullDiskTest, WhatIsMountedInASandboxIsNotEntered) {
  Write("precious/file", "stays");
  bool could = false;
  std::thread thread([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;
    Open();  // what was open before sees no mounts of here
    const std::string sandbox = Sandbox();
    fs::create_directories(sandbox + "/d/mounted");
    if (mount(At("precious").c_str(), (sandbox + "/d/mounted").c_str(), nullptr, MS_BIND, nullptr) != 0) {
      return;
    }
    could = true;
    EXPECT_EQ(TextOf(sandbox + "/d/mounted/file"), "stays");
    store_->RemoveSandbox(sandbox);
    EXPECT_EQ(TextOf(At("precious/file")), "stays");
    EXPECT_FALSE(store_->MoveIn(sandbox + "/d").ok());
    const Fd fd = OpenAt(AT_FDCWD, sandbox.c_str(), O_RDONLY | O_DIRECTORY);
    const Status stays = RemoveContents(fd.get(), "sandbox");
    EXPECT_NE(stays.message().find("cannot remove sandbox/d/mounted"), std::string::npos) << stays.message();
    EXPECT_EQ(TextOf(At("precious/file")), "stays");
    store_.reset();
  });
  thread.join();
  if (!could) GTEST_SKIP() << "a mount of its own (needs mounting)";
  EXPECT_EQ(TextOf(At("precious/file")), "stays");
}

}  // namespace
}  // namespace harrow::store
