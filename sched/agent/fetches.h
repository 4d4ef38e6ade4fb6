#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/peers.h"
#include "base/ids.h"
#include "os/event_loop.h"
#include "store/store.h"

namespace harrow::pb {
class Piece;
class PeerTransfer;
}  // namespace harrow::pb

namespace harrow::agent {

/// Gets objects from other agents into the store. Each file once, however many ask for it. Of the loop's
/// thread.
class Fetches {
 public:
  struct Limits {
    int64_t window = 8 << 20;                     // bytes asked for and not here yet, of one peer
    size_t requests = 128;                        // of one peer
    size_t large_files = 8;                       // of one peer at once; each has a descriptor
    Duration silence = std::chrono::seconds(15);  // nothing at all came from a peer: it hangs
    Duration stall = std::chrono::seconds(60);  // nothing of a file came, though its peer says that it comes
  };
  using Done = std::function<void(const Status& status, int64_t fetched_bytes)>;
  /// Runs `work` on another thread, and then `done` on the loop's.
  using Aside = std::function<void(std::function<void()> work, std::function<void()> done)>;

  Fetches(os::EventLoop* loop, Peers& peers, store::Store& store, Aside aside, const Limits& limits);
  ~Fetches();

  /// Called when the first of an object is in the store, and when it is not on its way any more.
  void SetCame(std::function<void(const store::ObjectId&)> came) { came_ = std::move(came); }
  bool Comes(const store::ObjectId& id) const { return files_.contains(id); }

  /// `done` is called once, never in this call; not after Unwant. An object that comes already from elsewhere
  /// goes on from `from`.
  uint64_t Want(const store::Object& object, NodeId from, Done done);
  void Unwant(uint64_t ticket);

  void Take(NodeId from, const pb::PeerTransfer& message, std::string_view data, bool sealed);
  void Gone(NodeId from, const Status& why);
  bool idle() const { return files_.empty() && directories_.empty(); }

 private:
  struct File;
  struct Directory;
  struct Source;
  struct Request;
  using FilePtr = std::shared_ptr<File>;
  using DirectoryPtr = std::shared_ptr<Directory>;

  // --- files
  void WantFile(uint64_t ticket, const store::Object& object, bool part, NodeId from, Done done);
  void UnwantFile(uint64_t ticket);
  void Enqueue(const FilePtr& file);
  void Detach(const FilePtr& file);
  void WakeSource(NodeId from);
  void Ask(NodeId from);
  FilePtr NextFile(Source* source);
  bool Begin(const FilePtr& file);
  void Heard(const FilePtr& file, Request* request, const pb::Piece& piece, std::string_view data);
  void CheckWhole(const FilePtr& file);
  void Finished(const FilePtr& file, Status status);
  // --- directories
  void ListingCame(const DirectoryPtr& directory, const Status& status, int64_t bytes);
  void PartCame(const DirectoryPtr& directory, uint64_t ticket, const Status& status, int64_t bytes);
  void DirectoryEnded(const DirectoryPtr& directory, const Status& status);
  // --- peers that hang
  void Look();
  void FailAllOf(NodeId from, const Status& why);

  os::EventLoop* const loop_;
  Peers& peers_;
  store::Store& store_;
  const Aside aside_;
  const Limits limits_;
  std::function<void(const store::ObjectId&)> came_;
  uint64_t last_ticket_ = 0, last_request_ = 0;
  std::unordered_map<store::ObjectId, FilePtr> files_;
  std::unordered_map<uint64_t, FilePtr> file_of_;           // by ticket
  std::unordered_map<uint64_t, DirectoryPtr> directories_;  // by ticket
  std::unordered_map<NodeId, std::unique_ptr<Source>> sources_;
  std::unordered_map<uint64_t, Request> requests_;
  os::EventLoop::TimerId look_timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace harrow::agent
