#pragma once

#include <string>
#include <vector>

#include "support/told_scheduler.h"

namespace harrow::test {

/// A ToldScheduler whose files lie on the nodes' own disks (Options::local_files), first come first served.
class LocalScheduler : public ToldScheduler {
 public:
  static constexpr uint32_t kNobody = UINT32_MAX;

  explicit LocalScheduler(core::Options options = {}) : ToldScheduler(With(options)) {}

  std::string Stored(const std::string& file, uint32_t node, int64_t bytes = 100) {
    return Tell(core::FileStored{File(file), NodeId(node), bytes});
  }
  /// The task is done, and its node holds what it made.
  std::string Made(const std::string& task, uint32_t node, const Words& files) {
    std::vector<core::Event> events;
    for (const std::string& file : files) events.push_back(core::FileStored{File(file), NodeId(node), 100});
    events.push_back(core::TaskEnded{Latest(task), NodeId(node), core::Done{}, std::chrono::seconds(1)});
    return TellAll(events);
  }
  /// A copy did not come; from kNobody: out of the submit directory.
  std::string Failed(const std::string& file, uint32_t to, uint32_t from, core::CopyFailed::Why why) {
    return Tell(core::CopyFailed{File(file), NodeId(to), from == kNobody ? NodeId() : NodeId(from), why});
  }
  std::string After(Duration time) {
    now += time;
    return Tell(core::TimeCame{});
  }

 private:
  static core::Options With(core::Options options) {
    options.policy = order::Policy::kFifo;
    options.shared_files = false;
    options.local_files = true;
    return options;
  }
};

}  // namespace harrow::test
