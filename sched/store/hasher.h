#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "store/object.h"

namespace harrow::store {

/// XXH3-128 of bytes that come one after the other.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  void Reset();
  void Add(const char* data, size_t size);
  ObjectId Id(Kind kind) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

ObjectId IdOf(std::string_view bytes, Kind kind);

}  // namespace harrow::store
