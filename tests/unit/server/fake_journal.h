#pragma once

#include <string>
#include <utility>
#include <vector>

#include "journal/journal.h"

namespace harrow::test {

/// A journal in memory; `history` is what would be on disk if all were committed.
class FakeJournal : public journal::Journal {
 public:
  uint64_t Add(journal::AttemptRecord record) override {
    history.attempts.push_back(std::move(record));
    return ++sequence;
  }
  uint64_t Add(journal::PartRecord record) override {
    history.parts.push_back(std::move(record));
    return ++sequence;
  }
  uint64_t Add(journal::FateRecord record) override {
    history.fates.push_back(record);
    return ++sequence;
  }
  uint64_t Add(journal::NodeRecord record) override {
    history.nodes.push_back(std::move(record));
    return ++sequence;
  }
  uint64_t Add(journal::CopyRecord record) override {
    history.copies.push_back(std::move(record));
    return ++sequence;
  }
  uint64_t Add(journal::MoveRecord record) override {
    history.moves.push_back(std::move(record));
    return ++sequence;
  }
  uint64_t Add(std::vector<journal::TaskRecord> tasks) override {
    history.tasks.insert(history.tasks.end(), tasks.begin(), tasks.end());
    return ++sequence;
  }
  uint64_t SetFact(std::string_view key, std::string_view value) override {
    history.facts.emplace_back(key, value);
    return ++sequence;
  }
  void SetCallbacks(std::function<void(uint64_t)>, std::function<void(Status)>) override {}
  Status Flush() override { return {}; }
  Status Close() override { return {}; }

  journal::History history;
  uint64_t sequence = 0;
};

}  // namespace harrow::test
