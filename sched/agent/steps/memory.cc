#include "agent/steps/memory.h"

namespace harrow::agent {
namespace {

constexpr int kOomScore = 500;
constexpr int64_t kPeakDoubt = 16;  // a part of it: the kernel's counts of resident pages are not exact

}  // namespace

Status Memory::Prepare(Launch* launch, TaskResult*) {
  launch->request.oom_score_adj = launch->task.profile->spec().memory > 0 ? kOomScore : 0;
  return {};
}

int64_t OwnPeak(int64_t counted_kib, int64_t starter_kib) {
  const int64_t doubtful = starter_kib + starter_kib / kPeakDoubt;
  return counted_kib > doubtful ? counted_kib : -doubtful;
}

}  // namespace harrow::agent
