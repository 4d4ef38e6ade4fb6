#include "output/packed_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <set>

#include "output/record.h"
#include "support/memory_file_system.h"

namespace harrow::output {
namespace {

using test::MemoryFileSystem;
using testing::HasSubstr;

constexpr char kOut[] = "run/output/7.out";
constexpr char kIdx[] = "run/output/7.idx";

class PackedOutputTest : public testing::Test {
 protected:
  std::unique_ptr<Writer> MakeWriter() {
    Result<std::unique_ptr<Writer>> writer = Writer::Create(fs_, "run", 7);
    EXPECT_TRUE(writer.ok()) << writer.status().message();
    return std::move(writer).value();
  }
  uint64_t Append(Writer& writer, uint32_t task, std::string_view text, Stream stream = Stream::kStdout,
                  std::optional<uint32_t> rank = {}) {
    Result<uint64_t> offset = writer.Append(TaskId(task), 1, stream, text, rank);
    EXPECT_TRUE(offset.ok());
    return *offset;
  }
  std::unique_ptr<Reader> MakeReader() { return std::move(Reader::Open(fs_, "run")).value(); }
  /// stdout and stderr of an attempt, the latter in brackets.
  std::string Read(Reader& reader, uint32_t task, uint64_t offset = 0, Status* status = nullptr) {
    std::string text;
    Status result = reader.ReadAttempt(7, offset, TaskId(task), 1, [&](const Piece& piece) {
      text += piece.stream == Stream::kStderr ? "[" + piece.data + "]" : piece.data;
    });
    if (status != nullptr) {
      *status = result;
    } else {
      EXPECT_TRUE(result.ok()) << result.message();
    }
    return text;
  }

