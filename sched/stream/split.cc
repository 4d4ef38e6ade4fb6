// A reader that has room is given a block of whole records, and nobody else ever gets these: the attempts of
// one reader's task read the same ones, and a reader that ends before it has read its block takes the block
// with it.
//
// A block is small, so that readers get as much as they can work on, and the records of a short stream do not
// all go to who comes first: half of the fair share of what waits, at least one record, at most kSmallest,
// and more where the log is long, so that what is remembered stays small (kPart of what came before, up to
// kLargest).
#include "stream/split.h"

#include <algorithm>
#include <string>

#include "stream/record_ends.h"

namespace harrow::stream {
namespace {

constexpr int64_t kSmallest = 4096;
constexpr int64_t kLargest = 64 << 10;
constexpr int64_t kPart = 256;
constexpr int64_t kLook = 64 << 10;  // bytes that are searched at once

}  // namespace

int64_t Split::given(TaskId reader) const {
  const auto found = given_.find(reader);
  if (found == given_.end() || found->second.empty()) return 0;
  return found->second.back().at + found->second.back().range.bytes;
}

Result<int64_t> Split::Block(int64_t length, bool over, const Read& read) {
  const int64_t waits = length - next_;
  if (waits <= 0) return int64_t{0};
  const int64_t share = waits / (2 * std::max<int64_t>(2, readers_));
  const int64_t wanted = std::clamp<int64_t>(share, 1, std::clamp(next_ / kPart, kSmallest, kLargest));
  std::string piece;
  // As many whole records as fit into what is wanted, else the first one.
  if (searched_ < next_ + wanted) {
    piece.resize(static_cast<size_t>(wanted));
    HARROW_RETURN_IF_ERROR(read(next_, piece.data(), piece.size()));
    if (const size_t end = LastEnd(records_, 0, piece); end > 0) return static_cast<int64_t>(end);
    searched_ = next_ + wanted;
  }
  while (searched_ < length) {
    piece.resize(static_cast<size_t>(std::min(kLook, length - searched_)));
    HARROW_RETURN_IF_ERROR(read(searched_, piece.data(), piece.size()));
    const auto into = static_cast<uint64_t>(searched_ - next_);
    if (const size_t end = FirstEnd(records_, into, piece); end > 0)
      return searched_ - next_ + static_cast<int64_t>(end);
    searched_ += static_cast<int64_t>(piece.size());
  }
  return over ? waits : 0;
}

Result<Range> Split::Next(TaskId reader, int64_t at, int64_t length, bool over, const Read& read) {
  std::vector<Given>& own = given_[reader];
  if (at < given(reader)) {
    const auto after = std::upper_bound(own.begin(), own.end(), at,
                                        [](int64_t value, const Given& given) { return value < given.at; });
    const Given& in = *std::prev(after);
    return Range{in.range.offset + (at - in.at), in.range.bytes - (at - in.at)};
  }
  if (at > given(reader)) return Status(Code::kInvalid, "more of a split stream is asked for than was given");
  const Result<int64_t> block = Block(length, over, read);
  if (!block.ok()) return block.status();
  if (*block == 0) return Range{next_, 0};
  const Range range{next_, *block};
  if (!own.empty() && own.back().range.offset + own.back().range.bytes == next_) {
    own.back().range.bytes += *block;
  } else {
    own.push_back({at, range});
  }
  next_ += *block;
  searched_ = next_;
  return range;
}

}  // namespace harrow::stream
