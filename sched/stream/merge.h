#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "stream/record_ends.h"

namespace harrow::stream {

/// Says how much of each of several sources may be given to one reader, so that it gets whole records (how:
/// merge.cc). Pure.
class Merge {
 public:
  /// A record of which `most` bytes are at hand is given before its end has come.
  Merge(size_t sources, size_t most) : sources_(sources), most_(most) {}
  /// One more; not where something of a single one has been given.
  void Add() { ++sources_; }

  struct Part {
    size_t bytes = 0;  // from the first on; 0: more has to come, of this source or of another one
    Filling before{};  // which goes before them
  };
  /// `bytes`: what comes next of that source, as far as it is at hand. `over`: nothing comes after them. What
  /// it says is taken for done.
  Part Next(size_t source, Records records, std::string_view bytes, bool over);

  /// The only source of which something may be given now: it is in mid-record.
  std::optional<size_t> held_by() const { return held_by_; }

 private:
  size_t sources_;
  const size_t most_;
  std::optional<size_t> held_by_{};
  uint64_t into_ = 0;  // its record
  Filling unended_{};  // what the last record of a source that is over lacks
};

}  // namespace harrow::stream
