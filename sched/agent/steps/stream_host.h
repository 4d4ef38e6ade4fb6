#pragma once

#include <memory>

#include "agent/steps/task.h"
#include "base/ids.h"
#include "base/status.h"
#include "stream/log.h"

namespace harrow::agent {

/// What attempts with streams need of their node (agent/stream_port.h).
class StreamHost {
 public:
  virtual ~StreamHost() = default;

  // From any thread, which is not kept waiting:
  /// The attempt is here, until Leave.
  virtual void Join(const LocalTask& task) = 0;
  virtual void Leave(AttemptId attempt) = 0;

  // From the thread of the attempt's slot, before its process begins:
  /// Where what it writes is kept. Again: it has not begun, and does so now.
  virtual Result<std::shared_ptr<stream::Log>> Write(AttemptId attempt) = 0;
  /// What it reads comes into `pipe`, a descriptor of this thread, of which another one has made its own when
  /// this returns. Again: as for Write.
  virtual Status Feed(AttemptId attempt, int pipe) = 0;

  // From that thread:
  /// Who waits for more of a log (Log::TakeWatch) is to be told.
  virtual void Grown(AttemptId attempt) = 0;
  /// It has ended, and so it will be told, but for what this changes: a reader of what is void has not
  /// succeeded.
  virtual void Settle(const LocalTask& task, TaskResult* result) = 0;
  /// A descriptor that the thread keeps, for the calls above.
  virtual int wake_fd() const = 0;
};

}  // namespace harrow::agent
