// The listing of a directory object, which may come from another node.
#include <cstdint>

#include "fuzz/check_message.h"
#include "store/listing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using harrow::fuzz::Require;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto entries = harrow::store::ReadListing(bytes);
  harrow::fuzz::CheckMessage(entries.status());
  if (!entries.ok()) return 0;
  Require(harrow::store::WriteListing(*entries) == bytes, "two listings of the same entries");
  for (const harrow::store::Entry& entry : *entries) {
    Require(harrow::store::IsPath(entry.path), "a path that leads elsewhere");
    Require(entry.bytes >= 0, "a negative size");
  }
  Require(harrow::store::BytesOf(*entries) >= 0, "a negative sum");
  Require(harrow::store::FilesOf(*entries).size() <= entries->size(), "more files than entries");
  return 0;
}
