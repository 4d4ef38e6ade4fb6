#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/ids.h"
#include "base/resources.h"
#include "base/time.h"
#include "wire/channel.h"
#include "wire/harrow.pb.h"

namespace harrow::server {

/// A node as the server sees it: its present agent, if any, and what is to be sent to it next.
struct Node {
  NodeId id;
  std::string name;
  std::string topology;  // one line for people
  NodeCapacity capacity;
  uint64_t incarnation = 0;
  uint64_t earlier_incarnation = 0;  // the last that an earlier server knew
  uint32_t incarnations = 0;         // agents seen
  uint32_t output_file = 0;
  int64_t joined_ns = 0;
  uint32_t session_slots = 0;  // 0: it has not joined in this session
  bool joined = false;         // the scheduler knows it
  bool silent = false;         // and gives it nothing, as nothing is heard of it or it is to end
  bool leaving = false;        // its agent has said that it ends
  bool put_aside = false;      // nothing is started there any more
  std::string unfit;           // why, when its agent says so
  uint32_t silent_ticks = 0;
  Time heard{};           // its agent, last
  bool suspect = false;   // was silent too long when it was last looked at
  bool given_up = false;  // not expected back any more
  uint64_t ended = 0;     // attempts
  std::shared_ptr<wire::Channel> channel;
  /// An agent that waits for this one to end, to take its place.
  struct Successor {
    std::shared_ptr<wire::Channel> channel;
    pb::FromAgent message;  // its hello
    Time since{};
  };
  std::unique_ptr<Successor> successor;
  std::vector<uint64_t> replaced;  // incarnations that have lost their place
  std::vector<bool> profiles_sent;
  std::vector<std::string> peer_addresses;  // where other agents find it; none: it keeps no files
  std::unordered_set<NodeId> peers;         // those that it was to get files from, or they from it
  pb::ToAgent outbox;
  bool outbox_used = false;
  /// What the journal has on disk when the node's number is: its agent, and others by it, go by that number until they end, so none is
  /// told it before a server that follows would know it. 0: it is on disk, or nobody goes by it yet; none: it is in no record.
  std::optional<uint64_t> number_at;
  bool MayBeTold(uint64_t on_disk) const { return number_at && *number_at <= on_disk; }
  uint64_t acknowledged = 0;  // results on disk of which its agent is still to be told; 0: none
};

/// All nodes of a run by id and name. Names keep their ids over agents' and servers' lives.
class NodeTable {
 public:
  Node& Named(const std::string& name);
  Node* Find(NodeId id) { return id.value < nodes_.size() ? nodes_[id.value].get() : nullptr; }
  const Node* Find(NodeId id) const { return id.value < nodes_.size() ? nodes_[id.value].get() : nullptr; }
  const Node* FindNamed(const std::string& name) const;
  const std::vector<std::unique_ptr<Node>>& all() const { return nodes_; }
  /// To be sent with the next SendAll.
  pb::ToAgent& Outbox(Node& node);
  /// What the agent sent up to `sequence` is on disk. Told with whatever is sent to it next, at the latest
  /// after SendAcknowledgements.
  void Acknowledge(Node& node, uint64_t sequence) { node.acknowledged = sequence; }
  /// Gives those that had nothing else to be told a message with the next SendAll. True: there are some.
  bool SendAcknowledgements();
  /// One message to each node that has something to be told; what is for a node without an agent is dropped. What is for one whose
  /// number is not on disk, which has all up to `on_disk`, waits.
  void SendAll(uint64_t on_disk);
  /// Something waits that need not any more.
  bool MaySendMore(uint64_t on_disk) const;
  size_t connected_count() const;
  uint32_t joined_slots() const;
  size_t joined_count() const;

 private:
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::string, NodeId> by_name_;
  std::vector<NodeId> used_;  // nodes with an outbox in use
  std::string buffer_;
};

}  // namespace harrow::server
