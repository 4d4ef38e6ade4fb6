#include <set>

#include "formats/array_spec.h"
#include "fuzz/check_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using harrow::fuzz::Require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const harrow::Result<harrow::formats::ArraySpec> spec = harrow::formats::ParseArraySpec(text, 200);
  harrow::fuzz::CheckMessage(spec.status());
  if (!spec) return 0;
  const std::vector<uint64_t> numbers = spec->Numbers();
  Require(numbers.size() == spec->count && spec->count <= 200, "a wrong count", text);
  Require(std::set<uint64_t>(numbers.begin(), numbers.end()).size() == numbers.size(), "a number twice",
          text);
  return 0;
}
