// Per file, the list of its records: from the index as far as it can be believed, from the records themselves
// after that. The list grows with the file.
#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "output/packed_output.h"
#include "output/record.h"
#include "run_dir/names.h"

namespace harrow::output {
namespace {

constexpr uint64_t kChunk = 4 * kMaxPayload;
constexpr uint64_t kWindow = 64 * 1024;

/// The records of one N.out.
class FileView {
 public:
  FileView(os::FileSystem& fs, const std::string& dir, uint32_t number)
      : fs_(fs), path_(run_dir::OutputPath(dir, number)), index_path_(run_dir::OutputIndexPath(dir, number)) {}

  const std::vector<IndexEntry>& entries() const { return entries_; }
  const std::string& path() const { return path_; }

  /// Takes in what came since the last call. kDamaged, once for each place, when something was skipped.
  Status Extend() {
    Result<os::FileInfo> info = fs_.Stat(path());
    if (!info.ok()) return info.status();
    if (covered_ == 0) {
      Result<std::string> header = fs_.ReadRange(path(), 0, kFileHeader);
      if (!header.ok()) return header.status();
      if (header->size() < kFileHeader) return {};
      if (!CheckFileHeader(kOutputMagic, *header))
        return Status(Code::kDamaged, StrCat(path(), " is not packed output of this version"));
      covered_ = kFileHeader;
    }
    ExtendByIndex(info->size);
    return ExtendByRecords(info->size);
  }

  /// The record of an entry, checked. Its payload lives until the next call.
  Result<Record> Read(const IndexEntry& entry) {
    if (entry.offset < window_at_ || entry.end() > window_at_ + window_.size()) {
      Result<std::string> bytes =
          fs_.ReadRange(path(), entry.offset, std::max<uint64_t>(kWindow, kRecordHeader + entry.length));
      if (!bytes.ok()) return bytes.status();
      window_ = std::move(bytes).value();
      window_at_ = entry.offset;
    }
    const std::optional<Record> record =
        ParseRecord(std::string_view(window_).substr(entry.offset - window_at_));
    if (!record || record->task != entry.task || record->attempt != entry.attempt ||
        record->payload.size() != entry.length) {
      return Status(Code::kDamaged, StrCat(path(), ": the record at byte ", entry.offset, " is damaged"));
    }
    return *record;
  }

  /// Numbers of the entries of one attempt, ascending.
  std::vector<size_t> Find(TaskId task, uint32_t attempt, uint64_t offset) {
    const auto key = [this](size_t i) { return std::tuple(entries_[i].task, entries_[i].attempt, i); };
    const size_t known = by_task_.size();
    for (size_t i = known; i < entries_.size(); ++i) by_task_.push_back(i);
    if (known < entries_.size()) {
      std::sort(by_task_.begin(), by_task_.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
    }
    std::vector<size_t> found;
    auto it = std::lower_bound(by_task_.begin(), by_task_.end(), std::tuple(task, attempt, size_t{0}),
                               [&](size_t a, const auto& wanted) { return key(a) < wanted; });
    for (; it != by_task_.end() && entries_[*it].task == task && entries_[*it].attempt == attempt; ++it) {
      if (entries_[*it].offset >= offset) found.push_back(*it);
    }
    return found;
  }

 private:
  void ExtendByIndex(uint64_t file_size) {
    if (index_distrusted_) return;
    Result<std::string> bytes = fs_.ReadRange(index_path_, index_read_, UINT64_MAX);
    if (!bytes.ok()) return;
    std::string_view rest = *bytes;
    if (index_read_ == 0) {
      if (rest.size() < kFileHeader) return;
      if (!CheckFileHeader(kIndexMagic, rest)) {
        index_distrusted_ = true;
        return;
      }
      rest.remove_prefix(kFileHeader);
      index_read_ = kFileHeader;
    }
    for (; rest.size() >= kIndexEntry; rest.remove_prefix(kIndexEntry), index_read_ += kIndexEntry) {
      const std::optional<IndexEntry> entry = ParseIndexEntry(rest);
      if (entry && entry->offset < covered_) continue;  // found in the file before
      if (!entry || entry->offset != covered_) {
        index_distrusted_ = true;
        return;
      }
      if (entry->end() > file_size) return;
      entries_.push_back(*entry);
      covered_ = entry->end();
    }
  }

  Status ExtendByRecords(uint64_t file_size) {
    Status damage;
    while (covered_ < file_size) {
      Result<std::string> bytes = fs_.ReadRange(path(), covered_, kChunk);
      if (!bytes.ok()) return bytes.status();
      const std::string_view chunk = *bytes;
      size_t at = 0;
      while (const std::optional<Record> record = ParseRecord(chunk.substr(at))) {
        entries_.push_back({.task = record->task,
                            .attempt = record->attempt,
                            .stream = record->stream,
                            .length = static_cast<uint32_t>(record->payload.size()),
                            .offset = covered_ + at});
        at += kRecordHeader + record->payload.size();
      }
      covered_ += at;
      if (at > 0) continue;
      const size_t next = FindRecord(chunk, 1);
      if (next == std::string_view::npos && chunk.size() < kChunk) break;  // its end, or still being written
      // Of a chunk without any record its last MiB stays: one may begin there.
      const uint64_t skipped = next != std::string_view::npos ? next : kChunk - kMaxPayload - kRecordHeader;
      if (damage.ok()) {
        damage = Status(Code::kDamaged,
                        StrCat(path(), ": damaged at byte ", covered_, ", output is missing there"));
      }
      covered_ += skipped;
    }
    return damage;
  }

  os::FileSystem& fs_;
  const std::string path_, index_path_;
  std::vector<IndexEntry> entries_;
  std::vector<size_t> by_task_;  // entries by task, attempt and place
  uint64_t covered_ = 0;         // entries_ holds what lies before
  uint64_t index_read_ = 0;
  bool index_distrusted_ = false;
  std::string window_;  // what was read last
  uint64_t window_at_ = 0;
};

class PackedReader : public Reader {
 public:
  explicit PackedReader(std::vector<Place> places) : places_(std::move(places)) {}

