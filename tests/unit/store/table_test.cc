#include "store/table.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

namespace harrow::store {
namespace {

ObjectId Id(uint64_t n, Kind kind = Kind::kFile) {
  return {n, n, kind};
}

struct Model {
  bool whole = false, named = false, spare = false;
  int pins = 0;
  std::set<uint64_t> parts;  // of a directory
};

/// Files 0 to 7 and directories 100 to 103 of them, done to at random; the model keeps no counts but counts.
TEST(TableTest, RandomSequencesKeepWhatIsNeededAndNothingElse) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  Table table;
  std::map<ObjectId, Model> model;
  const auto users = [&](const ObjectId& id) {
    int count = 0;
    for (const auto& [other, m] : model) count += m.whole && m.parts.contains(id.high);
    return count;
  };
  const auto carry = [&](const Table::Removals& removals) {
    for (const Table::Removal& removal : removals) {
      ASSERT_TRUE(model[removal.id].whole);
      model[removal.id].whole = model[removal.id].named = model[removal.id].spare = false;
    }
    for (const Table::Removal& removal : removals) table.Gone(removal.id);
  };
  for (int step = 0; step < 20'000; ++step) {
    const bool directory = random() % 3 == 0;
    const ObjectId id = directory ? Id(100 + random() % 4, Kind::kDirectory) : Id(random() % 8);
    Model& m = model[id];
    Table::Removals removals;
    switch (random() % 8) {
      case 0:
      case 1: {
        if (m.whole) break;
        table.BeginSettling(id);
        ASSERT_FALSE(table.Kept(id));
        if (random() % 8 == 0) {
          table.Gone(id);
          break;
        }
        Row row;
        row.charge = 1;
        row.named = random() % 2 == 0 || directory;
        row.in_objects = row.named;
        m.parts.clear();
        if (directory) {
          std::vector<Object> parts;
          for (uint64_t n = 0; n < 8; ++n) {
            if (random() % 3 != 0) continue;
            parts.push_back({Id(n), 1});
            m.parts.insert(n);
          }
          row.parts = std::make_shared<const std::vector<Object>>(parts);
        }
        table.Settled(id, row);
        m.whole = true;
        m.named = row.named;
        if (!row.named) table.Unname(id, &removals);  // what nothing keeps goes at once
        break;
      }
      case 2:
        if (m.whole) m.named = m.spare = false;
        table.Unname(id, &removals);
        break;
      case 3:
        if (!table.Kept(id)) break;
        table.Pin(id);
        ++m.pins;
        break;
      case 4:
        if (m.pins == 0) break;
        --m.pins;
        table.Unpin(id, &removals);
        break;
      case 5:
        if (random() % 4 != 0) break;
        table.Spoiled(id, &removals);
        break;
      case 6:
        table.Spare(id);
        m.spare |= m.whole && m.named;
        break;
      case 7:
        if (random() % 2 == 0) {
          if (m.whole && m.named) table.Name(table.Find(id));
          m.spare = false;
          break;
        }
        const bool any =
            std::any_of(model.begin(), model.end(), [](const auto& o) { return o.second.spare; });
        ASSERT_EQ(table.GiveUpSpare(&removals), any) << step;
        for (auto& [other, o] : model) {
          if (o.spare && table.Find(other)->spare == 0) o.spare = o.named = false;
        }
        break;
    }
    carry(removals);
    ASSERT_TRUE(table.SanityCheck()) << step;
    uint64_t whole = 0, spare = 0;
    for (const auto& [other, o] : model) {
      if (o.whole) {
        ++whole;
        spare += o.spare ? 1 : 0;
        ASSERT_TRUE(o.named || o.pins > 0 || users(other) > 0) << step << ": kept for nothing";
      }
      ASSERT_EQ(table.Kept(other), o.whole && (o.named || users(other) > 0)) << step;
      bool complete = table.Kept(other);
      for (const uint64_t part : o.parts) complete = complete && model[Id(part)].whole;
      ASSERT_EQ(table.Complete(other), complete) << step;
    }
    ASSERT_EQ(table.whole(), whole) << step;
    ASSERT_EQ(table.used(), whole) << step;
    ASSERT_EQ(table.spare(), spare) << step;
    ASSERT_TRUE(table.Orphans().empty());
  }
}

TEST(TableTest, AChangedFileTakesThoseThatHoldItAlong) {
  Table table;
  Row file;
  file.charge = 1;
  table.Settled(Id(1), file);
  table.Settled(Id(2), file);
  Row directory;
  directory.named = true;
  directory.parts = std::make_shared<const std::vector<Object>>(std::vector<Object>{{Id(1), 1}, {Id(2), 1}});
  table.Settled(Id(9, Kind::kDirectory), directory);
  table.Pin(Id(9, Kind::kDirectory));
  Table::Removals removals;
  table.Spoiled(Id(1), &removals);
  EXPECT_EQ(removals.size(), 3u);
  for (const Table::Removal& removal : removals) table.Gone(removal.id);
  removals.clear();
  table.Unpin(Id(9, Kind::kDirectory), &removals);
  EXPECT_TRUE(removals.empty());
  EXPECT_EQ(table.whole(), 0u);
  EXPECT_EQ(table.used(), 0u);
  EXPECT_TRUE(table.SanityCheck());
  EXPECT_EQ(table.Find(Id(9, Kind::kDirectory)), nullptr);
}

}  // namespace
}  // namespace harrow::store
