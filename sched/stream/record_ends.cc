#include "stream/record_ends.h"

#include <cstring>

namespace harrow::stream {
namespace {

char EndByte(Records records) {
  return records == kLines ? '\n' : '\0';
}

}  // namespace

size_t FirstEnd(Records records, uint64_t into, std::string_view bytes) {
  if (const uint32_t size = BytesOf(records); size > 0) {
    const uint64_t left = size - into % size;
    return left <= bytes.size() ? static_cast<size_t>(left) : 0;
  }
  const size_t found = bytes.find(EndByte(records));
  return found == std::string_view::npos ? 0 : found + 1;
}

size_t LastEnd(Records records, uint64_t into, std::string_view bytes) {
  if (const uint32_t size = BytesOf(records); size > 0) {
    const uint64_t behind = (into % size + bytes.size()) % size;
    return behind < bytes.size() ? bytes.size() - static_cast<size_t>(behind) : 0;
  }
  if (bytes.empty()) return 0;
  const void* const found = memrchr(bytes.data(), EndByte(records), bytes.size());
  return found == nullptr ? 0 : static_cast<size_t>(static_cast<const char*>(found) - bytes.data()) + 1;
}

uint64_t IntoAfter(Records records, uint64_t into, std::string_view bytes) {
  const size_t end = LastEnd(records, into, bytes);
  return end > 0 ? bytes.size() - end : into + bytes.size();
}

Filling EndOf(Records records, uint64_t into) {
  if (into == 0) return {};
  if (const uint32_t size = BytesOf(records); size > 0) return {'\0', size - into % size};
  return {EndByte(records), 1};
}

}  // namespace harrow::stream
