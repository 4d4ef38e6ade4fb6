// Fencing: nothing of a task runs after the page's time until a server has adopted the agent again. Fence
// (fence.h) knows that time, and Session renews it with every answer. Two act on it, and neither waits for
// the other.
//
// Each slot's thread (task_runner.cc) stops the processes of its own task at that time, also while the
// event loop hangs, and lets them go on when it sees the page renewed.
//
// The warden (warden.cc) stops all that is below it but the agent, a moment later, and looks again while
// the fence stands. Where the agent hangs it is the only one; else it finds what the slots cannot see,
// such as daemons whose parents have died. When the page is renewed it lets go on what it stopped itself.
// No log and no file is in its way, so that storage which holds up the agent does not hold up the warden.
// It may have been stopped too, by whoever stopped the agent: then the kernel lets it go on for that look.
// Once tasks stand, a child of it shows life in the agent's record of outputs (made/record.cc): what tasks
// have made since their agent hung is removed before their next attempts all the same.
//
// Each continues exactly what it found running and stopped. So whoever was stopped by both goes on when
// both have let go, a process that the task itself had stopped stays so, and no word has to pass but the
// page.
//
// What may happen at the same time:
//
// A task begins while the fence comes. A slot begins nothing once the time has come; what remains is a
// stall between that look and the program's start. So the child looks again right before its exec
// (os/spawn.cc): a vfork child of an agent that is stopped runs on, and sees the time itself. What was
// begun before the time is below the agent, and the warden's looks go on until one finds nothing that
// runs: what is stopped does not fork. A look that stops a child before its exec makes its slot's thread
// wait until the page is renewed, or for the agent's end, which therefore does not wait for threads while
// the fence stands (agent.cc).
//
// The agent is answered while the warden stops its tasks. The warden reads the page after each look; it
// has been signalled meanwhile, sees the renewal at once, and continues all that it stopped.
//
// A slot decides to stop while the loop renews. The slot reads the page again before it waits, and is
// woken by every renewal that ends a stand; one of the two tells it.
//
// A task is ended while it stands (cancelled, or the agent leaves). It is killed without being continued:
// a SIGTERM would need a SIGCONT, and then what it does for its kill wait could follow another attempt's
// start. What a Welcome cancels has been killed before the page is renewed (SlotPool::RunUntil). One that
// got its SIGTERM before the time and still runs when it comes is killed too.
//
// Somebody else continues what stands (Slurm sends SIGCONT with its SIGTERM, and at `scontrol resume`).
// The warden stops it again at its next look.
//
// The agent dies while the fence stands. The warden ends all without SIGTERM; a new agent begins with no
// task.
//
// Somebody suspends the whole run (Ctrl-Z), or the whole job. The warden alone goes on, once its time has
// come, and lets nobody else go on while the agent stands: not even what it had stopped itself and was about
// to continue.
//
// Not covered: what a killed warden leaves while its keeper is stopped; a machine that stands still as a whole
// with its steady clock (a paused virtual machine) between a look at the clock and what follows it; an agent
// that hangs together with its warden where no SIGCONT helps, as when both wait in the kernel.
#include "agent/fence_page.h"

#include <csignal>
#include <new>
#include <sys/mman.h>

namespace harrow::agent {

static_assert(std::atomic<int64_t>::is_always_lock_free, "processes share it");

const int FencePage::kLookAgain = SIGCONT;

FencePage* FencePage::MakeShared() {
  void* memory = mmap(nullptr, sizeof(FencePage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory != MAP_FAILED ? new (memory) FencePage() : nullptr;
}

void FencePage::Reset(pid_t warden) {
  until_ns_.store(0);
  stood_ns_.store(0);
  warden_.store(warden);
  output_file_.store(0);
}

bool FencePage::Renew(Duration until, Duration now) {
  const Duration before = this->until();
  const bool stood = now >= before;
  if (until == before || (stood && now >= until)) return false;
  if (stood) stood_ns_.fetch_add((now - before).count());
  until_ns_.store(until == kNoFence ? 0 : until.count());
  // A later time alone is found when the one before has come.
  const bool look = stood || until < before;
  const pid_t warden = warden_.load();
  if (look && warden > 0) kill(warden, kLookAgain);
  return look;
}

}  // namespace harrow::agent
