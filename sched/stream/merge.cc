// Of a source as much is given as ends with a record. A record that is longer than what may be kept of it is
// given piece by piece, and until its end no other source is. The last record of a source may lack its end.
// It gets one when something of another source follows: a newline, a NUL byte, or NUL bytes up to the length
// of a record. What comes from one source alone is given as it is, whatever it consists of.
#include "stream/merge.h"

#include <utility>

namespace harrow::stream {

Merge::Part Merge::Next(size_t source, Records records, std::string_view bytes, bool over) {
  if (sources_ == 1) return {.bytes = bytes.size()};
  if (held_by_ && *held_by_ != source) return {};
  const uint64_t into = held_by_ ? into_ : 0;
  Part part;
  if (over) {
    part.bytes = bytes.size();
  } else if (const size_t end = LastEnd(records, into, bytes); end > 0) {
    part.bytes = end;
  } else if (held_by_ || bytes.size() >= most_) {
    part.bytes = bytes.size();
  }
  if (part.bytes == 0 && !(over && held_by_)) return part;
  part.before = std::exchange(unended_, {});
  into_ = IntoAfter(records, into, bytes.substr(0, part.bytes));
  if (over) unended_ = EndOf(records, into_);
  if (over || into_ == 0) {
    held_by_.reset();
  } else {
    held_by_ = source;
  }
  return part;
}

}  // namespace harrow::stream