  Status ReadAttempt(FileNumber file, uint64_t offset, TaskId task, uint32_t attempt,
                     const std::function<void(const Piece&)>& piece) override {
    FileView& view = View(file);
    Status first = view.Extend();
    if (!first.ok() && first.code() != Code::kDamaged) return first;
    for (size_t i : view.Find(task, attempt, offset)) {
      Result<Piece> read = ReadPiece(view, view.entries()[i]);
      if (read.ok()) {
        piece(*read);
      } else if (first.ok()) {
        first = read.status();
      }
    }
    return first;
  }

  Result<std::string> Tail(FileNumber file, uint64_t offset, TaskId task, uint32_t attempt, Stream stream,
                           size_t bytes, std::optional<uint32_t> rank) override {
    FileView& view = View(file);
    const Status extended = view.Extend();
    if (!extended.ok() && extended.code() != Code::kDamaged) return extended;
    std::string tail;
    const std::vector<size_t> found = view.Find(task, attempt, offset);
    for (auto it = found.rbegin(); it != found.rend() && tail.size() < bytes; ++it) {
      if (view.entries()[*it].stream != stream) continue;
      Result<Piece> read = ReadPiece(view, view.entries()[*it]);
      if (!read.ok() || (rank && read->rank != rank)) continue;
      std::string_view data = read->data;
      if (data.size() > bytes - tail.size()) data.remove_prefix(data.size() - (bytes - tail.size()));
      tail.insert(0, data);
    }
    return tail;
  }

  Status ReadNew(const std::function<void(FileNumber file, const Piece&)>& piece) override {
    Status first;
    std::set<FileNumber> files;
    for (const auto& [part, fs, dir] : places_) {
      Result<std::vector<std::string>> names = fs->List(run_dir::OutputDirectory(dir));
      if (!names.ok()) {
        if (first.ok() && names.status().code() != Code::kNotFound) first = names.status();
        continue;
      }
      for (const std::string& name : *names) {
        if (run_dir::IsOutput(name)) files.insert(FileNumber{part} << 32 | *run_dir::OutputNumber(name));
      }
    }
    for (const FileNumber file : files) {
      FileView& view = View(file);
      Status status = view.Extend();
      for (size_t& next = told_[file]; next < view.entries().size(); ++next) {
        Result<Piece> read = ReadPiece(view, view.entries()[next]);
        if (read.ok()) {
          piece(file, *read);
        } else if (status.ok()) {
          status = read.status();
        }
      }
      if (first.ok()) first = std::move(status);
    }
    return first;
  }

 private:
  /// Of a part that is not among those that were named the first one is looked into, which has no such file.
  FileView& View(FileNumber file) {
    if (const auto known = views_.find(file); known != views_.end()) return known->second;
    auto place = std::find_if(places_.begin(), places_.end(), [&](const Place& each) { return each.part == file >> 32; });
    if (place == places_.end()) place = places_.begin();
    return views_.try_emplace(file, *place->fs, place->dir, static_cast<uint32_t>(file)).first->second;
  }

  static Result<Piece> ReadPiece(FileView& view, const IndexEntry& entry) {
    Result<Record> record = view.Read(entry);
    if (!record.ok()) return record.status();
    return Piece{.task = record->task,
                 .attempt = record->attempt,
                 .stream = record->stream,
                 .offset = entry.offset,
                 .data = std::string(record->payload),
                 .rank = record->rank};
  }

  const std::vector<Place> places_;
  std::map<FileNumber, FileView> views_;
  std::map<FileNumber, size_t> told_;  // entries given out by ReadNew
};

}  // namespace

Result<std::unique_ptr<Reader>> Reader::Open(os::FileSystem& fs, const std::string& run_dir) {
  return OpenAll({{0, &fs, run_dir}});
}

std::unique_ptr<Reader> Reader::OpenAll(std::vector<Place> places) {
  return std::make_unique<PackedReader>(std::move(places));
}

}  // namespace harrow::output
