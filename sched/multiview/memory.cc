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

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kWorthExchanging = 128 << 10;

std::size_t RoundUp(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }
std::size_t Address(const void* p) { return reinterpret_cast<std::size_t>(p); }

std::byte* Map(std::size_t bytes, int protection) {
  void* p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
}

// An address range to pass pages through, aligned to huge pages, kept for the life of the process.
std::byte* Passage(std::size_t bytes) {
  static std::byte* range = nullptr;
  static std::size_t size = 0;
  if (size < bytes) {
    if (range) munmap(range, size);
    size = RoundUp(bytes, kHugePage) + 2 * kHugePage;
    range = Map(size, PROT_NONE);
    if (!range) {
      size = 0;
      return nullptr;
    }
    const std::size_t head = RoundUp(Address(range), kHugePage) - Address(range);
    if (head > 0) munmap(range, head);
    range += head;
    size -= head;
  }
  return range;
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
  // One page more than needed for AlignLike, and another to begin on a boundary.
  std::size_t size = RoundUp(capacity, kPage) + 2 * s->page_;
  s->map_ = Map(size, PROT_READ | PROT_WRITE);
  if (!s->map_) return NoMemory(capacity);
  const std::size_t head = RoundUp(Address(s->map_), s->page_) - Address(s->map_);
  if (head > 0) munmap(s->map_, head);
  s->map_ += head;
  s->mapped_ = size - head;
  s->data_ = s->map_;
  if (s->page_ == kHugePage) madvise(s->map_, s->mapped_, MADV_HUGEPAGE);
  return s;
}

Result<std::unique_ptr<Segment>> Segment::File(std::size_t capacity, const std::string& directory) {
  std::unique_ptr<Segment> s(new Segment);
  const auto fail = [&](const char* what) {
    return Status(Code::kStorage, std::string(what) + " " + std::to_string(capacity) + " bytes in " + directory + ": " +
                                      std::strerror(errno));
  };
  s->file_ = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (s->file_ < 0) {
    std::string name = directory + "/multiview-XXXXXX";
    s->file_ = mkostemp(name.data(), O_CLOEXEC);
    if (s->file_ < 0) return fail("cannot create a file of");
    unlink(name.c_str());
  }
  // Taking the space now turns a full disk into an error here instead of a SIGBUS later.
  if (int e = posix_fallocate(s->file_, 0, static_cast<off_t>(std::max<std::size_t>(capacity, 1))); e != 0) {
    errno = e;
    return fail("no space for");
  }
  s->page_ = kPage;
  s->capacity_ = capacity;
  s->mapped_ = RoundUp(std::max<std::size_t>(capacity, 1), kPage);
  void* p = mmap(nullptr, s->mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, s->file_, 0);
  if (p == MAP_FAILED) {
    s->mapped_ = 0;
    return fail("cannot map");
  }
  s->map_ = s->data_ = static_cast<std::byte*>(p);
  return s;
}

Segment::~Segment() {
  if (map_) munmap(map_, mapped_);
  if (file_ >= 0) close(file_);
}

void Segment::AlignLike(const std::byte* address) {
  if (file_ >= 0) return;
  data_ = map_ + Address(address) % page_;
}

void Segment::Discard(std::size_t offset, std::size_t bytes) {
  const std::size_t begin = RoundUp(Address(data_ + offset), kPage);
  const std::size_t end = Address(data_ + offset + bytes) / kPage * kPage;
  if (begin >= end) return;
  void* at = reinterpret_cast<void*>(begin);
  if (file_ < 0) {
    madvise(at, end - begin, MADV_DONTNEED);
  } else {
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin - Address(map_)),
              static_cast<off_t>(end - begin));
  }
}

void Segment::Unload() {
  if (file_ >= 0) madvise(map_, mapped_, MADV_DONTNEED);
}

bool Segment::CanExchange(const Segment& from, std::size_t from_offset, const Segment& to, std::size_t to_offset,
                          std::size_t bytes) {
  return bytes >= kWorthExchanging && from.file_ < 0 && to.file_ < 0 && !from.fragmented() && !to.fragmented() &&
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
    : limit_(options.memory_limit), keep_(options.keep_bytes), directory_(options.directory) {
  for (const char* name : {"HARROW_MULTIVIEW_DIR", "TMPDIR"}) {
    const char* value = std::getenv(name);
    if (directory_.empty() && value && *value) directory_ = value;
  }
  if (directory_.empty()) directory_ = "/tmp";
}

Result<std::shared_ptr<Segment>> MemoryPool::Allocate(std::size_t bytes, Target target) {
  const auto own = [this](std::unique_ptr<Segment> s) {
    if (s->file() < 0) in_use_ += s->capacity();
    // Segments may outlive the stores' world, but not the pool.
    return std::shared_ptr<Segment>(s.release(), [pool = shared_from_this()](Segment* freed) { pool->Free(freed); });
  };
  if (target == Target::kFile || (target == Target::kAutomatic && (bytes > limit_ || in_use_ > limit_ - bytes))) {
    auto file = Segment::File(bytes, directory_);
    if (!file) return file.status();
    return own(std::move(*file));
  }
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if ((*it)->capacity() >= bytes && (*it)->capacity() <= bytes + bytes / 4 + kPage) {
      std::unique_ptr<Segment> s = std::move(*it);
      free_.erase(it);
      free_bytes_ -= s->capacity();
      return own(std::move(s));
    }
  }
  // Kept memory must not make the process larger than its stores alone have ever been.
  largest_use_ = std::max(largest_use_, in_use_ + bytes);
  while (!free_.empty() && in_use_ + free_bytes_ + bytes > largest_use_) {
    free_bytes_ -= free_.back()->capacity();
    free_.pop_back();
  }
  auto fresh = Segment::Anonymous(bytes);
  if (!fresh) return fresh.status();
  return own(std::move(*fresh));
}

void MemoryPool::Free(Segment* segment) {
  std::unique_ptr<Segment> s(segment);
  if (s->file() >= 0) return;
  in_use_ -= s->capacity();
  if (s->fragmented() || free_bytes_ + s->capacity() > keep_) return;
  free_bytes_ += s->capacity();
  free_.push_front(std::move(s));
}

void MemoryPool::Trim() {
  free_.clear();
  free_bytes_ = 0;
}

}  // namespace harrow::multiview
