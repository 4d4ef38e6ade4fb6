#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "graph/text_arena.h"

namespace harrow::graph {

/// `name` without "." components, doubled and trailing slashes, and with "x/.." removed; "." for nothing at
/// all. Looks at the text only. Returns `name` itself when it is normal already, else a view of `*buffer`.
std::string_view NormalFileName(std::string_view name, std::string* buffer);

/// Numbers by hash, with open addressing. What a number stands for is known by the caller alone.
class NameIndex {
 public:
  /// The number for which `same` says yes, of those inserted with this hash.
  template <class Same>
  std::optional<uint32_t> Find(size_t hash, const Same& same) const {
    if (slots_.empty()) return std::nullopt;
    for (size_t at = Mix(hash) & mask();; at = (at + 1) & mask()) {
      if (slots_[at] == kFree) return std::nullopt;
      if (same(slots_[at])) return slots_[at];
    }
  }
  /// `hash_of` gives the hash of any number inserted before: asked when the index grows.
  template <class HashOf>
  void Insert(size_t hash, uint32_t number, const HashOf& hash_of) {
    if ((used_ + 1) * 10 > slots_.size() * 7) Grow(hash_of);
    Put(hash, number);
    ++used_;
  }
  void Clear() {
    slots_ = {};
    used_ = 0;
  }
  size_t size() const { return used_; }
  size_t memory() const { return slots_.capacity() * sizeof(uint32_t); }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  static size_t Mix(size_t hash) { return hash ^ (hash >> 32); }
  size_t mask() const { return slots_.size() - 1; }
  void Put(size_t hash, uint32_t number) {
    size_t at = Mix(hash) & mask();
    while (slots_[at] != kFree) at = (at + 1) & mask();
    slots_[at] = number;
  }
  template <class HashOf>
  void Grow(const HashOf& hash_of) {
    std::vector<uint32_t> old(slots_.empty() ? 16 : slots_.size() * 2, kFree);
    old.swap(slots_);
    for (uint32_t number : old) {
      if (number != kFree) Put(hash_of(number), number);
    }
  }
  std::vector<uint32_t> slots_;
  size_t used_ = 0;
};

/// The files of a flow by name. Owned by Graph.
class FileTable {
 public:
  FileId Add(std::string_view name, TextArena* text);
  std::optional<FileId> Find(std::string_view name) const;
  std::optional<FileId> FindNormal(std::string_view normal_name) const;

  size_t count() const { return records_.size(); }
  std::string_view name(FileId file) const {
    return {records_[file.value].name, records_[file.value].name_size};
  }
  int64_t size(FileId file) const { return records_[file.value].size; }
  TaskId producer(FileId file) const { return records_[file.value].producer; }
  /// It is nobody's output itself: it lies below an output directory.
  bool below_output(FileId file) const { return records_[file.value].below_output; }
  bool is_read(FileId file) const { return records_[file.value].is_read; }

  void set_size(FileId file, int64_t bytes) { records_[file.value].size = bytes; }
  void set_read(FileId file) { records_[file.value].is_read = true; }
  void set_producer(FileId file, TaskId task, bool below_output) {
    records_[file.value].producer = task;
    records_[file.value].below_output = below_output;
  }
  void Reserve(size_t files) { records_.reserve(records_.size() + files); }
  void ShrinkToFit() { records_.shrink_to_fit(); }
  size_t memory() const { return records_.capacity() * sizeof(Record) + index_.memory(); }

 private:
  struct Record {
    const char* name;
    uint32_t name_size : 30;
    bool is_read : 1;
    bool below_output : 1;
    TaskId producer;
    int64_t size;
  };
  static size_t Hash(std::string_view name) { return std::hash<std::string_view>()(name); }
  std::vector<Record> records_;
  NameIndex index_;
};

}  // namespace harrow::graph
