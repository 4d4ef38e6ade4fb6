#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/packed_bytes.h"

namespace harrow::journal {

/// A hash that runs over the fields of records, group by group.
class Chain {
 public:
  Chain();
  ~Chain();
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  void Add(int64_t number);
  void Add(std::string_view text);
  /// Ends a group: its value, with which the next one begins.
  uint64_t EndGroup();

 private:
  struct State;
  void Drain();

  std::unique_ptr<State> state_;
  PackedBytes waiting_;
  uint64_t value_ = 0;
};

}  // namespace harrow::journal
