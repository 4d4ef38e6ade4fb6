#include "multiview/geometry.h"

#include <algorithm>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace harrow::multiview {

Index Box::volume() const {
  Index v = 1;
  for (Index e : n) v *= e;
  return v;
}

bool Box::Contains(std::span<const Index> at) const {
  for (std::size_t d = 0; d < n.size(); ++d) {
    if (at[d] < lo[d] || at[d] >= lo[d] + n[d]) return false;
  }
  return true;
}

bool Box::Contains(const Box& other) const {
  for (std::size_t d = 0; d < n.size(); ++d) {
    if (other.lo[d] < lo[d] || other.lo[d] + other.n[d] > lo[d] + n[d]) return false;
  }
  return true;
}

bool Intersect(const Box& a, const Box& b, Box* out) {
  const std::size_t dims = a.n.size();
  if (out->n.size() != dims) *out = {Indices(dims), Indices(dims)};
  for (std::size_t d = 0; d < dims; ++d) {
    const Index lo = std::max(a.lo[d], b.lo[d]);
    const Index hi = std::min(a.lo[d] + a.n[d], b.lo[d] + b.n[d]);
    if (lo >= hi) return false;
    out->lo[d] = lo;
    out->n[d] = hi - lo;
  }
  return true;
}

Index Linear(std::span<const Index> shape, std::span<const Index> at) {
  Index v = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) v = v * shape[d] + at[d];
  return v;
}

void Unlinear(std::span<const Index> shape, Index linear, Index* at) {
  for (std::size_t d = shape.size(); d-- > 0;) {
    at[d] = 0;
    if (shape[d] == 1) continue;  // no division, which is what this costs
    at[d] = linear % shape[d];
    linear /= shape[d];
  }
}

void AppendRange(std::span<const Index> shape, Index first, Index last, std::vector<Box>* boxes) {
  const std::size_t dims = shape.size();
  if (last == first + 1) {
    Box& box = boxes->emplace_back(Box{Indices(dims), Indices(dims, 1)});
    Unlinear(shape, first, box.lo.data());
    return;
  }
  Indices inner(dims + 1, 1);  // elements below one index of dimension d: inner[d + 1]
  for (std::size_t d = dims; d-- > 0;) inner[d] = inner[d + 1] * shape[d];
  while (first < last) {
    // The slowest dimension whose slab starts here and fits, with as many slabs as fit before its own end.
    std::size_t d = 0;
    while (d + 1 < dims && (first % inner[d + 1] != 0 || last - first < inner[d + 1])) ++d;
    const Index in_row = first % inner[d] / inner[d + 1];
    const Index slabs = std::min(shape[d] - in_row, (last - first) / inner[d + 1]);
    Box box{Indices(dims), Indices(dims, 1)};
    Unlinear(shape, first, box.lo.data());
    box.n[d] = slabs;
    for (std::size_t e = d + 1; e < dims; ++e) box.n[e] = shape[e];
    boxes->push_back(std::move(box));
    first += slabs * inner[d + 1];
  }
}

Runs::Runs(const Box& whole, const Box& part, std::size_t element_bytes) {
  const std::size_t dims = part.n.size();
  length = static_cast<std::int64_t>(element_bytes);
  Indices c(dims), s(dims);  // counts and strides, fastest first
  std::size_t loops = 0;
  std::int64_t step = length;
  for (std::size_t d = dims; d-- > 0;) {
    first += (part.lo[d] - whole.lo[d]) * step;
    if (part.n[d] > 1) {
      if (loops == 0 && step == length) {
        length *= part.n[d];
      } else if (loops > 0 && step == s[loops - 1] * c[loops - 1]) {
        c[loops - 1] *= part.n[d];
      } else {
        c[loops] = part.n[d];
        s[loops++] = step;
      }
    }
    step *= whole.n[d];
  }
  count = Indices(loops);
  stride = Indices(loops);
  total = length;
  for (std::size_t l = 0; l < loops; ++l) {
    count[l] = c[loops - 1 - l];
    stride[l] = s[loops - 1 - l];
    total *= count[l];
  }
}

void RunCursor::Skip(std::int64_t bytes) {
  done_ += bytes;
  in_run_ += bytes;
  if (in_run_ < runs_->length) return;
  in_run_ = 0;
  for (std::size_t l = at_.size(); l-- > 0;) {
    offset_ += runs_->stride[l];
    if (++at_[l] < runs_->count[l]) return;
    offset_ -= runs_->stride[l] * runs_->count[l];
    at_[l] = 0;
  }
}

namespace {

template <std::size_t kBytes>
void CopyFixed(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride, std::int64_t count) {
  for (; count > 0; --count, to += to_stride, from += from_stride) std::memcpy(to, from, kBytes);
}

// Parts of more bytes than a process has of the last cache are written past it: on x86 an ordinary store first reads the line
// that it then overwrites, a third of all traffic.
constexpr std::int64_t kStreamedPart = 8 << 20;
constexpr std::int64_t kStreamedRun = 1024;

#if defined(__SSE2__)
void StreamRun(std::byte* to, const std::byte* from, std::int64_t length) {
  constexpr std::int64_t kStreamLine = 64;
  const std::int64_t head = -static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to)) & (kStreamLine - 1);
  std::memcpy(to, from, static_cast<std::size_t>(head));
  std::int64_t at = head;
  for (; at + kStreamLine <= length; at += kStreamLine) {
    const auto* in = reinterpret_cast<const __m128i*>(from + at);
    auto* out = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1), c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  std::memcpy(to + at, from + at, static_cast<std::size_t>(length - at));
}
void FinishStreams() { _mm_sfence(); }
#else
void StreamRun(std::byte* to, const std::byte* from, std::int64_t length) {
  std::memcpy(to, from, static_cast<std::size_t>(length));
}
void FinishStreams() {}
#endif

