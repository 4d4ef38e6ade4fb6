// What stops a process discards a SIGCONT that has not been taken, and the timer that sent it with it. So
// there are more timers, for a process that is stopped again as it is about to go on, before it has set its
// next time. Nothing helps who is stopped every millisecond.
#include "os/alarm.h"

#include <csignal>

#include "os/clock.h"

namespace harrow::os {
namespace {

constexpr Duration kApart = std::chrono::milliseconds(370);  // at first; then twice as far each time

}  // namespace

Alarm::Alarm() {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGCONT;
  for (std::optional<timer_t>& timer : timers_) {
    timer_t made{};
    if (timer_create(CLOCK_MONOTONIC, &event, &made) == 0) timer = made;
  }
}

Alarm::~Alarm() {
  for (const std::optional<timer_t>& timer : timers_) {
    if (timer) timer_delete(*timer);
  }
}

void Alarm::Set(Duration steady) {
  Duration apart = kApart;
  for (const std::optional<timer_t>& timer : timers_) {
    const itimerspec at = {.it_interval = {}, .it_value = TimespecOf(steady)};
    if (timer) timer_settime(*timer, TIMER_ABSTIME, &at, nullptr);
    steady += apart;
    apart *= 2;
  }
}

}  // namespace harrow::os
