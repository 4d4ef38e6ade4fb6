#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "store/object.h"

namespace harrow::migrate {

/// Numbers in messages and files of this folder: as they lie in memory, little-endian.
template <class Int>
void PutNumber(Int value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}
/// False: there are not so many bytes. Else `*in` loses them.
template <class Int>
bool GetNumber(std::string_view* in, Int* value) {
  if (in->size() < sizeof *value) return false;
  std::memcpy(value, in->data(), sizeof *value);
  in->remove_prefix(sizeof *value);
  return true;
}

inline constexpr size_t kIdBytes = 16;
inline void PutId(const store::ObjectId& id, std::string* out) {
  PutNumber(id.high, out);
  PutNumber(id.low, out);
}
inline bool GetId(std::string_view* in, store::ObjectId* id) {
  *id = {};
  return GetNumber(in, &id->high) && GetNumber(in, &id->low);
}

}  // namespace harrow::migrate
