#include "unit/store/store_fixture.h"

namespace harrow::store {
namespace {

using ArrivalTest = StoreTest;
using Stretches = std::vector<std::pair<int64_t, int64_t>>;

Stretches MissingOf(const Arrival& arrival, size_t limit = SIZE_MAX) {
  Stretches out;
  for (const Arrival::Stretch& s : arrival.Missing(limit)) out.emplace_back(s.offset, s.length);
  return out;
}

TEST_F(ArrivalTest, PiecesInWhateverOrderMakeTheWhole) {
  const std::string text = "0123456789abcdefghij";
  const Object object = FileObject(text, Kind::kProgram);
  auto arrival = Checked(store_->Begin(object));
  EXPECT_EQ(arrival->object(), object);
  EXPECT_EQ(MissingOf(*arrival), (Stretches{{0, 20}}));
  const auto write = [&](size_t from, size_t to) {
    Ok(arrival->Write(static_cast<int64_t>(from), text.substr(from, to - from)));
  };
  write(5, 8);
  write(12, 15);
  EXPECT_EQ(MissingOf(*arrival), (Stretches{{0, 5}, {8, 4}, {15, 5}}));
  EXPECT_EQ(MissingOf(*arrival, 2), (Stretches{{0, 5}, {8, 4}}));
  EXPECT_TRUE(MissingOf(*arrival, 0).empty());
  write(6, 13);  // overlapping both
  EXPECT_EQ(MissingOf(*arrival), (Stretches{{0, 5}, {15, 5}}));
  Ok(arrival->Write(5, "XXXXX"));  // what is here stays
  EXPECT_EQ(arrival->Finish().code(), Code::kInvalid);
  EXPECT_FALSE(store_->Has(object.id));
  EXPECT_EQ(arrival->Write(18, "xyz").code(), Code::kInvalid);
  EXPECT_EQ(arrival->Write(-1, "x").code(), Code::kInvalid);
  EXPECT_EQ(arrival->Write(INT64_MAX, "x").code(), Code::kInvalid);
  write(0, 20);
  EXPECT_TRUE(MissingOf(*arrival).empty());
  Ok(arrival->Write(20, ""));
  Ok(arrival->Finish());
  arrival.reset();
  EXPECT_TRUE(store_->Has(object.id));
  EXPECT_EQ(ReadText(object.id), text);
  EXPECT_EQ(ModeOf(ObjectFile(object.id)), 0555u);
  EXPECT_EQ(store_->Begin(object).status().code(), Code::kExists);
  EXPECT_EQ(store_->All(), std::vector<Object>{object});
  EXPECT_EQ(store_->room().used, 4096u);
  Ok(Deliver(FileObject(""), ""));
  EXPECT_TRUE(store_->Has(FileObject("").id));
}

TEST_F(ArrivalTest, GoesOnAfterItsSenderDied) {
  const std::string text(300'000, 'x');
  const Object object = FileObject(text);
  auto arrival = Checked(store_->Begin(object));
  EXPECT_EQ(store_->Begin(object).status().code(), Code::kNotFound);
  Ok(arrival->Write(100'000, std::string(100'000, 'x')));
  arrival.reset();
  EXPECT_FALSE(store_->Has(object.id));
  EXPECT_GE(store_->room().used, 300'000u);
  arrival = Checked(store_->Begin(object));
  EXPECT_EQ(MissingOf(*arrival), (Stretches{{0, 100'000}, {200'000, 100'000}}));
  Ok(arrival->Write(200'000, std::string(100'000, 'x')));
  Ok(arrival->Write(0, std::string(100'000, 'x')));
  Ok(arrival->Finish());
  EXPECT_EQ(ReadText(object.id), text);
  EXPECT_EQ(Files("arriving"), 0u);
}

TEST_F(ArrivalTest, OnlyTheLastThatWereLeftAreKept) {
  for (int i = 0; i < 100; ++i) Ok(Checked(store_->Begin(FileObject(StrCat("content ", i))))->Write(0, "c"));
  const size_t kept = Files("arriving");
  EXPECT_GE(kept, 10u);
  EXPECT_LE(kept, 40u) << "each has a descriptor";
  EXPECT_EQ(store_->room().used, kept * 4096);
  EXPECT_EQ(MissingOf(*Checked(store_->Begin(FileObject("content 99")))), (Stretches{{1, 9}}));
  EXPECT_EQ(MissingOf(*Checked(store_->Begin(FileObject("content 1")))), (Stretches{{0, 9}}));
}

TEST_F(ArrivalTest, WrongContentIsDropped) {
  const Object object = FileObject("right");
  Status status = Deliver(object, "wrong");
  EXPECT_EQ(status.code(), Code::kDamaged);
  EXPECT_FALSE(store_->Has(object.id));
  EXPECT_EQ(store_->room().used, 0u);
  EXPECT_EQ(Files("arriving") + Files("objects") + Files("parts"), 0u);
  {
    auto arrival = Checked(store_->Begin(object));
    EXPECT_EQ(MissingOf(*arrival), (Stretches{{0, 5}}));
    Ok(arrival->Write(3, "ht"));
    Ok(arrival->Write(0, "roght"));
    EXPECT_EQ(arrival->Finish().code(), Code::kDamaged);
    EXPECT_NE(arrival->Finish().code(), Code::kOk);
    EXPECT_NE(arrival->Write(0, "r").code(), Code::kOk);
  }
  Ok(Deliver(object, "right"));
  EXPECT_EQ(store_->Begin({FileObject("x").id, -1}).status().code(), Code::kInvalid);
  // A length that another peer told wrong does not stand in the way.
  const Object longer{FileObject("abc").id, 7};
  Checked(store_->Begin(longer)).reset();
  Ok(Deliver(FileObject("abc"), "abc"));
  EXPECT_EQ(store_->room().used, 2 * 4096u);
  EXPECT_EQ(Files("arriving"), 0u);
}

TEST_F(ArrivalTest, ReadersOfWhatArrivesAreTold) {
  const Object object = FileObject("0123456789");
  EXPECT_EQ(store_->Read(object.id).status().code(), Code::kNotFound);
  auto arrival = Checked(store_->Begin(object));
  auto reader = Checked(store_->Read(object.id));
  EXPECT_EQ(reader->bytes(), 10);
  EXPECT_EQ(reader->here(), 0);
  std::string told;
  const auto when = [&](int64_t beyond, const std::string& name) {
    reader->WhenBeyond(beyond, [&told, name](bool failed) { told += name + (failed ? "!" : "") + " "; });
  };
  when(0, "0");
  when(4, "4");
  when(5, "5");
  when(9, "9");
  Ok(arrival->Write(5, "5"));
  EXPECT_EQ(told, "");
  EXPECT_EQ(reader->here(), 0);
  Ok(arrival->Write(0, "01234"));
  EXPECT_EQ(told, "0 4 5 ");
  EXPECT_EQ(reader->here(), 6);
  when(3, "3");
  EXPECT_EQ(told, "0 4 5 3 ");
  when(10, "10");
  EXPECT_EQ(told, "0 4 5 3 10! ");
  char bytes[7] = {};
  EXPECT_EQ(pread(reader->fd(), bytes, 6, 0), 6);
  EXPECT_STREQ(bytes, "012345");
  {
    auto gone = Checked(store_->Read(object.id));
    gone->WhenBeyond(8, [](bool) { FAIL() << "of a reader that has gone"; });
  }
  arrival.reset();  // somebody else may go on with it
  EXPECT_EQ(told, "0 4 5 3 10! ");
  arrival = Checked(store_->Begin(object));
  Ok(arrival->Write(6, "6789"));
  EXPECT_EQ(told, "0 4 5 3 10! 9 ");
  Ok(arrival->Finish());
  EXPECT_EQ(reader->here(), 10);
  store_->Drop(object.id);
  char all[11] = {};
  EXPECT_EQ(pread(reader->fd(), all, 10, 0), 10);
  EXPECT_STREQ(all, "0123456789");
}

TEST_F(ArrivalTest, ReadersAreToldThatItWillNotCome) {
  const Object object = FileObject("0123456789");
  int failures = 0;
  const auto wait = [&](Reader* reader) { reader->WhenBeyond(8, [&](bool failed) { failures += failed; }); };
  {
    auto arrival = Checked(store_->Begin(object));
    auto reader = Checked(store_->Read(object.id));
    wait(reader.get());
    Ok(arrival->Write(1, "wrong"));
    Ok(arrival->Write(0, "wrong"));
    Ok(arrival->Write(6, "6789"));
    EXPECT_EQ(failures, 0);  // beyond 8 was there
    auto second = Checked(store_->Read(object.id));
    EXPECT_EQ(second->here(), 10);
    EXPECT_EQ(arrival->Finish().code(), Code::kDamaged);
    EXPECT_EQ(reader->here(), 0);
    wait(second.get());
    EXPECT_EQ(failures, 1);
  }
  auto arrival = Checked(store_->Begin(object));
  auto reader = Checked(store_->Read(object.id));
  wait(reader.get());
  store_->Drop(object.id);
  EXPECT_EQ(failures, 2);
  EXPECT_EQ(arrival->Write(0, "0").code(), Code::kNotFound);
  EXPECT_EQ(arrival->Finish().code(), Code::kNotFound);
  EXPECT_EQ(store_->room().used, 0u);
  auto again = Checked(store_->Begin(object));  // the dropped one is not in its way
  arrival.reset();
  Ok(again->Write(0, "0123456789"));
  Ok(again->Finish());
  EXPECT_TRUE(store_->Has(object.id));
  again.reset();
  const Object other = FileObject("other");
  auto last = Checked(store_->Begin(other));
  auto waiting = Checked(store_->Read(other.id));
  wait(waiting.get());
  last.reset();
  store_.reset();
  EXPECT_EQ(failures, 3);
}

TEST_F(ArrivalTest, ADirectoryArrivesListingFirst) {
  Write("d/a", "aa");
  Write("d/b/c", "ccc");
  Write("d/b/again", "aa");
  const Object directory = CopyIn(At("d"));
  const std::string listing = ReadText(directory.id);
  const std::string same = Sandbox("first");
  store_->Drop(directory.id);
  EXPECT_EQ(store_->room().objects, 0u);

  const Object as_sent{directory.id, static_cast<int64_t>(listing.size())};
  EXPECT_EQ(store_->MissingOf(directory.id).status().code(), Code::kNotFound);
  Ok(Deliver(as_sent, listing));
  EXPECT_FALSE(store_->Has(directory.id));
  EXPECT_TRUE(store_->All().empty());
  const std::vector<Object> missing = Checked(store_->MissingOf(directory.id));
  ASSERT_EQ(missing.size(), 2u);
  for (const Object& part : missing) Ok(Deliver(part, part.bytes == 2 ? "aa" : "ccc", true));
  EXPECT_TRUE(store_->Has(directory.id));
  EXPECT_TRUE(Checked(store_->MissingOf(directory.id)).empty());
  EXPECT_EQ(store_->All(), std::vector<Object>{directory});
  EXPECT_EQ(store_->MissingOf(FileObject("aa").id).status().code(), Code::kNotFound);
  Ok(store_->Place(directory.id, "", same + "/d"));
  EXPECT_EQ(Checked(store_->CopyIn(same + "/d")), directory);
  store_->Drop(directory.id);
  EXPECT_EQ(store_->room().objects, 0u);
  EXPECT_EQ(store_->room().used, 0u);

  // A part that no directory wants is not kept; one that is wanted by itself is.
  EXPECT_EQ(Deliver(FileObject("aa"), "aa", true).code(), Code::kNotFound);
  EXPECT_EQ(store_->room().used, 0u);
  Ok(Deliver(as_sent, listing));
  Ok(Deliver(FileObject("aa"), "aa", true));
  EXPECT_EQ(Deliver(FileObject("aa"), "aa").code(), Code::kExists);
  auto upgraded = Checked(store_->Begin(FileObject("ccc"), true));
  EXPECT_EQ(store_->Begin(FileObject("ccc")).status().code(), Code::kNotFound);
  Ok(upgraded->Write(0, "ccc"));
  Ok(upgraded->Finish());
  store_->Drop(directory.id);
  EXPECT_TRUE(store_->Has(FileObject("aa").id));
  EXPECT_TRUE(store_->Has(FileObject("ccc").id));
  EXPECT_EQ(Files("parts"), 0u);
  EXPECT_EQ(Files("objects"), 2u);
}

TEST_F(ArrivalTest, AListingThatLiesIsDamaged) {
  const std::string evil = "HRLIST 1\2\2\0\0\0..";
  const Object object = FileObject(evil, Kind::kDirectory);
  EXPECT_EQ(Deliver(object, evil).code(), Code::kDamaged);
  EXPECT_EQ(store_->room().used, 0u);
  EXPECT_EQ(store_->Begin({object.id, 1ll << 40}).status().code(), Code::kInvalid);
}

TEST_F(ArrivalTest, WhatCameAnotherWayMeanwhileIsNoError) {
  const Object object = FileObject("made here, too");
  auto arrival = Checked(store_->Begin(object));
  auto reader = Checked(store_->Read(object.id));
  Ok(arrival->Write(0, "made"));
  EXPECT_EQ(Take("made here, too"), object);
  EXPECT_TRUE(store_->Has(object.id));
  Ok(arrival->Write(4, " here, too"));
  Ok(arrival->Finish());
  arrival.reset();
  EXPECT_EQ(reader->here(), 14);
  EXPECT_EQ(store_->room().used, 4096u);
  EXPECT_EQ(Files("arriving"), 0u);
  arrival = Checked(store_->Begin(FileObject("left")));
  Take("left");
  arrival.reset();
  EXPECT_EQ(Files("arriving"), 0u);
  EXPECT_EQ(store_->room().used, 2 * 4096u);
  store_->Drop(FileObject("left").id);
  // One that nobody goes on with goes.
  const Object other = FileObject("other");
  Checked(store_->Begin(other)).reset();
  Take("other");
  EXPECT_EQ(Files("arriving"), 0u);
  EXPECT_EQ(store_->room().used, 2 * 4096u);
}

}  // namespace
}  // namespace harrow::store
