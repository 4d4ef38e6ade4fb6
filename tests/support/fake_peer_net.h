#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/peers.h"
#include "support/fake_channel.h"
#include "support/fake_event_loop.h"

namespace harrow::test {

/// A network of FakeChannels: agents listen at names, dials take a turn of the loop.
class FakePeerNet {
 public:
  explicit FakePeerNet(FakeEventLoop* loop) : loop_(loop) {}

  struct Dialled {
    std::string address;
    Time at;
    bool plain = false;
    std::weak_ptr<FakeChannel> dialler{}, listener{};
  };

  /// The net of an agent that listens at `address`.
  agent::PeerNet Of(const std::string& address) {
    agent::PeerNet net;
    net.listen = [this, address](wire::Listener::Accept accept) -> Result<std::unique_ptr<wire::Listener>> {
      return std::unique_ptr<wire::Listener>(
          std::make_unique<FakeListener>(this, address, std::move(accept)));
    };
    net.dial = [this](const std::string& to, const wire::Credentials&, agent::PeerNet::Done done) {
      Dial(to, "", std::move(done));
    };
    net.dial_plain = [this](const std::string& to, const std::string& token, agent::PeerNet::Done done) {
      Dial(to, token, std::move(done));
    };
    return net;
  }

  std::vector<Dialled> dialled;
  bool deaf = false;      // accepts, and nobody hears what is said
  bool no_plain = false;  // plain dials fail
  bool late_plain = false;
  int credentials = 0;  // how often they were changed

 private:
  class FakeListener : public wire::Listener {
   public:
    FakeListener(FakePeerNet* net, std::string address, Accept accept)
        : net_(net), address_(std::move(address)), accept_(std::move(accept)) {
      net_->listeners_[address_] = this;
    }
    ~FakeListener() override { net_->listeners_.erase(address_); }
    std::vector<std::string> addresses() const override { return {address_}; }
    Refusals refusals() const override { return {}; }
    std::string ExpectPlain(Accept accept) override {
      std::string token = std::to_string(++net_->tokens_);
      token.resize(32, 't');
      expected_[token] = std::move(accept);
      return token;
    }
    Status SetCredentials(const wire::Credentials&) override {
      ++net_->credentials;
      return {};
    }
    void Withdraw(const std::string& token) override { expected_.erase(token); }

    FakePeerNet* net_;
    std::string address_;
    Accept accept_;
    std::map<std::string, Accept> expected_;
  };

  void Dial(const std::string& to, const std::string& token, agent::PeerNet::Done done) {
    dialled.push_back({.address = to, .at = loop_->Now(), .plain = !token.empty()});
    loop_->Post([this, index = dialled.size() - 1, to, token, done = std::move(done)] {
      const auto found = listeners_.find(to);
      wire::Listener::Accept accept;
      if (found != listeners_.end() && token.empty()) accept = found->second->accept_;
      if (found != listeners_.end() && !token.empty() && !no_plain) {
        const auto expected = found->second->expected_.extract(token);
        if (!expected.empty()) accept = expected.mapped();
      }
      if (!accept) {
        done(Status(Code::kUnavailable, "Connection refused"));
        return;
      }
      auto [here, there] = FakeChannel::Pair(loop_, token.empty() ? wire::Role::kPeer : wire::Role::kBulk);
      dialled[index].dialler = here;
      dialled[index].listener = there;
      if (deaf) {
        kept_.push_back(there);
      } else {
        there->SetHandler(accept(there));
      }
      if (late_plain && !token.empty()) {
        // The listening end is ready, the dialling one hears of it some turns later.
        Later(3, [here = here, done] { here->SetHandler(done(std::shared_ptr<wire::Channel>(here))); });
        return;
      }
      here->SetHandler(done(std::shared_ptr<wire::Channel>(here)));
    });
  }

  void Later(int turns, std::function<void()> work) {
    loop_->Post([this, turns, work] { turns > 0 ? Later(turns - 1, work) : work(); });
  }

  FakeEventLoop* const loop_;
  std::map<std::string, FakeListener*> listeners_;
  std::vector<std::shared_ptr<FakeChannel>> kept_;
  int tokens_ = 0;
};

}  // namespace harrow::test
