#pragma once

#include <mpi.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>

namespace harrow::multiview {

/// Words shared by the processes of one node, in an MPI-3 shared window.
class Control {
 public:
  /// A file as another process can find it: a number in /proc/PID/fd, and what must lie behind it.
  struct SharedFile {
    int descriptor;  // -1: none
    std::uint64_t device, inode;
  };
  using Secret = std::array<std::uint64_t, 2>;
  /// How a process is found by its node's readers, and how they know that it is the one: `secret`, random, is at `secret_at` in
  /// its memory.
  struct Identity {
    pid_t pid;
    std::uint64_t pid_space;  // the namespace in which `pid` counts; 0: not known
    Secret secret;
    std::uint64_t secret_at;
    SharedFile test;
  };
  /// What a process offers to its node's readers.
  struct Offer {
    std::atomic<std::uint32_t> number;
    std::atomic<std::uint32_t> sleepers;
    SharedFile file;  // if any, the elements are there from `start` on, else in memory
    std::uint64_t start;
    Identity identity;
  };
  /// What the node's processes say in an agreement. Whoever ends it empties this before it says so.
  struct Cell {
    std::atomic<std::uint32_t> arrived;
    std::atomic<std::uint32_t> sleepers;
    std::atomic<std::uint64_t> flags;
    std::atomic<std::int64_t> sum;
  };
  /// The result of the last agreement: of the next there is none before all have read it, and arrived there.
  struct Head {
    Cell cell;
    alignas(64) std::atomic<std::uint32_t> generation;
    std::atomic<std::uint32_t> sleepers;
    std::uint64_t flags;
    std::int64_t sum;
  };

  Control(MPI_Comm node, MPI_Comm progress);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  bool ok() const { return head_ != nullptr; }
  Head& head() { return *head_; }
  Offer& offer(int node_rank);
  /// Returns when `word` has reached `target` (as a serial number). `sleepers` lies beside it.
  void Await(std::atomic<std::uint32_t>& word, std::atomic<std::uint32_t>& sleepers, std::uint32_t target);
  void Wake(std::atomic<std::uint32_t>& word, std::atomic<std::uint32_t>& sleepers);

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  MPI_Comm progress_;
  Head* head_ = nullptr;
  std::byte* offers_ = nullptr;
  int spins_;
};

}  // namespace harrow::multiview
