#pragma once

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/text.h"

namespace harrow::test {

/// What something decides in a run that is the same each time, a line each. The number of all lines is kept in tests/data/trails.table: a
/// test that calls Compare() at its end fails where anything was decided otherwise than when that was written. Where it was meant to:
/// HARROW_TRAIL=DIR writes the lines to DIR/NAME, to be compared with those of the build before, and HARROW_TRAIL_KEEP=1 the table anew.
/// For one compiler: another may draw the arguments of a call in another order.
class Trail {
 public:
  explicit Trail(std::string name) : name_(std::move(name)), directory_(std::getenv("HARROW_TRAIL")) { now_ = this; }
  ~Trail() { now_ = nullptr; }
  Trail(const Trail&) = delete;
  Trail& operator=(const Trail&) = delete;

  /// To the one that there is, if any.
  template <class Text>
  static void Say(const Text& text) {
    if (now_ != nullptr) now_->Add(text());
  }

  void Add(std::string_view line) {
    char before[24];
    std::snprintf(before, sizeof before, "%016" PRIx64 " ", number_);
    number_ = Hash64(StrCat(before, line));
    ++lines_;
    if (directory_ != nullptr) text_ += StrCat(line, "\n");
  }

  void Compare() const {
    if (directory_ != nullptr) std::ofstream(StrCat(directory_, "/", name_)) << text_;
    if (::testing::Test::HasFailure()) return;
    char is[64];
    std::snprintf(is, sizeof is, "%" PRIu64 " lines %016" PRIx64, lines_, number_);
    std::map<std::string, std::string> table = Read();
    if (std::getenv("HARROW_TRAIL_KEEP") != nullptr) {
      table[name_] = is;
      std::ofstream out(kPath);
      for (const auto& [name, kept] : table) out << name << " " << kept << "\n";
      return;
    }
#ifndef __clang__
    EXPECT_EQ(table[name_], is) << name_ << " decides otherwise than before; tests/support/trail.h tells what to do";
#endif
  }

 private:
  static constexpr const char* kPath = HARROW_SOURCE_DIR "/tests/data/trails.table";
  static std::map<std::string, std::string> Read() {
    std::map<std::string, std::string> table;
    std::ifstream in(kPath);
    for (std::string line; std::getline(in, line);) {
      const size_t space = line.find(' ');
      if (space != std::string::npos) table[line.substr(0, space)] = line.substr(space + 1);
    }
    return table;
  }

  static inline Trail* now_ = nullptr;
  std::string name_, text_;
  const char* directory_;
  uint64_t number_ = 0, lines_ = 0;
};

}  // namespace harrow::test
