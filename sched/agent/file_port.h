#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/local_files.h"
#include "agent/store_home.h"
#include "agent/transfers.h"
#include "base/status.h"
#include "store/store.h"
#include "wire/channel.h"

namespace harrow::pb {
class ToAgent;
class AgentHello;
class Welcome;
}  // namespace harrow::pb

namespace harrow::agent {

/// What the node holds of the run's files, in the agent's greeting.
void NameHeld(const HeldLog::Held& held, pb::AgentHello* hello);

/// The files of the flow on this node, as the server speaks of them: in its store, what goes between it and
/// other nodes, and which file is which. Of the loop's thread, but for what it makes.
class FilePort {
 public:
  struct Options {
    StoreHome* home = nullptr;  // outlives it
    bool stages = false;        // for later runs, and not for tasks
    uint64_t incarnation = 0;   // of this agent
    uint32_t slots = 1;         // of this node
    wire::PortRange ports = 0;
  };
  /// `address`: by which the server was reached; others find this node by the same network.
  static Result<std::unique_ptr<FilePort>> Open(const Options& options, const pb::Welcome& welcome,
                                                const std::string& address,
                                                const wire::Credentials& credentials,
                                                LocalFiles::Hooks hooks);

  LocalFiles* files() { return files_.get(); }
  const std::vector<std::string>& addresses() const { return transfers_->addresses(); }
  void SetCredentials(const wire::Credentials& credentials) { transfers_->SetCredentials(credentials); }
  /// Transfers::Share.
  void Share(PeerGate* gate) { transfers_->Share(gate); }
  /// Its peers, and what is to be dropped and brought.
  void Take(const pb::ToAgent& message);
  void NameHeld(pb::AgentHello* hello);
  /// Nothing comes or goes any more, and the hooks are called no more.
  void Stop() { transfers_.reset(); }

 private:
  FilePort() = default;

  std::string submit_dir_, exchange_;
  std::unique_ptr<LocalFiles> files_;
  std::unique_ptr<Transfers> transfers_;
};

}  // namespace harrow::agent
