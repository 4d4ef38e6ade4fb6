// Waiting. A process that waits for another one of its node looks a few times, then sleeps on a futex, so that with more
// processes than cores the one that is waited for gets the core at once. It wakes every millisecond to let MPI make progress:
// a message of the application may be what the other process waits for.
#include "multiview/control.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <new>

namespace harrow::multiview {
namespace {

constexpr std::size_t kLine = 128;
constexpr std::size_t RoundToLine(std::size_t n) { return (n + kLine - 1) / kLine * kLine; }

bool Reached(const std::atomic<std::uint32_t>& word, std::uint32_t target) {
  return static_cast<std::int32_t>(word.load(std::memory_order_acquire) - target) >= 0;
}

}  // namespace

Control::Control(MPI_Comm node, MPI_Comm progress) : progress_(progress) {
  int rank, size;
  MPI_Comm_rank(node, &rank);
  MPI_Comm_size(node, &size);
  const std::size_t bytes = RoundToLine(sizeof(Head)) + size * RoundToLine(sizeof(Offer)) + kLine;
  void* base = nullptr;
  if (MPI_Win_allocate_shared(rank == 0 ? static_cast<MPI_Aint>(bytes) : 0, 1, MPI_INFO_NULL, node, &base, &window_) !=
      MPI_SUCCESS) {
    return;
  }
  MPI_Aint size_of_first;
  int unit;
  MPI_Win_shared_query(window_, 0, &size_of_first, &unit, &base);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
  auto* start = reinterpret_cast<std::byte*>((reinterpret_cast<std::size_t>(base) + kLine - 1) / kLine * kLine);
  offers_ = start + RoundToLine(sizeof(Head));
  if (rank == 0) {
    std::memset(static_cast<void*>(start), 0, bytes - kLine);
    new (start) Head{};
    for (int r = 0; r < size; ++r) new (offers_ + r * RoundToLine(sizeof(Offer))) Offer{};
  }
  MPI_Win_sync(window_);
  MPI_Barrier(node);
  MPI_Win_sync(window_);
  head_ = reinterpret_cast<Head*>(start);
  spins_ = sysconf(_SC_NPROCESSORS_ONLN) >= size ? 2000 : 0;
}

Control::~Control() {
  if (window_ == MPI_WIN_NULL) return;
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
}

Control::Offer& Control::offer(int node_rank) {
  return *reinterpret_cast<Offer*>(offers_ + node_rank * RoundToLine(sizeof(Offer)));
}

void Control::Await(std::atomic<std::uint32_t>& word, std::atomic<std::uint32_t>& sleepers, std::uint32_t target) {
  for (int i = 0; i < spins_; ++i) {
    if (Reached(word, target)) return;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  sched_yield();
  while (!Reached(word, target)) {
    sleepers.fetch_add(1);
    const std::uint32_t seen = word.load();
    if (static_cast<std::int32_t>(seen - target) < 0) {
      const timespec millisecond{0, 1'000'000};
      syscall(SYS_futex, &word, FUTEX_WAIT, seen, &millisecond, nullptr, 0);
    }
    sleepers.fetch_sub(1);
    if (Reached(word, target)) return;
    int there;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, progress_, &there, MPI_STATUS_IGNORE);
  }
}

void Control::Wake(std::atomic<std::uint32_t>& word, std::atomic<std::uint32_t>& sleepers) {
  if (sleepers.load() > 0) syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

}  // namespace harrow::multiview
