#include "agent/memory_watch.h"

#include <vector>

#include "os/process.h"

namespace harrow::agent {

bool MemoryWatch::Exceeded() const {
  if (!on()) return false;
  std::vector<pid_t> processes = {pid_};
  for (const os::Process& process : os::Descendants(pid_)) processes.push_back(process.pid);
  // Resident memory counts shared pages once a process, so it is never too small; it costs little to read.
  uint64_t resident = 0;
  for (pid_t pid : processes) resident += os::ResidentMemory(pid);
  if (resident <= limit_) return false;
  uint64_t proportional = 0;
  for (pid_t pid : processes) proportional += os::ProportionalMemory(pid);
  return proportional > limit_;
}

}  // namespace harrow::agent