  MemoryFileSystem fs_;
};

TEST_F(PackedOutputTest, PiecesOfAnAttemptComeBackInOrder) {
  auto writer = MakeWriter();
  const uint64_t first = Append(*writer, 1, "one ");
  Append(*writer, 2, "other");
  Append(*writer, 1, "two", Stream::kStderr);
  ASSERT_TRUE(writer->Flush().ok());
  auto reader = MakeReader();
  EXPECT_EQ(Read(*reader, 1, first), "one [two]");
  EXPECT_EQ(Read(*reader, 2), "other");
  EXPECT_EQ(Read(*reader, 3), "");
}

TEST_F(PackedOutputTest, OffsetZeroIsNeverARecord) {
  auto writer = MakeWriter();
  EXPECT_EQ(Append(*writer, 1, "x"), kFileHeader);
}

TEST_F(PackedOutputTest, NothingIsThereBeforeFlush) {
  auto writer = MakeWriter();
  Append(*writer, 1, "late");
  EXPECT_GT(writer->buffered_bytes(), 0u);
  EXPECT_EQ(Read(*MakeReader(), 1), "");
  ASSERT_TRUE(writer->Flush().ok());
  EXPECT_EQ(writer->buffered_bytes(), 0u);
  EXPECT_EQ(Read(*MakeReader(), 1), "late");
}

TEST_F(PackedOutputTest, LargeOutputIsCutIntoRecords) {
  auto writer = MakeWriter();
  std::string large(3 * kMaxPayload + 17, 'a');
  large[kMaxPayload] = 'b';
  Append(*writer, 1, large);
  ASSERT_TRUE(writer->Flush().ok());
  EXPECT_EQ(Read(*MakeReader(), 1), large);
}

TEST_F(PackedOutputTest, ReaderFollowsAGrowingFile) {
  auto writer = MakeWriter();
  auto reader = MakeReader();
  std::string seen;
  const auto take = [&](FileNumber, const Piece& piece) { seen += piece.data; };
  ASSERT_TRUE(reader->ReadNew(take).ok());
  Append(*writer, 1, "a");
  ASSERT_TRUE(writer->Flush().ok());
  ASSERT_TRUE(reader->ReadNew(take).ok());
  Append(*writer, 2, "b");
  ASSERT_TRUE(writer->Flush().ok());
  ASSERT_TRUE(reader->ReadNew(take).ok());
  ASSERT_TRUE(reader->ReadNew(take).ok());
  EXPECT_EQ(seen, "ab");
}

TEST_F(PackedOutputTest, NoOutputDirectoryIsNoOutput) {
  EXPECT_TRUE(MakeReader()->ReadNew([](FileNumber, const Piece&) { FAIL(); }).ok());
}

TEST_F(PackedOutputTest, TailIsTheEndOfOneStream) {
  auto writer = MakeWriter();
  Append(*writer, 1, "12345");
  Append(*writer, 1, "err", Stream::kStderr);
  Append(*writer, 1, "67");
  ASSERT_TRUE(writer->Flush().ok());
  auto reader = MakeReader();
  EXPECT_EQ(*reader->Tail(7, 0, TaskId(1), 1, Stream::kStdout, 4), "4567");
  EXPECT_EQ(*reader->Tail(7, 0, TaskId(1), 1, Stream::kStdout, 100), "1234567");
  EXPECT_EQ(*reader->Tail(7, 0, TaskId(1), 1, Stream::kStderr, 2), "rr");
}

TEST_F(PackedOutputTest, APieceTellsWhoseRankItIs) {
  auto writer = MakeWriter();
  Append(*writer, 1, "of none");
  Append(*writer, 1, "of the first\n", Stream::kStdout, 0);
  Append(*writer, 1, "of the last\n", Stream::kStdout, 4095);
  Append(*writer, 1, "of the first, too\n", Stream::kStdout, 0);
  Append(*writer, 1, "why", Stream::kStderr, 0);
  ASSERT_TRUE(writer->Flush().ok());
  std::vector<std::optional<uint32_t>> ranks;
  auto reader = MakeReader();
  const auto take = [&](const Piece& piece) { ranks.push_back(piece.rank); };
  ASSERT_TRUE(reader->ReadAttempt(7, 0, TaskId(1), 1, take).ok());
  EXPECT_EQ(ranks, (std::vector<std::optional<uint32_t>>{std::nullopt, 0, 4095, 0, 0}));
  EXPECT_EQ(*reader->Tail(7, 0, TaskId(1), 1, Stream::kStdout, 1000, 0), "of the first\nof the first, too\n");
  EXPECT_EQ(*reader->Tail(7, 0, TaskId(1), 1, Stream::kStdout, 1000, 4095), "of the last\n");
  EXPECT_EQ(*reader->Tail(7, 0, TaskId(1), 1, Stream::kStdout, 1000, 3), "");
}

TEST_F(PackedOutputTest, ATornTailIsLeftAlone) {
  auto writer = MakeWriter();
  Append(*writer, 1, "whole");
  const uint64_t second = Append(*writer, 2, "torn off");
  ASSERT_TRUE(writer->Flush().ok());
  writer.reset();
  for (size_t cut = second; cut < fs_.Content(kOut).size(); ++cut) {
    MemoryFileSystem copy;
    ASSERT_TRUE(copy.WriteWhole(kOut, fs_.Content(kOut).substr(0, cut)).ok());
    ASSERT_TRUE(copy.WriteWhole(kIdx, fs_.Content(kIdx)).ok());
    auto reader = std::move(Reader::Open(copy, "run")).value();
    EXPECT_EQ(Read(*reader, 1), "whole") << "cut at " << cut;
    EXPECT_EQ(Read(*reader, 2), "") << "cut at " << cut;
  }
}

TEST_F(PackedOutputTest, DamageIsSkippedAndTold) {
  auto writer = MakeWriter();
  const uint64_t first = Append(*writer, 1, "first");
  Append(*writer, 2, "second");
  ASSERT_TRUE(writer->Flush().ok());
  writer.reset();
  const std::string whole = fs_.Content(kOut);
  for (size_t byte = first; byte < first + kRecordHeader + 5; ++byte) {
    for (bool with_index : {false, true}) {
      MemoryFileSystem copy;
      ASSERT_TRUE(copy.WriteWhole(kOut, whole).ok());
      if (with_index) {
        ASSERT_TRUE(copy.WriteWhole(kIdx, fs_.Content(kIdx)).ok());
      }
      copy.FlipBit(kOut, byte * 8 + byte % 8);
      auto reader = std::move(Reader::Open(copy, "run")).value();
      Status status;
      EXPECT_EQ(Read(*reader, 2, 0, with_index ? nullptr : &status), "second") << "byte " << byte;
      if (with_index) {
        EXPECT_EQ(Read(*reader, 1, 0, &status), "") << "byte " << byte;
      }
      EXPECT_EQ(status.code(), Code::kDamaged) << "byte " << byte;
      EXPECT_THAT(status.message(), HasSubstr("output/7.out"));
    }
  }
}

TEST_F(PackedOutputTest, TheIndexCanBeMissingOldOrWrong) {
  auto writer = MakeWriter();
  for (uint32_t task = 0; task < 500; ++task) Append(*writer, task, std::to_string(task));
  ASSERT_TRUE(writer->Flush().ok());
  writer.reset();
  const std::string index = fs_.Content(kIdx);
  ASSERT_EQ(index.size(), kFileHeader + 500 * kIndexEntry);
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    std::string changed = index;
    if (round % 3 == 0) changed.resize(random() % index.size());
    if (round % 3 == 1) changed[random() % index.size()] ^= static_cast<char>(1 << (random() % 8));
    ASSERT_TRUE(fs_.WriteWhole(kIdx, changed).ok());
    auto reader = MakeReader();
    for (uint32_t task = 0; task < 500; ++task) EXPECT_EQ(Read(*reader, task), std::to_string(task));
  }
  ASSERT_TRUE(fs_.Remove(kIdx).ok());
  EXPECT_EQ(Read(*MakeReader(), 499), "499");
}

TEST_F(PackedOutputTest, AFullDiskLosesNothingWhenRoomComesBack) {
  auto writer = MakeWriter();
  fs_.SetFree(0);
  const uint64_t first = Append(*writer, 1, "one");
  EXPECT_FALSE(writer->Flush().ok());
  const uint64_t second = Append(*writer, 2, "two");
  EXPECT_FALSE(writer->Flush().ok());
  fs_.SetFree(1 << 20);
  EXPECT_TRUE(writer->Flush().ok());
  auto reader = MakeReader();
  EXPECT_EQ(Read(*reader, 1, first), "one");
  EXPECT_EQ(Read(*reader, 2, second), "two");
}

TEST_F(PackedOutputTest, ANumberIsUsedOnce) {
  auto writer = MakeWriter();
  EXPECT_EQ(Writer::Create(fs_, "run", 7).status().code(), Code::kExists);
}

TEST_F(PackedOutputTest, AForeignFileIsRefused) {
  ASSERT_TRUE(fs_.MakeDirectories("run/output").ok());
  ASSERT_TRUE(fs_.WriteWhole(kOut, "something else, but long enough").ok());
  Status status;
  Read(*MakeReader(), 1, 0, &status);
  EXPECT_EQ(status.code(), Code::kDamaged);
}

TEST_F(PackedOutputTest, VersionOneIsReadAndALaterOneIsNot) {
  Append(*MakeWriter(), 1, "text");  // closed, with its index
  const std::string out = *fs_.ReadRange(kOut, 0, UINT64_MAX), index = *fs_.ReadRange(kIdx, 0, UINT64_MAX);
  for (const char version : {'\1', '\2', '\3', '\0'}) {
    for (const auto& [path, bytes] : {std::pair(kOut, out), std::pair(kIdx, index)}) {
      std::string other = bytes;
      other[8] = version;
      ASSERT_TRUE(fs_.WriteWhole(path, other).ok());
    }
    Status status;
    EXPECT_EQ(Read(*MakeReader(), 1, 0, &status), version == '\1' || version == '\2' ? "text" : "");
    EXPECT_EQ(status.ok(), version == '\1' || version == '\2') << status.message();
  }
}

/// Counts tries, and shows to all what there was before the first of them.
class CrowdedFileSystem : public MemoryFileSystem {
 public:
  Status CreateWhole(const std::string& path, std::string_view data, uint32_t mode = 0644) override {
    ++tries;
    return MemoryFileSystem::CreateWhole(path, data, mode);
  }
  Result<std::vector<std::string>> List(const std::string&) override { return before; }

