#pragma once

#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/peers.h"
#include "support/fake_peer_net.h"
#include "wire/harrow.pb.h"
#include "wire/version.h"

namespace harrow::agent {

class PeersTest : public testing::Test {
 protected:
  struct Agent {
    std::unique_ptr<Peers> peers;
    std::vector<std::string> heard;  // "1 text", and "1 clear text"
    std::vector<std::string> gone;
    int sent = 0;
  };

  std::unique_ptr<Agent> Make(uint32_t id, bool encrypt = true, uint64_t incarnation = 0) {
    PeersOptions options;
    options.self = NodeId(id);
    options.incarnation = incarnation == 0 ? 100 + id : incarnation;
    options.credentials.run_id = "run";
    options.encrypt = encrypt;
    auto agent = std::make_unique<Agent>();
    agent->peers = *MakePeers(&loop_, options, net_.Of("at" + std::to_string(id)));
    Agent* a = agent.get();
    a->peers->Serve(Service::kTransfers,
                    {.on_message =
                         [a](NodeId from, std::string_view text, bool sealed) {
                           a->heard.push_back(std::to_string(from.value) + (sealed ? " " : " clear ") +
                                              std::string(text));
                         },
                     .on_gone =
                         [a](NodeId from, const Status& why) {
                           a->gone.push_back(std::to_string(from.value) + " " + why.message());
                         },
                     .on_sent = [a](NodeId) { ++a->sent; }});
    return agent;
  }
  static void Know(const std::unique_ptr<Agent>& agent, uint32_t id, uint64_t incarnation = 0) {
    agent->peers->Know(NodeId(id), {"at" + std::to_string(id)}, incarnation == 0 ? 100 + id : incarnation);
  }
  static void Send(const std::unique_ptr<Agent>& agent, uint32_t to, std::string_view text) {
    agent->peers->Send(NodeId(to), Service::kTransfers, text);
  }
  void Run() { loop_.RunPosted(); }

  test::FakeEventLoop loop_;
  test::FakePeerNet net_{&loop_};
  std::vector<std::shared_ptr<wire::Channel>> kept_;
};

}  // namespace harrow::agent
