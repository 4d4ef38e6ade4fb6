#include "agent/steps/gangs.h"

#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/time.h"

namespace harrow::agent {
namespace {

constexpr Duration kLookWhetherInVain = std::chrono::milliseconds(50);

}  // namespace

Status Gangs::MeetAndWait(AttemptId attempt, Meeting meeting, const InVain& in_vain) {
  struct Waiting {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Status> outcome;  // of mutex
  };
  const auto waiting = std::make_shared<Waiting>();  // who meets may come after who has waited in vain
  Meet(attempt, meeting, {}, {}, [waiting](const Result<std::string>& data) {
    std::lock_guard lock(waiting->mutex);
    waiting->outcome = data.ok() ? Status() : data.status();
    waiting->changed.notify_all();
  });
  std::unique_lock lock(waiting->mutex);
  while (!waiting->changed.wait_for(lock, kLookWhetherInVain, [&] { return waiting->outcome.has_value(); })) {
    lock.unlock();
    if (in_vain()) return Status(Code::kUnavailable, "the other nodes of the task were waited for in vain");
    lock.lock();
  }
  return *waiting->outcome;
}

}  // namespace harrow::agent