  std::vector<std::string> before;
  uint64_t tries = 0;
};

TEST(ClaimingOutput, ManyAgentsAtOnceTakeTwoTriesEach) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (const uint64_t agents : {1, 16, 256, 1024}) {
    CrowdedFileSystem fs;
    std::set<uint32_t> numbers;
    for (uint64_t i = 0; i < agents; ++i) {
      uint32_t number = 0;
      auto writer = Writer::CreateNew(fs, "run", [&] { return static_cast<uint32_t>(random()); }, &number);
      ASSERT_TRUE(writer.ok()) << writer.status().message();
      EXPECT_TRUE(numbers.insert(number).second);
    }
    // Two drawn numbers are the same now and then: of 1 024, one time in 4 000.
    EXPECT_LE(fs.tries, 2 * agents + 2);
  }
}

TEST(ClaimingOutput, OneAgentAfterTheOtherCounts) {
  MemoryFileSystem fs;
  for (uint32_t expected : {1, 2, 3}) {
    uint32_t number = 0;
    ASSERT_TRUE(Writer::CreateNew(fs, "run", [] { return 5u; }, &number).ok());
    EXPECT_EQ(number, expected);
  }
}

TEST(ClaimingOutput, WhatCannotBeMadeIsNotTriedForEver) {
  MemoryFileSystem fs;
  fs.SetReadOnly(true);
  uint32_t number = 0;
  EXPECT_EQ(Writer::CreateNew(fs, "run", [] { return 5u; }, &number).status().code(), Code::kPermission);
}

}  // namespace
}  // namespace harrow::output
