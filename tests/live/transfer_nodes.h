#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "agent/transfers.h"
#include "store/store.h"
#include "support/own_directory.h"

namespace harrow::test {

inline std::string RandomBytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size + 8, '\0');
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = random();
    memcpy(bytes.data() + i, &word, 8);
  }
  bytes.resize(size);
  return bytes;
}

/// Outcomes of fetches, which can be waited for.
class Outcomes {
 public:
  agent::Transfers::Done Expect() {
    std::lock_guard lock(mutex_);
    ++expected_;
    return [this](agent::Transfers::Outcome outcome) {
      std::lock_guard l(mutex_);
      outcomes_.push_back(std::move(outcome));
      changed_.notify_all();
    };
  }
  /// All that were expected so far; false when they do not come.
  bool Wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return outcomes_.size() >= expected_; });
  }
  std::vector<agent::Transfers::Outcome> Take() {
    std::lock_guard lock(mutex_);
    expected_ = 0;
    return std::exchange(outcomes_, {});
  }
  size_t came() {
    std::lock_guard lock(mutex_);
    return outcomes_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<agent::Transfers::Outcome> outcomes_;
  size_t expected_ = 0;
};

/// A store and its transfers, as an agent has them.
class TransferNode {
 public:
  TransferNode(uint32_t id, const std::string& directory, agent::Transfers::Options options, bool encrypt,
               const store::Options& store_options = {})
      : id_(id) {
    auto store = store::Store::Open(directory, store_options);
    if (!store.ok()) Fail(store.status());
    store_ = *std::move(store);
    options.peers.self = NodeId(id);
    options.peers.incarnation = 1000 + id;
    options.peers.credentials = {.run_id = "run-1", .key = std::string(32, 'k')};
    if (options.peers.hosts.empty()) options.peers.hosts = {"127.0.0.1"};
    options.peers.encrypt = encrypt;
    auto transfers = agent::Transfers::Start(store_.get(), options);
    if (!transfers.ok()) Fail(transfers.status());
    transfers_ = *std::move(transfers);
  }
  ~TransferNode() {
    transfers_.reset();
    store_->Erase();
  }
  /// Both know of each other; `by`: where this one finds the other.
  void Meet(TransferNode& other, const std::string& by = {}) {
    transfers_->Know(NodeId(other.id_), {by.empty() ? other.transfers_->addresses().front() : by},
                     1000 + other.id_);
    other.transfers_->Know(NodeId(id_), transfers_->addresses(), 1000 + id_);
  }
  agent::Transfers& transfers() { return *transfers_; }
  store::Store& store() { return *store_; }
  NodeId id() const { return NodeId(id_); }
  void EndTransfers() { transfers_.reset(); }

  /// A new file that is here.
  store::Object Put(const OwnDirectory& outside, const std::string& content) {
    // A name of its own, not removed: ext4 writes a file that is truncated to the disk at once, and looks
    // long for an inode where many were freed just now.
    const std::string path = outside.path() + "/put" + std::to_string(++puts_);
    std::ofstream(path, std::ios::binary) << content;
    auto object = store_->CopyIn(path);
    if (!object.ok()) Fail(object.status());
    return *object;
  }
  void Fetch(const store::Object& object, NodeId from, Outcomes* outcomes, uint32_t file = 0) {
    transfers_->Fetch({.file = FileId(file), .object = object, .from = from}, outcomes->Expect());
  }
  std::string Content(const store::ObjectId& id) {
    auto reader = store_->Read(id);
    if (!reader.ok()) return reader.status().message();
    std::string bytes(static_cast<size_t>((*reader)->bytes()), '\0');
    const ssize_t got = pread((*reader)->fd(), bytes.data(), bytes.size(), 0);
    bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return bytes;
  }

 private:
  static void Fail(const Status& why) {
    fprintf(stderr, "%s\n", why.message().c_str());
    abort();
  }
  const uint32_t id_;
  int puts_ = 0;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<agent::Transfers> transfers_;
};

}  // namespace harrow::test
