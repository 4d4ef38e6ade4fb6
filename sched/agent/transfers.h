#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/fetches.h"
#include "agent/peer_gate.h"
#include "agent/peers.h"
#include "agent/source_index.h"
#include "base/ids.h"
#include "base/status.h"
#include "store/store.h"

namespace harrow::agent {

/// Brings files into this node's store, from other nodes and from the submit directory, and gives other nodes
/// what they ask for, on threads of its own: whoever uses it waits for nothing but its destructor. From any
/// thread.
class Transfers {
 public:
  struct Wanted {
    FileId file{};
    std::optional<store::Object> object{};  // where it is known
    std::string path{};                     // absolute, in the submit directory
    NodeId from{};                          // none: it is read from `path`
    bool listed = false;                    // what is there has to be `object`, and nobody else is told of it
  };
  struct Outcome {
    FileId file{};
    /// kUnavailable: the node cannot be reached, hangs, or does not get it itself. kNotFound: it says that it
    /// has not got it (or: nothing is at `path`). kDamaged: what it sent is not that content, and was
    /// dropped; or what is at `path` is not `object`. kExhausted: no room here. kInvalid: what is at `path`
    /// is neither file nor directory.
    Status status{};
    store::Object object{};
    NodeId from{};
    int64_t fetched_bytes = 0;
    std::string source{};  // SourceOf, of what was read from the submit directory
    std::optional<store::Object> listed{};  // what it had to be (Wanted::listed)
  };
  using Done = std::function<void(Outcome)>;
  struct Options {
    PeersOptions peers{};
    Fetches::Limits limits{};
    size_t workers = 4;              // threads that read from the submit directory and check large files
    SourceIndex* sources = nullptr;  // of the store: what it names need not be read again
  };
  struct Figures {
    int64_t served_bytes = 0;  // to other nodes
  };

  virtual ~Transfers() = default;  // who was not called back is not
  /// `store` outlives it.
  static Result<std::unique_ptr<Transfers>> Start(store::Store* store, const Options& options);

  /// Where other agents find this one, for the server.
  virtual const std::vector<std::string>& addresses() const = 0;
  virtual void Know(NodeId node, std::vector<std::string> addresses, uint64_t incarnation) = 0;
  virtual void Forget(NodeId node) = 0;
  virtual void SetCredentials(const wire::Credentials& credentials) = 0;
  /// Others of this node speak with other agents, too, by a gate that outlives this.
  virtual void Share(PeerGate* gate) = 0;

  /// `done` is called once, on a thread of this, unless it is abandoned before. The same object again, from
  /// another node: it goes on from there with what is here.
  virtual void Fetch(Wanted wanted, Done done) = 0;
  /// What has come of it from another node is dropped, unless it is wanted as another file, too. What is read
  /// from the submit directory may be read to its end, and stays.
  virtual void Abandon(FileId file) = 0;
  virtual Figures figures() = 0;
};

}  // namespace harrow::agent
