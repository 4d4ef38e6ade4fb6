#include "fuzz/load_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harrow::fuzz::LoadText("f.jsonl", std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
