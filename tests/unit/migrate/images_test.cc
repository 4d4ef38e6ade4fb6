// Images of processes and the ways to send them, in memory.
#include <algorithm>
#include <deque>
#include <gtest/gtest.h>
#include <random>
#include <unistd.h>

#include "base/text.h"
#include "migrate/delta.h"
#include "migrate/group.h"
#include "migrate/image.h"
#include "migrate/journey.h"
#include "migrate/pages.h"
#include "migrate/ring.h"
#include "migrate/suffixes.h"
#include "store/hasher.h"

namespace harrow::migrate {
namespace {

uint64_t Seed() {
  const char* given = getenv("HARROW_SEED");
  const uint64_t seed = given != nullptr ? strtoull(given, nullptr, 10) : std::random_device()();
  testing::Test::RecordProperty("HARROW_SEED", StrCat(seed));
  printf("HARROW_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

std::string Random(std::mt19937_64* draw, size_t size, int letters = 256) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>((*draw)() % static_cast<uint64_t>(letters));
  return text;
}

store::ObjectId Digest(std::string_view bytes) {
  return store::IdOf(bytes, store::Kind::kFile);
}

// --- images

TEST(ImageTest, MapsAreReadAsTheKernelWritesThem) {
  const auto regions = ParseMaps(
      "55d0c0a00000-55d0c0a02000 r-xp 00002000 fe:01 1234                       /usr/bin/a program\n"
      "7ffc1000-7ffc3000 rw-p 00000000 00:00 0                          [stack]\n"
      "1000-2000 ---p 00000000 00:00 0 \n");
  ASSERT_TRUE(regions.ok()) << regions.status().message();
  EXPECT_EQ(*regions, (std::vector<Region>{{0x55d0c0a00000, 0x55d0c0a02000, "r-xp", "/usr/bin/a program"},
                                           {0x7ffc1000, 0x7ffc3000, "rw-p", "[stack]"},
                                           {0x1000, 0x2000, "---p", ""}}));
  EXPECT_TRUE(BelongsToImage((*regions)[0]));
  EXPECT_FALSE(BelongsToImage((*regions)[2]));
  EXPECT_FALSE(BelongsToImage({0, 4096, "r-xp", "[vdso]"}));
  EXPECT_FALSE(BelongsToImage({0, 4096, "r--p", "[vvar]"}));
  for (const char* text : {"x", "1-2", "1-2 rw", "2-1 rw-p 0 0 0 x", "1-2x rw-p"}) EXPECT_FALSE(ParseMaps(text).ok()) << text;
}

TEST(ImageTest, BytesAndBack) {
  Image image{.regions = {{0x1000, 0x3000, "rw-p", "[heap]"}, {0x5000, 0x6000, "r--p", ""}}, .bytes = std::string(3 * kPage, 'x')};
  const std::string bytes = ToBytes(image);
  EXPECT_EQ(bytes.size() % kPage, 0u);
  ASSERT_TRUE(ImageOf(bytes).ok());
  EXPECT_EQ(*ImageOf(bytes), image);
  for (size_t size = 0; size < bytes.size(); size += 7) EXPECT_FALSE(ImageOf(std::string_view(bytes).substr(0, size)).ok()) << size;
  EXPECT_FALSE(ImageOf(bytes + "x").ok());
}

TEST(ImageTest, OfThisProcess) {
  static volatile char mark[] = "a mark that is nowhere else in memory but here and where it is read to";
  const Result<Image> image = ReadImage(getpid());
#ifdef __SANITIZE_ADDRESS__  // which has reserved terabytes
  EXPECT_EQ(image.status().code(), Code::kInvalid);
  EXPECT_NE(mark[0], 0);
#else
  ASSERT_TRUE(image.ok()) << image.status().message();
  uint64_t size = 0;
  for (const Region& region : image->regions) size += region.size();
  EXPECT_EQ(size, image->bytes.size());
  EXPECT_NE(image->bytes.find(const_cast<const char*>(mark)), std::string::npos);
#endif
}

TEST(ImageTest, LikenessIsByAddressAndByRegion) {
  const Image one{.regions = {{0x1000, 0x3000, "rw-p", "[heap]"}, {0x8000, 0x9000, "rw-p", "data"}},
                  .bytes = std::string(2 * kPage, 'a') + std::string(kPage, 'b')};
  Image other = one;
  other.bytes[kPage + 5] = 'x';
  auto like = Compare(one, other, 4);
  ASSERT_EQ(like.size(), 2u);
  EXPECT_EQ(like[0].used, 2 * kPage);
  EXPECT_EQ(like[0].shared, 2 * kPage - 4);
  EXPECT_EQ(like[1].shared, kPage);
  EXPECT_EQ(Compare(one, other, kPage)[0].shared, kPage);
  other.regions[1] = {0xa000, 0xb000, "rw-p", "data"};
  EXPECT_EQ(Compare(one, other, 4)[1].shared, 0u) << "elsewhere";
  other.regions = {{0x2000, 0x5000, "rw-p", ""}};
  other.bytes = std::string(3 * kPage, 'a');
  EXPECT_EQ(Compare(one, other, kPage)[0].shared, kPage) << "of two pages one is there";
}

// --- suffixes and differences

TEST(SuffixesTest, AreInOrder) {
  std::mt19937_64 draw(Seed());
  for (int round = 0; round < 300; ++round) {
    const std::string text = Random(&draw, draw() % 200, 1 + static_cast<int>(draw() % 5));
    std::vector<int32_t> wanted(text.size());
    for (size_t i = 0; i < text.size(); ++i) wanted[i] = static_cast<int32_t>(i);
    std::sort(wanted.begin(), wanted.end(), [&](int32_t a, int32_t b) {
      return std::string_view(text).substr(static_cast<size_t>(a)) < std::string_view(text).substr(static_cast<size_t>(b));
    });
    ASSERT_EQ(SuffixesOf(text), wanted) << testing::PrintToString(text);
  }
  EXPECT_EQ(SuffixesOf("mississippi"), (std::vector<int32_t>{10, 7, 4, 1, 0, 9, 8, 6, 3, 5, 2}));
  EXPECT_EQ(SuffixesOf(std::string("\xff\0\x80", 3)), (std::vector<int32_t>{1, 2, 0})) << "bytes, not characters";
}

TEST(DeltaTest, MakesTheTargetOfTheBase) {
  std::mt19937_64 draw(Seed());
  for (int round = 0; round < 200; ++round) {
    const std::string base = Random(&draw, draw() % 3000, round % 2 == 0 ? 256 : 4);
    std::string target = base;
    for (uint64_t i = draw() % 8; i > 0 && !target.empty(); --i) {
      const size_t at = draw() % target.size(), size = draw() % 50;
      if (draw() % 3 == 0) {
        target.erase(at, size);
      } else if (draw() % 2 == 0) {
        target.insert(at, Random(&draw, size));
      } else {
        target[at] = static_cast<char>(draw());
      }
    }
    if (round % 10 == 0) target = Random(&draw, draw() % 1000);
    const Result<std::string> back = Apply(base, DeltaOf(base, target));
    ASSERT_TRUE(back.ok()) << back.status().message();
    ASSERT_TRUE(*back == target) << round;
  }
}

TEST(DeltaTest, IsSmallWhereLittleDiffers) {
  std::mt19937_64 draw(Seed());
  const std::string base = Random(&draw, 200'000);
  std::string target = base;
  for (size_t at = 100; at < target.size(); at += 5000) target[at] = static_cast<char>(target[at] + 1);
  target.insert(70'000, "something new");
  EXPECT_LT(DeltaOf(base, target).size(), 2000u);
  EXPECT_LT(DeltaOf(base, base.substr(1000)).size(), 500u);
}

TEST(DeltaTest, OfAnotherBaseOrDamagedItIsRefused) {
  std::mt19937_64 draw(Seed());
  const std::string base = Random(&draw, 4000), target = base.substr(100) + Random(&draw, 300);
  const std::string delta = DeltaOf(base, target);
  EXPECT_FALSE(Apply(base.substr(1), delta).ok());
  EXPECT_FALSE(Apply("", delta).ok());
  for (size_t size = 0; size < delta.size(); size += 3) EXPECT_FALSE(Apply(base, std::string_view(delta).substr(0, size)).ok());
  for (int round = 0; round < 300; ++round) {
    std::string bad = delta;
    bad[draw() % bad.size()] ^= static_cast<char>(1 << draw() % 8);
    const Result<std::string> back = Apply(base, bad);
    EXPECT_TRUE(!back.ok() || *back == target);
  }
}

// --- pages

struct PageTransfer {
  PageStore* store;
  std::string image;
  Way way = Way::kShared;
  std::function<void(std::string*)> on_its_way = [](std::string*) {};
  SentBytes bytes{};

  /// What came, or why it did not.
  Result<std::string> Run() {
    std::deque<std::string> there, back;
    PageSender sender(image, way, [&](std::string message) { there.push_back(std::move(message)); });
    PageReceiver receiver(store, [&](std::string message) { back.push_back(std::move(message)); });
    sender.Begin();
    while (!there.empty() || !back.empty()) {
      if (!there.empty()) {
        on_its_way(&there.front());
        HARROW_RETURN_IF_ERROR(receiver.Take(there.front()));
        there.pop_front();
      } else {
        HARROW_RETURN_IF_ERROR(sender.Take(back.front()));
        back.pop_front();
      }
    }
    bytes = sender.bytes();
    if (!receiver.image() || !sender.done()) return Status(Code::kUnavailable, "not all came");
    return *receiver.image();
  }
};

TEST(PagesTest, WhatCameIsWhatWasSent) {
  std::mt19937_64 draw(Seed());
  for (const Way way : {Way::kShared, Way::kPlain}) {
    PageStore store;
    for (int round = 0; round < 60; ++round) {
      std::string image;
      for (uint64_t pages = draw() % 600; pages > 0; --pages) {
        const uint64_t kind = draw() % 4;
        image += kind == 0 ? std::string(kPage, '\0') : kind == 1 ? std::string(kPage, static_cast<char>(draw() % 5)) : Random(&draw, kPage);
      }
      if (round % 3 == 0) image += Random(&draw, draw() % kPage);
      if (round % 7 == 0) image += std::string(draw() % kPage, '\0');
      PageTransfer transfer{.store = &store, .image = image, .way = way};
      const Result<std::string> came = transfer.Run();
      ASSERT_TRUE(came.ok()) << came.status().message();
      ASSERT_TRUE(*came == image) << round;
    }
  }
}

TEST(PagesTest, WhatIsThereIsNotSentAgain) {
  std::mt19937_64 draw(Seed());
  PageStore store;
  std::string image = Random(&draw, 100 * kPage) + std::string(50 * kPage, '\0');
  image += image.substr(0, 10 * kPage);
  PageTransfer first{.store = &store, .image = image};
  ASSERT_TRUE(first.Run().ok());
  EXPECT_EQ(first.bytes.sent, 100u);
  EXPECT_EQ(first.bytes.zero, 50u);
  image[55 * kPage + 7] ^= 1;
  PageTransfer next{.store = &store, .image = image};
  ASSERT_TRUE(next.Run().ok());
  EXPECT_EQ(next.bytes.sent, 1u) << "of the next checkpoint what has changed since";
  EXPECT_EQ(next.bytes.known, 99u);
  EXPECT_LT(next.bytes.lists + next.bytes.pages, 10'000u);
}

TEST(PagesTest, NothingOfADamagedImageIsUsed) {
  std::mt19937_64 draw(Seed());
  const std::string image = Random(&draw, 20 * kPage);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    PageStore store;
    PageTransfer transfer{.store = &store, .image = image};
    const uint64_t which = draw() % 2;
    uint64_t number = 0;
    transfer.on_its_way = [&](std::string* message) {
      if (number++ != which) return;
      if (round % 5 == 0) {
        message->resize(draw() % message->size());
      } else {
        (*message)[draw() % message->size()] ^= static_cast<char>(1 << draw() % 8);
      }
    };
    const Result<std::string> came = transfer.Run();
    refused += came.ok() ? 0 : 1;
    EXPECT_TRUE(!came.ok() || *came == image);
  }
  EXPECT_GT(refused, 300);
}

TEST(PagesTest, TheWayIsChosenByASample) {
  std::mt19937_64 draw(Seed());
  const std::string common = Random(&draw, 3000 * kPage);
  std::vector<std::string> alike, unlike;
  for (int i = 0; i < 4; ++i) {
    alike.push_back(Random(&draw, static_cast<size_t>(i) * kPage) + common.substr(0, 400 * kPage) + Random(&draw, 1000 * kPage));
    unlike.push_back(Random(&draw, 1500 * kPage));
  }
  EXPECT_EQ(ChooseWay({alike.begin(), alike.end()}), Way::kShared) << "also where it lies elsewhere in each";
  EXPECT_EQ(ChooseWay({unlike.begin(), unlike.end()}), Way::kPlain);
}

// --- rings and groups

TEST(RingTest, EachNodeHandsOnWhatItGetsBeforeTheRestHasCome) {
  const std::string image = "0123456789";
  std::vector<std::string> handed;
  RingNode node(image.size(), Digest(image), [&](std::string_view piece) { handed.emplace_back(piece); });
  EXPECT_TRUE(node.Take("0123").ok());
  EXPECT_EQ(handed, (std::vector<std::string>{"0123"}));
  EXPECT_FALSE(node.whole());
  EXPECT_TRUE(node.Take("456789").ok());
  EXPECT_TRUE(node.whole());
  EXPECT_EQ(node.image(), image);
}

TEST(RingTest, WhatDiffersOrIsTooMuchIsRefused) {
  const std::string image = "0123456789";
  RingNode other(image.size(), Digest(image), {});
  EXPECT_TRUE(other.Take("01234").ok());
  EXPECT_EQ(other.Take("56780").code(), Code::kDamaged);
  EXPECT_FALSE(other.whole());
  EXPECT_FALSE(other.Take("").ok());
  RingNode more(image.size(), Digest(image), {});
  EXPECT_EQ(more.Take(image + "x").code(), Code::kDamaged);
}

std::string Told(Group* group, const GroupEvent& event) {
  std::vector<GroupAction> actions;
  group->Handle(event, &actions);
  if (actions.empty()) return "";
  const auto* const given_up = std::get_if<GiveUpAll>(&actions[0]);
  return given_up != nullptr ? given_up->why : "resume";
}

Group OfThree() {
  std::vector<Journey> journeys;
  for (uint32_t i = 0; i < 3; ++i) journeys.push_back({NodeId(i), NodeId(10 + i), Digest(StrCat(i))});
  return Group(std::move(journeys));
}

TEST(GroupTest, AllAreReadyBeforeOneGoesOn) {
  Group group = OfThree();
  EXPECT_EQ(Told(&group, ImageReady{2, Digest("2")}), "");
  EXPECT_EQ(Told(&group, ImageReady{2, Digest("2")}), "");
  EXPECT_EQ(Told(&group, ImageReady{0, Digest("0")}), "");
  EXPECT_EQ(Told(&group, NodeGone{NodeId(0)}), "") << "its image has come";
  EXPECT_EQ(Told(&group, ImageReady{1, Digest("1")}), "resume");
  EXPECT_TRUE(group.over());
  EXPECT_EQ(Told(&group, NodeGone{NodeId(11)}), "");
}

TEST(GroupTest, OrNoneDoes) {
  Group other = OfThree();
  EXPECT_EQ(Told(&other, ImageReady{1, Digest("2")}), "image 1 is not what was sent: its digest differs");
  EXPECT_EQ(Told(&other, ImageReady{1, Digest("1")}), "");
  Group gone = OfThree();
  EXPECT_EQ(Told(&gone, NodeGone{NodeId(1)}), "image 1: the node that it goes from is gone");
  Group lost = OfThree();
  Told(&lost, ImageReady{2, Digest("2")});
  EXPECT_EQ(Told(&lost, NodeGone{NodeId(12)}), "image 2: the node that it goes to is gone") << "with what had come";
  Group failed = OfThree();
  EXPECT_EQ(Told(&failed, ImageFailed{0, "disk full"}), "image 0 did not come: disk full");
  Group late = OfThree();
  Told(&late, ImageReady{0, Digest("0")});
  EXPECT_EQ(Told(&late, TimeOver{}), "image 1 has not come in time");
}

// --- whole journeys

TEST(JourneyTest, EveryMethodBringsWhatWasSentAndAlikeImagesGoForLittle) {
  std::mt19937_64 draw(Seed());
  const std::string common = Random(&draw, 60 * kPage);
  std::vector<std::string> images;
  for (int i = 0; i < 4; ++i) images.push_back(common + Random(&draw, 5 * kPage) + std::string(20 * kPage, '\0'));
  const std::vector<std::string_view> views(images.begin(), images.end());
  uint64_t link[4] = {};
  for (const Method method : {Method::kNaive, Method::kNaiveZstd, Method::kPaper, Method::kPages}) {
    Duration time{0};
    const Result<Phases> phases = CarryOver(method, views, [&] { return time += std::chrono::milliseconds(1); });
    ASSERT_TRUE(phases.ok()) << phases.status().message();
    link[static_cast<size_t>(method)] = phases->link();
    EXPECT_GT(phases->Seconds(1e8, 1e9), 0);
  }
  EXPECT_EQ(link[0], 4 * 85 * kPage);
  EXPECT_LT(link[1], 4 * 66 * kPage);
  EXPECT_LT(link[2], 85 * kPage + 3 * 7 * kPage);
  EXPECT_LT(link[3], 82 * kPage);
}

}  // namespace
}  // namespace harrow::migrate
