// CPU of a message over an encrypted channel on one loop, both ends together, sent in batches as agents and
// server do.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "figure.h"
#include "os/event_loop.h"
#include "wire/channel.h"

namespace {

double Cpu() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace harrow;
  bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  const int rounds = quick ? 5'000 : 50'000;
  constexpr int kBatch = 30;
  constexpr size_t kBytes = 150;
  auto loop = os::MakeEventLoop();
  wire::Credentials key{"perf", std::string(32, 'k')};
  std::shared_ptr<wire::Channel> server, client;
  std::string message(kBytes, 'm');
  int echoed = 0, received = 0;
  double began = 0;
  auto send = [&](wire::Channel& channel) {
    for (int i = 0; i < kBatch; ++i) channel.Send(message);
  };
  auto listener =
      wire::Listen(loop.get(), {"127.0.0.1"}, 0, key, {}, [&](std::shared_ptr<wire::Channel> channel) {
        server = std::move(channel);
        wire::ChannelHandler handler;
        handler.on_message = [&](std::string_view) {
          if (++received % kBatch == 0) send(*server);
        };
        return handler;
      });
  if (!listener.ok()) return 1;
  wire::Dial(loop.get(), (*listener)->addresses().at(0), wire::Role::kAgent, key, {}, [&](auto channel) {
    wire::ChannelHandler handler;
    if (!channel.ok()) return loop->Stop(), handler;
    client = std::move(*channel);
    began = Cpu();
    send(*client);
    handler.on_message = [&](std::string_view) {
      if (++echoed % kBatch != 0) return;
      if (echoed / kBatch == rounds) return loop->Stop();
      send(*client);
    };
    return handler;
  });
  loop->Run();
  if (echoed != rounds * kBatch) return 1;
  double used = Cpu() - began;
  perf::Figure("wire.message", used / (2.0 * echoed) * 1e6,
               "CPU us a message of 150 bytes, sent and received in batches of 30", 1.5);
  perf::Figure("wire.batch", used / (2.0 * rounds) * 1e6, "CPU us a batch", 45);
  client.reset();
  server.reset();
  listener->reset();
  return perf::Status();
}
