#include "store/listing.h"

#include <gtest/gtest.h>

namespace harrow::store {
namespace {

Entry File(std::string path, int64_t bytes = 1, uint64_t number = 1) {
  Entry e;
  e.path = std::move(path);
  e.id = {number, number, Kind::kFile};
  e.bytes = bytes;
  return e;
}
Entry Directory(std::string path) {
  Entry e;
  e.path = std::move(path);
  e.type = Entry::Type::kDirectory;
  return e;
}
Entry Link(std::string path, std::string target) {
  Entry e;
  e.path = std::move(path);
  e.type = Entry::Type::kLink;
  e.target = std::move(target);
  return e;
}

bool Reads(const std::vector<Entry>& entries) {
  return ReadListing(WriteListing(entries)).ok();
}

TEST(ListingTest, IsReadBack) {
  Entry program = File("bin/tool", 1ll << 40);
  program.id.kind = Kind::kProgram;
  const std::vector<Entry> entries{
      Directory("a"),         File("a-b", 7),   File("a/b", 0, 9), Link("a/l", "/etc"),
      File("a/n\nl \xff", 3), Directory("bin"), program,           File(std::string(255, 'z'))};
  const auto read = ReadListing(WriteListing(entries));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, entries);
  EXPECT_EQ(BytesOf(entries), 7 + 3 + (1ll << 40) + 1);
  EXPECT_TRUE(Reads({}));
}

TEST(ListingTest, BytesStay) {
  EXPECT_EQ(WriteListing({Directory("d"), File("d/f", 258), Link("l", "t")}),
            std::string("HRLIST 1"
                        "\2\1\0\0\0d"
                        "\1\3\0\0\0d/f\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\1\2\1\0\0\0\0\0\0"
                        "\3\1\0\0\0l\1\0\0\0t",
                        8 + 6 + 33 + 11));
}

TEST(ListingTest, FilesAreNamedOnce) {
  EXPECT_EQ(FilesOf({File("a", 5, 2), File("b", 4, 1), File("c", 5, 2)}),
            (std::vector<Object>{{{1, 1, Kind::kFile}, 4}, {{2, 2, Kind::kFile}, 5}}));
}

TEST(ListingTest, PathsThatLeadElsewhereAreRefused) {
  for (const char* path :
       {"", "/", "/a", "a/", "..", ".", "../a", "d/..", "d/../a", "d/.", "d//a", "./a", "d/./a"}) {
    EXPECT_FALSE(Reads({Directory("d"), File(path)})) << path;
  }
  EXPECT_FALSE(Reads({File(std::string("a\0b", 3))}));
  EXPECT_FALSE(Reads({File(std::string(256, 'a'))}));
  EXPECT_TRUE(Reads({File(std::string(255, 'a'))}));
  EXPECT_TRUE(Reads({File("...")}));
}

TEST(ListingTest, OrderAndParentsAreHeld) {
  EXPECT_FALSE(Reads({File("b"), File("a")}));
  EXPECT_FALSE(Reads({File("a"), File("a")}));
  EXPECT_FALSE(Reads({File("a/b")}));
  EXPECT_FALSE(Reads({File("a"), File("a/b")}));
  EXPECT_FALSE(Reads({Link("a", "/"), File("a/b")}));
  EXPECT_FALSE(Reads({Directory("a"), File("a/b/c")}));
  EXPECT_TRUE(Reads({Directory("a"), Directory("a/b"), File("a/b/c")}));
}

TEST(ListingTest, LongPathsHaveAnEnd) {
  std::vector<Entry> entries;
  const std::string name(127, 'd');
  std::string path = name;
  for (; path.size() <= kLongestPath; path += "/" + name) entries.push_back(Directory(path));
  EXPECT_TRUE(Reads(entries));
  entries.push_back(Directory(path));
  EXPECT_FALSE(Reads(entries));
  EXPECT_FALSE(IsPath(path));
}

TEST(ListingTest, OddEntriesAreRefused) {
  Entry bad = File("a", -1);
  EXPECT_FALSE(Reads({bad}));
  bad = File("a");
  bad.id.kind = Kind::kDirectory;
  EXPECT_FALSE(Reads({bad}));
  EXPECT_FALSE(Reads({Link("a", "")}));
  EXPECT_FALSE(Reads({Link("a", std::string("a\0", 2))}));
  EXPECT_FALSE(Reads({Link("a", std::string(kLongestTarget + 1, 'x'))}));
  EXPECT_TRUE(Reads({Link("a", std::string(kLongestTarget, 'x'))}));
  EXPECT_FALSE(Reads({File("a", INT64_MAX), File("b", 1)}));
  EXPECT_TRUE(Reads({File("a", INT64_MAX), File("b", 0)}));
}

TEST(ListingTest, EveryCutAndFlippedByteIsAnErrorOrAnotherListing) {
  const std::string good = WriteListing({Directory("d"), File("d/f", 258), Link("l", "t")});
  for (size_t size = 0; size < good.size(); ++size) {
    const bool whole_entries = size == 8 || size == 14 || size == 47;
    EXPECT_EQ(ReadListing(std::string_view(good).substr(0, size)).ok(), whole_entries) << size;
  }
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ 1 << bit);
      const auto read = ReadListing(bytes);
      if (read.ok()) {
        EXPECT_EQ(WriteListing(*read), bytes);
      } else {
        EXPECT_EQ(read.status().code(), Code::kDamaged);
      }
    }
  }
  EXPECT_FALSE(ReadListing(good + '\0').ok());
  EXPECT_FALSE(ReadListing("HRLIST 2").ok());
}

}  // namespace
}  // namespace harrow::store
