#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/source_place.h"
#include "base/records.h"
#include "formats/array_spec.h"
#include "formats/task_keys.h"

namespace harrow::formats {

/// A text of the flow file with its place.
struct Placed {
  std::string text;
  SourcePlace place;
};

/// One key of `each`: numbers, or values as they are.
struct EachKey {
  std::string name;
  SourcePlace place;
  std::vector<ArraySpec::Range> ranges;
  std::vector<std::string> values;
  uint64_t count = 0;
};

/// A [[task]] as written: one task, or one for each combination of the values of `each` (the first key
/// changes slowest).
struct TaskTemplate {
  SourcePlace place;
  bool broken = false;  // a problem with it has been told
  Placed name;
  std::vector<EachKey> each;
  uint64_t count = 1;
  std::vector<Placed> command;  // a shell text, or arguments
  bool is_list = false;         // arguments
  std::vector<Placed> in, out, after, after_any;
  std::vector<Placed> from, to;  // streams
  std::vector<Placed> open;      // streams that do not end before it has
  bool split = false;            // each record of `from` goes to one reader
  SourcePlace share_place;       // where that is said, if it is
  Records records = kLines;      // of `to`
  SourcePlace records_place;     // where that is said, if it is
  Placed model;                  // a meta-program, or "@file"; empty: it has none
  SourcePlace model_begin;       // where its text begins
  TaskAttributes attributes;                               // texts with braces still in them
  std::map<std::string, SourcePlace, std::less<>> places;  // of attributes, by key
};

/// A [[file]] as written: known sizes of files that no task makes, or for simulation.
struct FileTemplate {
  SourcePlace place;
  Placed name;
  std::vector<EachKey> each;
  uint64_t count = 1;
  int64_t size = 0;
};

/// A [[stream]] as written: one that does not end before somebody closes it.
struct StreamTemplate {
  SourcePlace place;
  Placed name;
  std::vector<EachKey> each;
  uint64_t count = 1;
  bool open = false;
};

/// Walks the combinations of `each`, keeping the current values as text.
class EachWalk {
 public:
  explicit EachWalk(const std::vector<EachKey>& each);
  const std::vector<std::string>& values() const { return values_; }
  void Next();

 private:
  struct Position {
    size_t item = 0;    // of values, or of ranges
    uint64_t step = 0;  // within the range
  };
  void SetText(size_t key);
  const std::vector<EachKey>& each_;
  std::vector<Position> at_;
  std::vector<std::string> values_;
};

}  // namespace harrow::formats
