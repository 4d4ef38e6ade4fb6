#pragma once

#include <functional>
#include <string>

#include "agent/agent.h"
#include "base/status.h"
#include "base/time.h"
#include "os/posix_files.h"

namespace harrow::agent {

/// What a command of the node writes. Its end is kept; what the command leaves running may go on writing,
/// into nothing: it is read now and then, so that it neither fills memory nor waits for good.
class NodeOutput {
 public:
  /// The end to write to, the caller's; -1: there are no descriptors.
  int Open();
  /// Takes what is there, up to an amount.
  void Read();
  /// May somebody still write?
  bool open() const { return fd_.ok(); }
  const std::string& end() const { return end_; }

 private:
  os::Fd fd_;
  std::string end_;
};

struct NodeCommand {
  const char* key;  // for messages
  const std::string& text;
  bool at_end;  // what ends the job's processes (SIGTERM) is not meant for it
};

/// Runs a command of the run on this node, with the shell, in the submit directory. `wait`: waits for a signal (SIGCHLD among them) as long as it is told to; true: the command is
/// to end now. What is wrong is one line, the last that the command wrote among it; the end of that goes to
/// the log. Of a process that has blocked its signals, and a child subreaper. `output`: to be read from then
/// on while it is open.
Status RunNodeCommand(const NodeCommand& command, const NodeCommands& run, const std::string& node,
                      const std::function<bool(Duration at_most)>& wait, NodeOutput* output);

}  // namespace harrow::agent
