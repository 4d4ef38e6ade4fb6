// Pages that stay. When a contiguous part of an array stays on its process, its pages are moved from the old array's addresses
// to the new one's by mremap instead of being copied; the new array's own pages take their place, so that both arrays remain
// whole and can be used again. That needs both places to be alike modulo the page size, which AlignLike provides for one part;
// alike modulo the huge page size, whole page tables move and 40 MB cost some 20 us.
//
// The kernel is called past the C library: the memory hooks of some MPI transports (UCX as MPICH brings it) replace mremap by a
// function that drops the new address. What the hooks are for, forgetting what a network card knows of these addresses, is
// seen to by madvise, which all of them watch, too.
#include "multiview/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace harrow::multiview {
namespace {

const std::size_t kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kWorthExchanging = 128 << 10;

std::size_t RoundUp(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }
std::size_t Address(const void* p) { return reinterpret_cast<std::size_t>(p); }

struct Range {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

// At least `bytes` that begin on a multiple of `alignment`; none with errno.
Range Map(std::size_t bytes, std::size_t alignment, int protection) {
  bytes += alignment;
  void* p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return {};
  const std::size_t head = RoundUp(Address(p), alignment) - Address(p);
  if (head > 0) munmap(p, head);
  return {static_cast<std::byte*>(p) + head, bytes - head};
}

// Addresses to pass pages through, aligned to huge pages, kept for the life of the process.
std::byte* Passage(std::size_t bytes) {
  static Range range;
  if (range.bytes < bytes) {
    if (range.begin) munmap(range.begin, range.bytes);
    range = Map(RoundUp(bytes, kHugePage), kHugePage, PROT_NONE);
  }
  return range.begin;
}

// `from` stays mapped, empty: no other thread's mapping can get between. Older kernels than 5.7 refuse.
bool MovePages(std::byte* from, std::size_t bytes, std::byte* to) {
  constexpr int kFlags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
  if (syscall(SYS_mremap, from, bytes, bytes, kFlags, to) != static_cast<long>(Address(to))) return false;
  madvise(from, bytes, MADV_DONTNEED);  // nothing is there any more
  return true;
}

Status NoMemory(std::size_t bytes) {
  return Status(Code::kMemory, "no memory for " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
}

}  // namespace

Result<std::unique_ptr<Segment>> Segment::Anonymous(std::size_t capacity) {
  std::unique_ptr<Segment> s(new Segment);
  s->page_ = capacity >= 2 * kHugePage ? kHugePage : kPage;
  s->capacity_ = capacity;
  // One page more than needed, for AlignLike.
  const Range range = Map(RoundUp(capacity, kPage) + s->page_, s->page_, PROT_READ | PROT_WRITE);
  if (!range.begin) return NoMemory(capacity);
  s->map_ = s->data_ = range.begin;
  s->mapped_ = range.bytes;
  if (s->page_ == kHugePage) madvise(s->map_, s->mapped_, MADV_HUGEPAGE);
  return s;
}

Result<std::unique_ptr<Segment>> Segment::File(std::size_t capacity, const std::shared_ptr<FileSpace>& space) {
  auto extent = space->Take(capacity);
  if (!extent) return extent.status();
  std::unique_ptr<Segment> s(new Segment);
  s->space_ = space;
  s->extent_ = *extent;
  s->page_ = kPage;
  s->capacity_ = capacity;
  void* p = mmap(nullptr, extent->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->file(), static_cast<off_t>(extent->offset));
  if (p == MAP_FAILED) {
    return Status(Code::kStorage, "cannot map " + std::to_string(capacity) + " bytes of a file in " + space->directory() + ": " +
                                      std::strerror(errno));
  }
  s->mapped_ = extent->bytes;
  s->map_ = s->data_ = static_cast<std::byte*>(p);
  return s;
}

Segment::~Segment() {
  if (map_) munmap(map_, mapped_);
  if (space_) space_->Give(extent_);
}

void Segment::AlignLike(const std::byte* address) {
  if (in_file()) return;
  data_ = map_ + Address(address) % page_;
}

void Segment::Discard(std::size_t offset, std::size_t bytes) {
  const std::size_t begin = RoundUp(Address(data_ + offset), kPage);
  const std::size_t end = Address(data_ + offset + bytes) / kPage * kPage;
  if (begin >= end) return;
  void* at = reinterpret_cast<void*>(begin);
  if (!in_file()) {
    madvise(at, end - begin, MADV_DONTNEED);
  } else {
    fallocate(file(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(extent_.offset + begin - Address(map_)), static_cast<off_t>(end - begin));
  }
}

void Segment::Unload() {
  if (in_file()) madvise(map_, mapped_, MADV_DONTNEED);
}

int Segment::Sync() { return in_file() && msync(map_, mapped_, MS_SYNC) != 0 ? errno : 0; }

bool Segment::CanExchange(const Segment& from, std::size_t from_offset, const Segment& to, std::size_t to_offset,
                          std::size_t bytes) {
  return bytes >= kWorthExchanging && !from.in_file() && !to.in_file() && !from.fragmented() && !to.fragmented() &&
         Address(from.data_ + from_offset) % kPage == Address(to.data_ + to_offset) % kPage;
}

bool Segment::Exchange(Segment* from, std::size_t from_offset, Segment* to, std::size_t to_offset, std::size_t bytes) {
  std::byte* source = from->data_ + from_offset;
  std::byte* target = to->data_ + to_offset;
  if (!CanExchange(*from, from_offset, *to, to_offset, bytes)) return false;
  const std::size_t head = RoundUp(Address(source), kPage) - Address(source);
  const std::size_t middle = (bytes - head) / kPage * kPage;
  std::byte* passage = Passage(middle + kHugePage);
  if (!passage) return false;
  passage += (Address(source) + head) % kHugePage;
  // Only for want of mappings can a move fail, and the way back needs none.
  if (!MovePages(source + head, middle, passage)) return false;
  if (!MovePages(target + head, middle, source + head)) {
    if (!MovePages(passage, middle, source + head)) std::abort();
    return false;
  }
  if (!MovePages(passage, middle, target + head)) std::abort();
  ++from->exchanges_;
  ++to->exchanges_;
  std::memcpy(target, source, head);
  std::memcpy(target + head + middle, source + head + middle, bytes - head - middle);
  return true;
}

MemoryPool::MemoryPool(const WorldOptions& options)
    : limit_(options.memory_limit), keep_(options.keep_bytes) {
  std::string directory = options.directory;
  for (const char* name : {"HARROW_MULTIVIEW_DIR", "TMPDIR"}) {
    const char* value = std::getenv(name);
    if (directory.empty() && value && *value) directory = value;
  }
  files_ = std::make_shared<FileSpace>(directory.empty() ? "/tmp" : directory);
}

Result<std::shared_ptr<Segment>> MemoryPool::Allocate(std::size_t bytes, Target target) {
  const auto own = [this](std::unique_ptr<Segment> s) {
    if (!s->in_file()) in_use_ += s->capacity();
    // Segments may outlive the stores' world, but not the pool.
    return std::shared_ptr<Segment>(s.release(), [pool = shared_from_this()](Segment* freed) { pool->Free(freed); });
  };
  if (target == Target::kFile || (target == Target::kAutomatic && (bytes > limit_ || in_use_ > limit_ - bytes))) {
    auto file = Segment::File(bytes, files_);
    if (!file) return file.status();
    return own(std::move(*file));
  }
  if (const auto it = free_.lower_bound(bytes); it != free_.end() && it->first <= bytes + bytes / 4 + kPage) {
    std::unique_ptr<Segment> s = std::move(it->second);
    free_.erase(it);
    free_bytes_ -= s->capacity();
    return own(std::move(s));
  }
  // Kept memory must not make the process larger than its stores alone have ever been.
  largest_use_ = std::max(largest_use_, in_use_ + bytes);
  while (!free_.empty() && in_use_ + free_bytes_ + bytes > largest_use_) {
    const auto largest = std::prev(free_.end());
    free_bytes_ -= largest->first;
    free_.erase(largest);
  }
  auto fresh = Segment::Anonymous(bytes);
  if (!fresh) return fresh.status();
  return own(std::move(*fresh));
}

void MemoryPool::Free(Segment* segment) {
  std::unique_ptr<Segment> s(segment);
  if (s->in_file()) return;
  in_use_ -= s->capacity();
  if (s->fragmented() || free_bytes_ + s->capacity() > keep_) return;
  const std::size_t bytes = s->capacity();
  try {
    free_.emplace_hint(free_.lower_bound(bytes), bytes, std::move(s));
  } catch (...) {
    return;  // then it is not kept: this runs in destructors
  }
  free_bytes_ += bytes;
}

void MemoryPool::Trim() {
  free_.clear();
  free_bytes_ = 0;
}

}  // namespace harrow::multiview
