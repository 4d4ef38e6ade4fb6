// Cost of a call of the agent's core: what a slot's thread pays between two tasks (Settled, and the next task
// given to it), and what the conversation with the server pays a task (Sent, one in ten TakenBack, one in ten
// told as started, with a time limit and memory that is looked at). 64 slots, 128 tasks waiting, one thread.
// Also whether it allocates then.
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string_view>
#include <vector>

#include "agent/core/core.h"
#include "figure.h"

namespace {

uint64_t allocations = 0;

using namespace harrow;

constexpr uint32_t kSlots = 64, kWaiting = 128;

class Load {
 public:
  Load() : core_({.numa_of_slot = std::vector<uint32_t>(kSlots), .devices = 4, .memory = uint64_t{1} << 40}) {
    for (uint32_t i = 0; i < kSlots + kWaiting; ++i) Send();
  }
  /// A task comes, sometimes one is taken back, one ends and the next begins.
  void Cycle(uint32_t round) {
    Send();
    if (round % 10 == 0) {
      Tell(agent::TakenBack{{TaskId(sent_ - 1), 1}});
      Send();
    }
    const uint32_t slot = round * 7 % kSlots;
    if (round % 10 == 5) {
      Tell(agent::ProcessStarted{slot, now_});
      Tell(agent::MemorySeen{slot, 1});
    }
    Tell(agent::Settled{slot});
    if (core_.given(slot) == nullptr) std::abort();
    now_ += Duration(1000);
  }
  uint64_t calls() const { return calls_; }

 private:
  void Send() {
    agent::Needs needs;
    if (sent_ % 10 == 0) needs.memory = 1 << 20;
    if (sent_ % 10 == 5) needs.time_limit = std::chrono::hours(1);
    Tell(agent::Sent{{TaskId(sent_), 1}, needs, sent_});
    ++sent_;
  }
  void Tell(const agent::Event& event) {
    actions_.clear();
    core_.Handle(now_, event, &actions_);
    ++calls_;
  }

  agent::Core core_;
  std::vector<agent::Action> actions_;
  Time now_{};
  uint32_t sent_ = 0;
  uint64_t calls_ = 0;
};

}  // namespace

void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const uint32_t rounds = quick ? 300'000 : 3'000'000;
  std::vector<double> each;
  uint64_t allocated = 0;
  for (int run = 0; run < 5; ++run) {
    Load load;
    for (uint32_t i = 0; i < 10'000; ++i) load.Cycle(i);
    const uint64_t calls = load.calls(), allocations_before = allocations;
    const double began = perf::ThreadSeconds();
    for (uint32_t i = 0; i < rounds; ++i) load.Cycle(i);
    const double seconds = perf::ThreadSeconds() - began;
    allocated += allocations - allocations_before;
    each.push_back(seconds / static_cast<double>(load.calls() - calls) * 1e6);
  }
  perf::Figure("agent_core.call", perf::Median(each), "CPU us", 0.5);
  perf::Figure("agent_core.allocations", static_cast<double>(allocated), "after the first 10 000 tasks", 0);
  return perf::Status();
}
