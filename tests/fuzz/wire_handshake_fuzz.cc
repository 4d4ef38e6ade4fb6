// What anybody may send before a server, or a dialler, knows who it is. The first byte says at which end, the
// second how the bytes are cut.
#include <cstdint>

#include "fuzz/check_message.h"
#include "wire/plain_engine.h"
#include "wire/tls_engine.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using harrow::fuzz::Require;
  using harrow::wire::TlsEngine;
  static const harrow::wire::Credentials key{"run-1", std::string(32, 'k')};
  static const auto server = *harrow::wire::MakeTlsServer(key);
  static const auto client = *harrow::wire::MakeTlsClient(key, harrow::wire::Role::kAgent);
  if (size < 2) return 0;
  std::unique_ptr<TlsEngine> engine;
  if (data[0] % 4 == 2) {  // a listener that has given out tokens, which nobody can guess
    engine = harrow::wire::MakePlainOrTlsServer(server->NewEngine(), [](std::string_view token) {
      Require(token.size() == harrow::wire::kTokenBytes, "a token of another length");
      return false;
    });
  } else {
    engine = (data[0] % 2 == 0 ? server : client)->NewEngine();
  }
  std::string_view stream(reinterpret_cast<const char*>(data + 2), size - 2);
  size_t piece = 32 + data[1] * size_t{16};
  std::string plain;
  engine->Receive("", &plain);
  while (!stream.empty()) {
    TlsEngine::State state = engine->Receive(stream.substr(0, piece), &plain);
    stream.remove_prefix(std::min(piece, stream.size()));
    Require(state == TlsEngine::State::kHandshake || state == TlsEngine::State::kFailed,
            "opened without the key");
    if (state == TlsEngine::State::kFailed) {
      harrow::fuzz::CheckMessage(engine->failure());
      Require(engine->Receive(stream, &plain) == state, "opened after it had failed");
      break;
    }
  }
  Require(plain.empty(), "something was delivered before the handshake");
  return 0;
}
