#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "harrow/multiview.hpp"
#include "multiview/files.h"

namespace harrow::multiview {

/// Memory for elements: anonymous, or a mapped extent of a file. Its contents start undefined.
class Segment {
 public:
  static Result<std::unique_ptr<Segment>> Anonymous(std::size_t capacity);
  static Result<std::unique_ptr<Segment>> File(std::size_t capacity, const std::shared_ptr<FileSpace>& space);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* data() const { return data_; }
  std::size_t capacity() const { return capacity_; }
  bool in_file() const { return extent_.file != nullptr; }  // else anonymous
  /// Of its file. Only where it is in one.
  int file() const { return extent_.file->descriptor; }
  /// Where data() is in the file; 0 without one.
  std::size_t file_offset() const { return extent_.offset; }
  /// Moves data() so that it has the same place within a (huge) page as `address`; contents become undefined.
  void AlignLike(const std::byte* address);
  /// Frees the pages that lie wholly within the range; its contents become undefined.
  void Discard(std::size_t offset, std::size_t bytes);
  /// File: the mapped pages no longer count as this process's memory; contents stay.
  void Unload();
  /// File: waits until the contents are on disk. An error number, or 0.
  int Sync();
  /// Whether pages have been exchanged so often that the mapping has become many small ones.
  bool fragmented() const { return exchanges_ > 64; }

  static bool CanExchange(const Segment& from, std::size_t from_offset, const Segment& to, std::size_t to_offset,
                          std::size_t bytes);
  /// Gives `to` + to_offset the contents of `from` + from_offset by exchanging pages, and copies what shares a page with
  /// something else. False, and nothing is done, where that is impossible or a copy is cheaper; CanExchange foresees all
  /// reasons but a lack of mappings or a kernel before 5.7.
  static bool Exchange(Segment* from, std::size_t from_offset, Segment* to, std::size_t to_offset, std::size_t bytes);

 private:
  Segment() = default;
  std::byte* map_ = nullptr;
  std::size_t mapped_ = 0;
  std::size_t page_ = 0;  // alignment of the mapping
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::shared_ptr<FileSpace> space_;
  FileSpace::Extent extent_;
  int exchanges_ = 0;
};

/// The stores' memory of one process. Freed memory is kept for the next request of about the same size: on Linux a page fault
/// costs as much as copying the page.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  explicit MemoryPool(const WorldOptions& options);
  /// Memory of at least `bytes`; freed into the pool with its last owner.
  Result<std::shared_ptr<Segment>> Allocate(std::size_t bytes, Target target);
  void Trim();
  std::size_t in_use() const { return in_use_; }
  const FileSpace& files() const { return *files_; }

 private:
  void Free(Segment* segment);
  std::size_t limit_, keep_;
  std::shared_ptr<FileSpace> files_;
  std::size_t in_use_ = 0;    // anonymous bytes handed out
  std::size_t largest_use_ = 0;
  std::size_t free_bytes_ = 0;
  std::multimap<std::size_t, std::unique_ptr<Segment>> free_;  // by capacity; of equal ones the most recently freed first
};

}  // namespace harrow::multiview
