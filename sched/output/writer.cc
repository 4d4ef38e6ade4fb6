// Two buffers: what is appended goes to one while a flush writes the other, so that slow storage holds up
// whoever flushes and nobody who appends. The index is written less often than the records: a reader goes
// through what it does not cover yet.
#include <algorithm>
#include <mutex>

#include "base/text.h"
#include "output/packed_output.h"
#include "output/record.h"
#include "run_dir/names.h"

namespace harrow::output {
namespace {

constexpr size_t kIndexBatch = 4096;

class PackedWriter : public Writer {
 public:
  PackedWriter(std::unique_ptr<os::AppendFile> data, std::unique_ptr<os::AppendFile> index)
      : data_(std::move(data)), index_(std::move(index)), next_offset_(data_->size()) {}

  ~PackedWriter() override {
    if (Flush().ok()) [[maybe_unused]]
      Status ignored = FlushIndex(0);  // it can be rebuilt
  }

  Result<uint64_t> Append(TaskId task, uint32_t attempt, Stream stream, std::string_view data,
                          std::optional<uint32_t> rank) override {
    std::lock_guard lock(mutex_);
    const uint64_t first = next_offset_;
    while (!data.empty()) {
      const std::string_view payload = data.substr(0, kMaxPayload);
      data.remove_prefix(payload.size());
      AppendRecord({.task = task, .attempt = attempt, .stream = stream, .payload = payload, .rank = rank},
                   &buffer_);
      const IndexEntry entry{.task = task,
                             .attempt = attempt,
                             .stream = stream,
                             .length = static_cast<uint32_t>(payload.size()),
                             .offset = next_offset_};
      AppendIndexEntry(entry, &index_buffer_);
      next_offset_ = entry.end();
    }
    return first;
  }

  Status Flush() override {
    std::lock_guard io(io_mutex_);
    HARROW_RETURN_IF_ERROR(WriteOut());  // what an earlier error left
    {
      std::lock_guard lock(mutex_);
      writing_.swap(buffer_);
    }
    HARROW_RETURN_IF_ERROR(WriteOut());
    return FlushIndexLocked(kIndexBatch);
  }

  void Discard() override {
    std::lock_guard io(io_mutex_);
    std::lock_guard lock(mutex_);
    writing_.clear();
    buffer_.clear();
    index_buffer_.clear();
    index_broken_ = true;  // it may hold less than was written; readers go through the records
    next_offset_ = data_->size();
  }

  size_t buffered_bytes() const override {
    std::lock_guard lock(mutex_);
    return buffer_.size();
  }

  Status Sync() override {
    HARROW_RETURN_IF_ERROR(Flush());
    HARROW_RETURN_IF_ERROR(FlushIndex(0));
    std::lock_guard io(io_mutex_);
    return data_->Sync();
  }

 private:
  Status WriteOut() {
    if (writing_.empty()) return {};
    HARROW_RETURN_IF_ERROR(data_->Append(writing_));
    if (writing_.capacity() > kMaxPayload) writing_ = {};
    writing_.clear();
    return {};
  }

  Status FlushIndex(size_t at_least) {
    std::lock_guard io(io_mutex_);
    return FlushIndexLocked(at_least);
  }

  Status FlushIndexLocked(size_t at_least) {
    std::string entries;
    {
      std::lock_guard lock(mutex_);
      if (index_broken_) index_buffer_.clear();
      if (index_buffer_.empty() || index_buffer_.size() < at_least) return {};
      entries.swap(index_buffer_);
    }
    // Without room for the index the output is still whole: readers go through it.
    index_broken_ = !index_->Append(entries).ok();
    return {};
  }

  std::mutex io_mutex_;  // taken before mutex_
  mutable std::mutex mutex_;
  std::unique_ptr<os::AppendFile> data_, index_;  // of io_mutex_
  std::string writing_;                           // of io_mutex_
  bool index_broken_ = false;
  std::string buffer_, index_buffer_;  // of mutex_
  uint64_t next_offset_;
};

}  // namespace

Result<std::unique_ptr<Writer>> Writer::Create(os::FileSystem& fs, const std::string& run_dir,
                                               uint32_t file_number) {
  const std::string path = run_dir::OutputPath(run_dir, file_number);
  HARROW_RETURN_IF_ERROR(fs.MakeDirectories(run_dir::OutputDirectory(run_dir)));
  HARROW_RETURN_IF_ERROR(fs.CreateWhole(path, FileHeader(kOutputMagic, file_number)));
  Result<std::unique_ptr<os::AppendFile>> data = fs.OpenAppend(path);
  if (!data.ok()) return data.status();
  Result<std::unique_ptr<os::AppendFile>> index = fs.OpenAppend(run_dir::OutputIndexPath(run_dir, file_number));
  if (!index.ok()) return index.status();
  HARROW_RETURN_IF_ERROR((*index)->Append(FileHeader(kIndexMagic, file_number)));
  return std::unique_ptr<Writer>(
      std::make_unique<PackedWriter>(std::move(data).value(), std::move(index).value()));
}

// All agents of a run begin at once, see the same files, and want the same next number. Who does not get it
// draws one from so many that nobody else does.
Result<std::unique_ptr<Writer>> Writer::CreateNew(os::FileSystem& fs, const std::string& run_dir,
                                                  const std::function<uint32_t()>& draw,
                                                  uint32_t* file_number) {
  constexpr uint32_t kFirstDrawn = 1u << 20, kDrawn = 0x7fffffffu - kFirstDrawn;
  uint32_t highest = 0;
  if (Result<std::vector<std::string>> names = fs.List(run_dir::OutputDirectory(run_dir)); names.ok()) {
    for (const std::string& name : *names) {
      const uint32_t n = run_dir::OutputNumber(name).value_or(0);
      if (n < kFirstDrawn) highest = std::max(highest, n);
    }
  }
  for (*file_number = highest + 1;; *file_number = kFirstDrawn + draw() % kDrawn) {
    Result<std::unique_ptr<Writer>> writer = Create(fs, run_dir, *file_number);
    if (writer.status().code() != Code::kExists) return writer;
  }
}

}  // namespace harrow::output
