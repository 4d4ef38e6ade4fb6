#pragma once

#include <functional>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/fetches.h"
#include "support/fake_event_loop.h"
#include "support/fake_peers.h"
#include "support/fake_store.h"
#include "wire/harrow.pb.h"

namespace harrow::agent {

inline std::string Content(size_t bytes, unsigned seed = 1) {
  std::string out(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>((i * 2654435761u + seed * 97) >> 11);
  return out;
}

/// Tells what was begun, and whether as a part of a directory only.
class BegunStore : public test::FakeStore {
 public:
  Result<std::unique_ptr<store::Arrival>> Begin(const store::Object& object, bool part) override {
    begun.emplace_back(object.id, part);
    return FakeStore::Begin(object, part);
  }
  std::vector<std::pair<store::ObjectId, bool>> begun;
};

class FetchesTest : public testing::Test {
 protected:
  struct End {
    Code code = Code::kOk;
    std::string why{};
    int64_t bytes = 0;
  };
  uint64_t Want(const store::Object& object, uint32_t from) {
    const size_t index = ends_.size();
    ends_.emplace_back();
    return fetches_.Want(object, NodeId(from), [this, index](const Status& status, int64_t bytes) {
      EXPECT_FALSE(ends_[index].has_value()) << "told twice";
      ends_[index] = End{status.code(), status.message(), bytes};
    });
  }
  /// What is asked for since the last call.
  std::vector<pb::PieceWanted> Asked() {
    loop_.RunPosted();
    std::vector<pb::PieceWanted> asked;
    unwanted_.clear();
    for (const pb::PeerTransfer& message : peers_.Take()) {
      asked.insert(asked.end(), message.wanted().begin(), message.wanted().end());
      unwanted_.insert(unwanted_.end(), message.unwanted().begin(), message.unwanted().end());
    }
    return asked;
  }
  /// Of one node, with the requests that it is to forget.
  std::vector<pb::PieceWanted> AskedOf(uint32_t node) {
    loop_.RunPosted();
    std::vector<pb::PieceWanted> asked;
    unwanted_.clear();
    for (const auto& sent : std::exchange(peers_.sent, {})) {
      const pb::PeerTransfer message = test::FakePeers::HeadOf(sent.bytes);
      if (sent.to != NodeId(node)) continue;
      asked.insert(asked.end(), message.wanted().begin(), message.wanted().end());
      unwanted_.insert(unwanted_.end(), message.unwanted().begin(), message.unwanted().end());
    }
    return asked;
  }
  void Give(uint32_t from, const pb::PieceWanted& wanted, const std::string& content, bool sealed = true) {
    pb::PeerTransfer message;
    pb::Piece* piece = message.add_piece();
    piece->set_request(wanted.request());
    piece->set_offset(wanted.offset());
    const std::string data =
        content.substr(static_cast<size_t>(wanted.offset()),
                       wanted.length() == 0 ? std::string::npos : static_cast<size_t>(wanted.length()));
    piece->set_length(static_cast<uint32_t>(data.size()));
    piece->set_object_bytes(static_cast<int64_t>(content.size()));
    fetches_.Take(NodeId(from), message, data, sealed);
  }
  void Refuse(uint32_t from, const pb::PieceWanted& wanted, Code code, bool sealed = true) {
    pb::PeerTransfer message;
    pb::Piece* piece = message.add_piece();
    piece->set_request(wanted.request());
    piece->set_error(static_cast<uint32_t>(code));
    piece->set_why("sorry");
    fetches_.Take(NodeId(from), message, "", sealed);
  }
  void SayComing(uint32_t from, const pb::PieceWanted& wanted) {
    pb::PeerTransfer message;
    pb::Piece* piece = message.add_piece();
    piece->set_request(wanted.request());
    piece->set_coming(true);
    fetches_.Take(NodeId(from), message, "", true);
  }
  const End& EndOf(size_t i) {
    loop_.RunPosted();
    static const End kNone{.code = Code::kInternal, .why = "not yet"};
    return ends_.at(i) ? *ends_.at(i) : kNone;
  }

  test::FakeEventLoop loop_;
  test::FakePeers peers_{&loop_, NodeId(0)};
  BegunStore store_;
  std::vector<std::optional<End>> ends_;
  std::vector<uint64_t> unwanted_;
  int aside_ = 0;
  Fetches fetches_{&loop_,
                   peers_,
                   store_,
                   [this](std::function<void()> work, std::function<void()> done) {
                     ++aside_;
                     work();
                     loop_.Post(std::move(done));
                   },
                   {}};
};

}  // namespace harrow::agent
