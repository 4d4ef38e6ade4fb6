#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/file_table.h"

namespace harrow::formats {

/// Sorted names, and which of them a pattern can match at all, found without going through all of them where the
/// pattern has anything to go by (pattern_index.cc). The names have to outlive it.
class PatternIndex {
 public:
  PatternIndex() = default;
  /// `names`: in any order; repeated ones count once.
  explicit PatternIndex(std::vector<std::string_view> names);
  bool Contains(std::string_view name) const;
  /// Ascending.
  std::vector<std::string_view> Candidates(std::string_view pattern) const;

 private:
  /// Numbers of names, sorted by eight characters of each: those at its beginning or its end, without what all of them
  /// have in common there.
  struct Side {
    struct Name {
      uint64_t key;
      uint32_t number;
    };
    bool ends = false;
    std::string_view common;
    std::vector<Name> sorted;
  };
  /// A run of digits or of letters, and where in holders_ the names are that hold it.
  struct Word {
    std::string_view text;
    uint32_t count = 0;
    uint32_t begin = 0;
    uint32_t last = UINT32_MAX;
  };
  static Side MakeSide(bool ends, const std::vector<std::string_view>& names);
  /// The names that may begin or end with that part; all that do are among them.
  static std::pair<size_t, size_t> Around(const Side& side, std::string_view part);
  const Word* FindWord(std::string_view text) const;
  void Build() const;

  std::vector<std::string_view> names_;
  Side heads_;  // in the order of names_
  // Made when a pattern first needs them.
  mutable bool built_ = false;
  mutable Side tails_;
  mutable std::vector<Word> words_;
  mutable graph::NameIndex word_index_;
  mutable std::vector<uint32_t> holders_;
};

}  // namespace harrow::formats
