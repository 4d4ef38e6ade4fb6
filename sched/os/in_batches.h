#pragma once

#include <pthread.h>
#include <sched.h>

namespace harrow::os {

/// As long as it is there, its thread, which moves what others write, does not put these aside for each piece of it (SCHED_BATCH): there is
/// more to be moved at a time then, for fewer switches. A thread of another class than the usual one stays in it. Processes that the thread starts meanwhile are treated alike.
class InBatches {
 public:
  explicit InBatches(bool on = true) : on_(on && sched_getscheduler(0) == SCHED_OTHER) {
    if (on_) Set(SCHED_BATCH);
  }
  ~InBatches() {
    if (on_) Set(SCHED_OTHER);
  }
  InBatches(const InBatches&) = delete;
  InBatches& operator=(const InBatches&) = delete;

 private:
  static void Set(int policy) {
    const sched_param none{};
    pthread_setschedparam(pthread_self(), policy, &none);
  }
  const bool on_;
};

}  // namespace harrow::os
