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

/// Numbers by hash, with open addressing. What a number stands for is known by the caller alone; part of its hash is
/// kept beside it, so that only what is very likely the same is looked at, and growing looks at nothing.
class NameIndex {
 public:
  /// The number for which `same` says yes, of those inserted with this hash.
  template <class Same>
  std::optional<uint32_t> Find(size_t hash, const Same& same) const {
    if (slots_.empty()) return std::nullopt;
    const uint32_t tag = Mix(hash);
    for (size_t at = tag & mask();; at = (at + 1) & mask()) {
      const Slot& slot = slots_[at];
      if (slot.number == kFree) return std::nullopt;
      if (slot.tag == tag && same(slot.number)) return slot.number;
    }
  }
  void Insert(size_t hash, uint32_t number) {
    if ((used_ + 1) * 5 > slots_.size() * 4) Grow();
    Put({Mix(hash), number});
    ++used_;
  }
  void Clear() {
    slots_ = {};
    used_ = 0;
  }
  size_t size() const { return used_; }
  size_t memory() const { return slots_.capacity() * sizeof(Slot); }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  struct Slot {
    uint32_t tag = 0;
    uint32_t number = kFree;
  };
  static uint32_t Mix(size_t hash) { return static_cast<uint32_t>(hash ^ (hash >> 32)); }
  size_t mask() const { return slots_.size() - 1; }
  void Put(Slot slot) {
    size_t at = slot.tag & mask();
    while (slots_[at].number != kFree) at = (at + 1) & mask();
    slots_[at] = slot;
  }
  void Grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.number != kFree) Put(slot);
    }
  }
  std::vector<Slot> slots_;
  size_t used_ = 0;
};

/// The files of a flow by name. Owned by Graph.
class FileTable {
 public:
  FileId Add(std::string_view name, TextArena* text);
  std::optional<FileId> Find(std::string_view name) const;
  std::optional<FileId> FindNormal(std::string_view normal_name) const { return FindNormal(normal_name, Hash(normal_name)); }

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
  std::optional<FileId> FindNormal(std::string_view normal_name, size_t hash) const;
  std::vector<Record> records_;
  NameIndex index_;
};

}  // namespace harrow::graph