// `count` runs of `length` bytes each.
void CopyStrided(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride, std::int64_t length,
                 std::int64_t count) {
  switch (length) {
    case 1: return CopyFixed<1>(to, to_stride, from, from_stride, count);
    case 2: return CopyFixed<2>(to, to_stride, from, from_stride, count);
    case 4: return CopyFixed<4>(to, to_stride, from, from_stride, count);
    case 8: return CopyFixed<8>(to, to_stride, from, from_stride, count);
    case 16: return CopyFixed<16>(to, to_stride, from, from_stride, count);
    case 32: return CopyFixed<32>(to, to_stride, from, from_stride, count);
    default:
      for (; count > 0; --count, to += to_stride, from += from_stride) {
        std::memcpy(to, from, static_cast<std::size_t>(length));
      }
  }
}

}  // namespace

template <bool kGather>
void RunCursor::Transfer(std::byte* array, std::byte* packed, std::int64_t bytes) {
  const std::size_t loops = at_.size();
  while (bytes > 0) {
    // Whole runs of the fastest loop together, else what is left of one.
    const std::int64_t run = runs_->length;
    if (loops > 0 && in_run_ == 0 && bytes >= run) {
      const std::size_t l = loops - 1;
      const std::int64_t many = std::min(bytes / run, runs_->count[l] - at_[l]);
      std::byte* at = array + offset_;
      if constexpr (kGather) {
        CopyStrided(packed, run, at, runs_->stride[l], run, many);
      } else {
        CopyStrided(at, runs_->stride[l], packed, run, run, many);
      }
      at_[l] += many - 1;
      offset_ += (many - 1) * runs_->stride[l];
      done_ += (many - 1) * run;
      packed += many * run;
      bytes -= many * run;
      Skip(run);
    } else {
      const std::int64_t some = std::min(bytes, length());
      if constexpr (kGather) {
        std::memcpy(packed, array + offset(), static_cast<std::size_t>(some));
      } else {
        std::memcpy(array + offset(), packed, static_cast<std::size_t>(some));
      }
      packed += some;
      bytes -= some;
      Skip(some);
    }
  }
}

void RunCursor::Gather(const std::byte* array, std::byte* out, std::int64_t bytes) {
  Transfer<true>(const_cast<std::byte*>(array), out, bytes);
}

void RunCursor::Scatter(std::byte* array, const std::byte* in, std::int64_t bytes) {
  Transfer<false>(array, const_cast<std::byte*>(in), bytes);
}

void CopyPart(const Box& part, std::byte* to, const Box& to_whole, const std::byte* from, const Box& from_whole,
              std::size_t element_bytes) {
  struct Loop {
    std::int64_t count, to, from;
  };
  const std::size_t dims = part.n.size();
  std::vector<Loop> loops;  // fastest first
  std::int64_t run = static_cast<std::int64_t>(element_bytes), to_step = run, from_step = run;
  for (std::size_t d = dims; d-- > 0;) {
    to += (part.lo[d] - to_whole.lo[d]) * to_step;
    from += (part.lo[d] - from_whole.lo[d]) * from_step;
    if (part.n[d] > 1) {
      if (loops.empty() && to_step == run && from_step == run) {
        run *= part.n[d];
      } else if (!loops.empty() && to_step == loops.back().to * loops.back().count &&
                 from_step == loops.back().from * loops.back().count) {
        loops.back().count *= part.n[d];
      } else {
        loops.push_back({part.n[d], to_step, from_step});
      }
    }
    to_step *= to_whole.n[d];
    from_step *= from_whole.n[d];
  }
  if (loops.empty()) loops.push_back({1, 0, 0});
  const bool streamed = run >= kStreamedRun && part.volume() * static_cast<std::int64_t>(element_bytes) >= kStreamedPart;
  std::vector<std::int64_t> at(loops.size());
  for (;;) {
    if (streamed) {
      for (std::int64_t i = 0; i < loops[0].count; ++i) StreamRun(to + i * loops[0].to, from + i * loops[0].from, run);
    } else {
      CopyStrided(to, loops[0].to, from, loops[0].from, run, loops[0].count);
    }
    std::size_t l = 1;
    for (; l < loops.size(); ++l) {
      to += loops[l].to;
      from += loops[l].from;
      if (++at[l] < loops[l].count) break;
      to -= loops[l].to * loops[l].count;
      from -= loops[l].from * loops[l].count;
      at[l] = 0;
    }
    if (l == loops.size()) break;
  }
  if (streamed) FinishStreams();
}

}  // namespace harrow::multiview
