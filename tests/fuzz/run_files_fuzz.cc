// The small files of a run directory: PART/server and PART/owner. The first byte says which.
#include <cstdint>

#include "fuzz/check_message.h"
#include "run_dir/owner.h"
#include "run_dir/rendezvous.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using harrow::fuzz::Require;
  if (size < 1) return 0;
  std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 2 == 0) {
    auto server = harrow::run_dir::ParseRendezvous(text);
    harrow::fuzz::CheckMessage(server.status());
    if (server.ok()) Require(server->key.size() == 32, "a key that is none");
  } else {
    harrow::fuzz::CheckMessage(harrow::run_dir::ParseOwner(text).status());
  }
  return 0;
}
