// A directory of packed files (packed_format.md) has an index and packs. A pack holds contents of pages, 256 a block, each block compressed
// by itself. The packs of earlier directories, of this task or of one that is alike, go on being used by hard links, so that each directory
// is whole by itself and an old one can be removed whenever it is old. Of many such, one after the other, each would have a few contents left that are used; so a pack
// of which less than half is still wanted is left behind, and what is wanted of it written again: all packs together hold at
// most twice what is used.
//
// Whether there are earlier ones a sample tells, for which little is read. Where there are, all digests are known before anything is
// written; they are taken while the image waits for others. Else it is read once, and is on its way to the disk from the beginning. The digest
// of each whole file is compared when it is put together again, which also finds a page in a wrong place.
#include "migrate/packed.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <future>
#include <list>
#include <memory>
#include <optional>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "migrate/block.h"
#include "migrate/buffer.h"
#include "migrate/compress.h"
#include "migrate/image.h"
#include "migrate/encoding.h"
#include "migrate/file_error.h"
#include "os/posix_files.h"
#include "store/files.h"
#include "store/hasher.h"

namespace harrow::migrate {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPackedHead = "harrow-packed 2\n", kPackedHead1 = "harrow-packed 1\n";
constexpr const char* kIndex = "index";
constexpr size_t kPagesOfPackBlock = 256;
constexpr size_t kBlockBytes = kPagesOfPackBlock * kPage;
constexpr size_t kPagesAtOnce = 64;  // that are read
constexpr size_t kBlocksKept = 64, kBlocksAhead = 8;
constexpr int64_t kLeastSentAtOnce = 1 << 20, kMostSentAtOnce = 16 << 20;
constexpr auto kBeforeLooking = std::chrono::milliseconds(50);
constexpr size_t kMostOfIndex = size_t{1} << 32;
constexpr uint32_t kMostName = 4096;

Status NotAsWritten(const std::string& path) {
  return Status(Code::kDamaged, StrCat("the checkpoint ", path, " is not what was written"));
}

Status IsToEnd() {
  return Status(Code::kUnavailable, "it is to end");
}

/// Contents in a file of their own.
struct PackOfPages {
  uint64_t number = 0;
  uint32_t contents = 0;
  store::ObjectId digest{};  // of the list of their digests, behind the blocks; format 1 has it elsewhere
  std::vector<uint64_t> ends{};  // of its blocks, in the file
  std::vector<BlockWay> ways{};  // of these
};

struct PackedFile {
  std::string name{};  // below the directory
  uint64_t size = 0;
  uint32_t mode = 0;
  store::ObjectId digest{};
  std::vector<uint32_t> pages{};  // 0: zeros; else one more than the content's place among those of all packs
};

struct PackIndex {
  int format = 2;
  std::vector<PackOfPages> packs{};
  std::vector<PackedFile> files{};
};

size_t BlocksOf(uint32_t contents) {
  return (contents + kPagesOfPackBlock - 1) / kPagesOfPackBlock;
}

std::string PathOfPack(const std::string& directory, uint64_t number) {
  return StrCat(directory, "/", number, ".pages");
}

// --- the index

std::string TextOf(const PackIndex& index) {
  std::string text;
  PutNumber(static_cast<uint32_t>(index.packs.size()), &text);
  for (const PackOfPages& pack : index.packs) {
    PutNumber(pack.number, &text);
    PutNumber(pack.contents, &text);
    PutId(pack.digest, &text);
    for (const uint64_t end : pack.ends) PutNumber(end, &text);
    for (const BlockWay way : pack.ways) PutNumber(way, &text);
  }
  PutNumber(static_cast<uint32_t>(index.files.size()), &text);
  for (const PackedFile& file : index.files) {
    PutNumber(static_cast<uint32_t>(file.name.size()), &text);
    text += file.name;
    PutNumber(file.size, &text);
    PutNumber(file.mode, &text);
    PutId(file.digest, &text);
    for (const uint32_t page : file.pages) PutNumber(page, &text);
  }
  return text;
}

bool IsBelow(const std::string& name) {
  return !name.empty() && name.front() != '/' && StrCat("/", name, "/").find("/../") == std::string::npos && name.find('\0') == std::string::npos;
}

bool ReadPack(std::string_view* in, int format, PackOfPages* pack) {
  if (!GetNumber(in, &pack->number) || !GetNumber(in, &pack->contents)) return false;
  const size_t blocks = BlocksOf(pack->contents);
  if (format == 1) {
    if (in->size() / kIdBytes < pack->contents) return false;
    in->remove_prefix(pack->contents * kIdBytes);
  } else if (!GetId(in, &pack->digest)) {
    return false;
  }
  if (in->size() / sizeof(uint64_t) < blocks) return false;
  pack->ends.resize(blocks);
  uint64_t before = 0;
  for (uint64_t& end : pack->ends) {
    if (!GetNumber(in, &end) || end <= before || end - before > 2 * kBlockBytes) return false;
    before = end;
  }
  pack->ways.assign(blocks, BlockWay::kZstd);
  for (size_t i = 0; format > 1 && i < blocks; ++i) {
    uint8_t number = 0;
    const std::optional<BlockWay> way = GetNumber(in, &number) ? BlockWayOf(number) : std::nullopt;
    if (!way) return false;
    pack->ways[i] = *way;
  }
  return true;
}

bool ReadFile(std::string_view* in, uint64_t contents, PackedFile* file) {
  uint32_t length = 0;
  if (!GetNumber(in, &length) || length > kMostName || in->size() < length) return false;
  file->name = in->substr(0, length);
  in->remove_prefix(length);
  if (!IsBelow(file->name) || !GetNumber(in, &file->size) || !GetNumber(in, &file->mode) || !GetId(in, &file->digest)) return false;
  if (file->size > uint64_t{1} << 46 || in->size() / 4 < PagesOf(file->size)) return false;
  file->pages.resize(PagesOf(file->size));
  for (uint32_t& page : file->pages) {
    if (!GetNumber(in, &page) || page > contents) return false;
  }
  return true;
}

std::optional<PackIndex> IndexOf(std::string_view text, int format) {
  PackIndex index{.format = format};
  uint32_t packs = 0, files = 0;
  if (!GetNumber(&text, &packs) || packs > text.size()) return {};
  uint64_t contents = 0;
  for (uint32_t i = 0; i < packs; ++i) {
    if (!ReadPack(&text, format, &index.packs.emplace_back())) return {};
    contents += index.packs.back().contents;
  }
  if (!GetNumber(&text, &files) || files > text.size()) return {};
  for (uint32_t i = 0; i < files; ++i) {
    if (!ReadFile(&text, contents, &index.files.emplace_back())) return {};
  }
  if (!text.empty()) return {};
  return index;
}

/// So many bytes from there, as the file has been that long.
Status ReadAt(const std::string& path, int fd, uint64_t offset, char* to, size_t size) {
  for (size_t have = 0; have < size;) {
    const ssize_t n = TEMP_FAILURE_RETRY(pread(fd, to + have, size - have, static_cast<off_t>(offset + have)));
    if (n < 0) return FileError(path, errno);
    if (n == 0) return NotAsWritten(path);
    have += static_cast<size_t>(n);
  }
  return {};
}

Status ReadWhole(const std::string& path, std::string* text) {
  const os::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat st {};
  if (fd.get() < 0 || fstat(fd.get(), &st) != 0) return FileError(path, errno);
  if (!S_ISREG(st.st_mode) || static_cast<uint64_t>(st.st_size) > kMostOfIndex) return NotAsWritten(path);
  text->resize(static_cast<size_t>(st.st_size));
  return ReadAt(path, fd.get(), 0, text->data(), text->size());
}

Result<PackIndex> ReadIndex(const std::string& directory) {
  const std::string path = StrCat(directory, "/", kIndex);
  std::string whole;
  if (const Status read = ReadWhole(path, &whole); !read.ok()) {
    return access(path.c_str(), F_OK) != 0 && errno == ENOENT ? NotAsWritten(path) : read;
  }
  std::string_view in = whole;
  store::ObjectId digest;
  const int format = in.starts_with(kPackedHead) ? 2 : 1;
  if (format == 1 && !in.starts_with(kPackedHead1)) return NotAsWritten(path);
  in.remove_prefix(kPackedHead.size());
  if (!GetId(&in, &digest) || store::IdOf(in, store::Kind::kFile) != digest) return NotAsWritten(path);
  const Result<std::string> text = Decompress(in, kMostOfIndex, true);
  if (!text.ok()) return NotAsWritten(path);
  std::optional<PackIndex> index = IndexOf(*text, format);
  if (!index) return NotAsWritten(path);
  return *std::move(index);
}

Status WriteAt(const std::string& path, int fd, std::string_view bytes, int64_t offset) {
  return store::WriteAt(fd, offset, bytes) ? Status() : FileError(path, errno);
}

/// The index, which is on its way to the disk.
Result<os::Fd> WriteIndex(const std::string& path, const PackIndex& index) {
  const std::string body = Compress(TextOf(index));
  std::string text(kPackedHead);
  PutId(store::IdOf(body, store::Kind::kFile), &text);
  text += body;
  os::Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd.get() < 0) return FileError(path, errno);
  HARROW_RETURN_IF_ERROR(WriteAt(path, fd.get(), text, 0));
  (void)sync_file_range(fd.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
  return fd;
}

// --- packing

/// So many bytes from there, and zeros behind a file's end.
Status ReadUpTo(const std::string& path, int fd, uint64_t offset, char* to, size_t size, size_t* got) {
  *got = 0;
  while (*got < size) {
    const ssize_t n = TEMP_FAILURE_RETRY(pread(fd, to + *got, size - *got, static_cast<off_t>(offset + *got)));
    if (n < 0) return FileError(path, errno);
    if (n == 0) break;
    *got += static_cast<size_t>(n);
  }
  std::memset(to + *got, 0, size - *got);
  return {};
}

class Packer {
 public:
  Packer(const std::string& from, const std::string& to, const FindEarlier& earlier, const std::function<bool()>& stop)
      : from_(from), to_(to), earlier_(earlier), stop_(stop) {}

  Result<Packed> Run() {
    HARROW_RETURN_IF_ERROR(Find());
    if (earlier_) HARROW_RETURN_IF_ERROR(TakeEarlierOnes());
    HARROW_RETURN_IF_ERROR(Write());
    return done_;
  }

 private:
  Status Find() {
    std::error_code error;
    for (fs::recursive_directory_iterator at(from_, error), end; !error && at != end; at.increment(error)) {
      struct stat st {};
      const std::string path = at->path().native();
      if (lstat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) continue;
      index_.files.push_back({.name = path.substr(from_.size() + 1),
                              .size = static_cast<uint64_t>(st.st_size),
                              .mode = st.st_mode & 0777u,
                              .digest = store::IdOf({}, store::Kind::kFile)});
      done_.bytes += st.st_size;
    }
    if (error) return FileError(from_, error.value());
    std::sort(index_.files.begin(), index_.files.end(), [](const PackedFile& a, const PackedFile& b) { return a.name < b.name; });
    done_.files = index_.files.size();
    ids_.resize(index_.files.size());
    for (size_t i = 0; i < ids_.size(); ++i) ids_[i].reserve(PagesOf(index_.files[i].size));
    return {};
  }

  std::string PathOf(size_t number) const { return StrCat(from_, "/", index_.files[number].name); }

  /// So many pages of a file, the last one filled with zeros.
  Status ReadPages(size_t number, int fd, size_t first, size_t count, char* to) {
    const uint64_t begin = first * kPage, wanted = std::min<uint64_t>(count * kPage, index_.files[number].size - begin);
    size_t got = 0;
    HARROW_RETURN_IF_ERROR(ReadUpTo(PathOf(number), fd, begin, to, count * kPage, &got));
    return got < wanted ? Status(Code::kUnavailable, StrCat(PathOf(number), " became shorter")) : Status();
  }

  /// The digest of a file's next page, and, when it is the last one, of the file.
  void LookAt(size_t number, std::string_view page) {
    std::vector<store::ObjectId>& ids = ids_[number];
    PackedFile& file = index_.files[number];
    if (ids.empty()) hasher_.Reset();
    hasher_.Add(page.data(), static_cast<size_t>(std::min<uint64_t>(kPage, file.size - ids.size() * kPage)));
    ids.push_back(IsZeroPage(page) ? store::ObjectId() : store::IdOf(page, store::Kind::kFile));
    if (ids.size() == PagesOf(file.size)) file.digest = hasher_.Id(store::Kind::kFile);
  }

  /// Digests of all pages that have none yet.
  Status Look(const std::function<bool()>& stop) {
    for (size_t number = 0; number < ids_.size(); ++number) {
      const size_t pages = PagesOf(index_.files[number].size);
      if (ids_[number].size() == pages) continue;
      const os::Fd fd(open(PathOf(number).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
      if (fd.get() < 0) return FileError(PathOf(number), errno);
      while (ids_[number].size() < pages) {
        if (stop && stop()) return IsToEnd();
        const size_t count = std::min(kPagesAtOnce, pages - ids_[number].size());
        HARROW_RETURN_IF_ERROR(ReadPages(number, fd.get(), ids_[number].size(), count, block_.data()));
        for (size_t page = 0; page < count; ++page) {
          LookAt(number, {block_.data() + page * kPage, kPage});
          if (ids_[number].back() != store::ObjectId()) wanted_.insert(ids_[number].back());
        }
      }
    }
    return {};
  }

  Status TakeEarlierOnes() {
    Sample sample;
    HARROW_RETURN_IF_ERROR(Draw(&sample));
    std::promise<void> told;
    std::thread meanwhile;
    try {
      meanwhile = std::thread([this, is_told = told.get_future()] {
        // Who is told soon needs the processors.
        if (is_told.wait_for(kBeforeLooking) == std::future_status::ready) return;
        (void)Look([&] { return is_told.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
      });
    } catch (const std::system_error&) {  // they are taken afterwards
    }
    const std::vector<std::string> directories = earlier_(sample);
    told.set_value();
    if (meanwhile.joinable()) meanwhile.join();
    if (directories.empty()) return {};
    HARROW_RETURN_IF_ERROR(Look(stop_));  // what is left, and what went wrong
    places_.reserve(wanted_.size());
    for (const std::string& directory : directories) TakeEarlier(directory);
    return {};
  }

  Status Draw(Sample* sample) {
    for (size_t i = 0; i < index_.files.size(); ++i) {
      const std::string path = PathOf(i);
      const os::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
      if (fd.get() < 0) return FileError(path, errno);
      for (size_t page = 0; page < PagesOf(index_.files[i].size); ++page) {
        if (page % kPagesOfPackBlock == 0 && stop_ && stop_()) return IsToEnd();
        HARROW_RETURN_IF_ERROR(DrawPage(path, fd.get(), page * kPage, sample));
      }
    }
    std::sort(sample->begin(), sample->end());
    sample->erase(std::unique(sample->begin(), sample->end()), sample->end());
    return {};
  }

  /// Pages that are not drawn are not read, but for a few bytes of them.
  static Status DrawPage(const std::string& path, int fd, uint64_t at, Sample* sample) {
    uint64_t words[2];
    size_t got = 0;
    HARROW_RETURN_IF_ERROR(ReadUpTo(path, fd, at + kPage / 2, reinterpret_cast<char*>(words), sizeof words, &got));
    const bool says_nothing = words[0] == 0 && words[1] == 0;
    if (!says_nothing && !IsDrawn(words[0], words[1], kSampled)) return {};
    std::array<char, kPage> bytes;
    HARROW_RETURN_IF_ERROR(ReadUpTo(path, fd, at, bytes.data(), bytes.size(), &got));
    const std::string_view page(bytes.data(), bytes.size());
    if (says_nothing && IsZeroPage(page)) return {};
    const store::ObjectId id = store::IdOf(page, store::Kind::kFile);
    if (!says_nothing || id.low % kSampled == 0) sample->push_back(id.high);
    return {};
  }

  /// Its packs of which at least half is wanted, and not there yet.
  void TakeEarlier(const std::string& directory) {
    Result<PackIndex> before = ReadIndex(directory);
    if (!before.ok() || before->format == 1) return;
    const bool first = index_.packs.empty();
    for (PackOfPages& pack : before->packs) {
      if (first) next_ = std::max(next_, pack.number + 1);
      const std::vector<store::ObjectId> ids = ContentsOf(PathOfPack(directory, pack.number), pack);
      const auto used = std::count_if(ids.begin(), ids.end(), [&](const store::ObjectId& id) { return wanted_.contains(id) && !places_.contains(id); });
      if (used == 0 || 2 * static_cast<size_t>(used) < ids.size()) continue;
      const uint64_t number = first ? pack.number : next_;
      if (link(PathOfPack(directory, pack.number).c_str(), PathOfPack(to_, number).c_str()) != 0) continue;
      pack.number = number;
      next_ = std::max(next_, number + 1);
      for (const store::ObjectId& id : ids) places_.try_emplace(id, ++contents_);
      index_.packs.push_back(std::move(pack));
    }
  }

  /// The digests of a pack's contents; none, where it is not as it was written.
  static std::vector<store::ObjectId> ContentsOf(const std::string& path, const PackOfPages& pack) {
    const os::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    std::string list(pack.contents * kIdBytes, '\0');
    if (!fd.ok() || pack.contents == 0 || !ReadAt(path, fd.get(), pack.ends.back(), list.data(), list.size()).ok()) return {};
    if (store::IdOf(list, store::Kind::kFile) != pack.digest) return {};
    std::vector<store::ObjectId> ids(pack.contents);
    std::string_view in = list;
    for (store::ObjectId& id : ids) GetId(&in, &id);
    return ids;
  }

  Status Write() {
    pack_.number = next_;
    const std::string path = PathOfPack(to_, pack_.number), path_of_index = StrCat(to_, "/", kIndex);
    const os::Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (fd.get() < 0) return FileError(path, errno);
    for (size_t number = 0; number < index_.files.size(); ++number) HARROW_RETURN_IF_ERROR(WriteFile(number, path, fd.get()));
    if (block_size_ > 0) HARROW_RETURN_IF_ERROR(Flush(path, fd.get()));
    const bool has_pack = !list_.empty();
    if (has_pack) {
      pack_.digest = store::IdOf(list_, store::Kind::kFile);
      HARROW_RETURN_IF_ERROR(WriteAt(path, fd.get(), list_, done_.written));
      (void)sync_file_range(fd.get(), sent_, 0, SYNC_FILE_RANGE_WRITE);
      index_.packs.push_back(std::move(pack_));
    } else if (unlink(path.c_str()) != 0) {
      return FileError(path, errno);
    }
    const Result<os::Fd> fd_of_index = WriteIndex(path_of_index, index_);
    if (!fd_of_index.ok()) return fd_of_index.status();
    if (has_pack && fsync(fd.get()) != 0) return FileError(path, errno);
    return fsync(fd_of_index->get()) == 0 ? Status() : FileError(path_of_index, errno);
  }

  /// `path`, `pack`: of the pack.
  Status WriteFile(size_t number, const std::string& path, int pack) {
    std::vector<uint32_t>& places = index_.files[number].pages;
    const size_t pages = PagesOf(index_.files[number].size);
    places.reserve(pages);
    os::Fd fd;
    while (places.size() < pages) {
      if (AddKnown(number)) continue;
      if (stop_ && stop_()) return IsToEnd();
      if (!fd.ok()) fd = os::Fd(open(PathOf(number).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
      if (!fd.ok()) return FileError(PathOf(number), errno);
      // Behind what is in the block, where most of them are to be.
      const size_t count = std::min({kPagesAtOnce, pages - places.size(), (kBlockBytes - block_size_) / kPage});
      const char* const from = block_.data() + block_size_;
      HARROW_RETURN_IF_ERROR(ReadPages(number, fd.get(), places.size(), count, block_.data() + block_size_));
      for (size_t page = 0; page < count; ++page) Add(number, {from + page * kPage, kPage});
      if (block_size_ == kBlockBytes) HARROW_RETURN_IF_ERROR(Flush(path, pack));
    }
    return {};
  }

  /// The place of a file's next page, if that is known without reading it.
  bool AddKnown(size_t number) {
    std::vector<uint32_t>& places = index_.files[number].pages;
    if (places.size() == ids_[number].size()) return false;
    const store::ObjectId& id = ids_[number][places.size()];
    const auto place = id == store::ObjectId() ? places_.end() : places_.find(id);
    if (id != store::ObjectId() && place == places_.end()) return false;
    places.push_back(place == places_.end() ? 0 : place->second);
    return true;
  }

  /// A file's next page, which lies in the block or behind it.
  void Add(size_t number, std::string_view page) {
    std::vector<uint32_t>& places = index_.files[number].pages;
    if (places.size() == ids_[number].size()) LookAt(number, page);
    const store::ObjectId& id = ids_[number][places.size()];
    if (id == store::ObjectId()) return places.push_back(0);
    const auto [place, is_new] = places_.try_emplace(id, contents_ + 1);
    places.push_back(place->second);
    if (!is_new) return;
    ++contents_;
    ++pack_.contents;
    PutId(id, &list_);
    std::memmove(block_.data() + block_size_, page.data(), kPage);
    block_size_ += kPage;
  }

  Status Flush(const std::string& path, int fd) {
    const BlockCoder::Packed packed = coder_.Pack(block_.First(block_size_));
    HARROW_RETURN_IF_ERROR(WriteAt(path, fd, packed.bytes, done_.written));
    done_.written += static_cast<int64_t>(packed.bytes.size());
    // The disk, or the link to it, works while the next ones are compressed. What comes of it fsync tells.
    // Soon for the first time, and then as much again as before: large pieces go faster.
    if (done_.written - sent_ >= std::clamp(sent_, kLeastSentAtOnce, kMostSentAtOnce)) {
      (void)sync_file_range(fd, sent_, done_.written - sent_, SYNC_FILE_RANGE_WRITE);
      sent_ = done_.written;
    }
    pack_.ends.push_back(static_cast<uint64_t>(done_.written));
    pack_.ways.push_back(packed.way);
    block_size_ = 0;
    return {};
  }

  const std::string& from_;
  const std::string& to_;
  const FindEarlier& earlier_;
  const std::function<bool()>& stop_;
  Packed done_;
  PackIndex index_;
  std::vector<std::vector<store::ObjectId>> ids_;  // of each file's pages, as far as they have been looked at; none: zeros
  store::Hasher hasher_;  // of the file that is being looked at
  std::unordered_set<store::ObjectId> wanted_;
  std::unordered_map<store::ObjectId, uint32_t> places_;
  uint32_t contents_ = 0;
  uint64_t next_ = 1;
  PackOfPages pack_;
  std::string list_;  // of its contents' digests
  int64_t sent_ = 0;  // bytes of it that are on their way to the disk
  PageBuffer block_{kBlockBytes};
  size_t block_size_ = 0;
  BlockCoder coder_;
};

// --- unpacking

/// Reads blocks in the order in which files need them for the first time, the next ones coming while one is used.
class PackReader {
 public:
  PackReader(const std::string& directory, const PackIndex& index) : directory_(directory), index_(index), open_(index.packs.size()) {
    uint64_t before = 0;
    for (const PackOfPages& pack : index.packs) begins_.push_back(std::exchange(before, before + pack.contents));
    for (const PackedFile& file : index.files) {
      for (const uint32_t page : file.pages) {
        if (page == 0) continue;
        const auto [pack, at] = PlaceOf(page - 1);
        const uint64_t key = KeyOf(pack, at / kPagesOfPackBlock);
        if (uses_[key]++ == 0) order_.push_back(key);
      }
    }
  }

  /// The bytes of a page that is not zeros, and of those after it that lie behind it in its block, at most so many. To be called once for each
  /// page of the files. They live until the next call.
  Result<std::string_view> Pages(const uint32_t* pages, size_t most) {
    const auto [pack, at] = PlaceOf(pages[0] - 1);
    const uint64_t number = at / kPagesOfPackBlock, key = KeyOf(pack, number);
    if (kept_.empty() || kept_.front().key != key) {
      DropFirstIfUsed();
      if (const auto known = known_.find(key); known != known_.end()) {
        kept_.splice(kept_.begin(), kept_, known->second);
      } else {
        HARROW_RETURN_IF_ERROR(Bring(pack, number));
      }
    }
    const size_t first = static_cast<size_t>(at % kPagesOfPackBlock);
    size_t count = 1;
    while (count < most && first + count < InBlock(pack, number) && pages[count] == pages[0] + count) ++count;
    *kept_.front().uses -= count;
    return std::string_view(kept_.front().bytes.data() + first * kPage, count * kPage);
  }

 private:
  struct Kept {
    uint64_t key;
    uint64_t* uses;  // pages that are still to come of it
    PageBuffer bytes{};
  };

  static uint64_t KeyOf(size_t pack, uint64_t block) { return pack << 40 | block; }
  /// The pack, and the place in it.
  std::pair<size_t, uint64_t> PlaceOf(uint32_t content) const {
    const size_t pack = static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end(), content) - begins_.begin()) - 1;
    return {pack, content - begins_[pack]};
  }

  /// kOk, and it is open.
  Status Open(size_t pack) {
    const std::string path = PathOfPack(directory_, index_.packs[pack].number);
    if (!open_[pack].ok()) open_[pack] = os::Fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (open_[pack].ok()) return {};
    return errno == ENOENT ? NotAsWritten(path) : FileError(path, errno);
  }

  /// Its pages.
  size_t InBlock(size_t pack, uint64_t block) const {
    return std::min<size_t>(kPagesOfPackBlock, index_.packs[pack].contents - static_cast<size_t>(block) * kPagesOfPackBlock);
  }

  std::pair<uint64_t, uint64_t> BoundsOf(size_t pack, uint64_t block) const {
    const PackOfPages& of = index_.packs[pack];
    return {block == 0 ? 0 : of.ends[block - 1], of.ends[block]};
  }

  /// The kernel brings those that come next.
  void Fetch() {
    for (; told_ < order_.size() && told_ < read_ + kBlocksAhead; ++told_) {
      const size_t pack = order_[told_] >> 40;
      if (!Open(pack).ok()) continue;  // which is told when it is wanted
      const auto [begin, end] = BoundsOf(pack, order_[told_] & ((uint64_t{1} << 40) - 1));
      (void)posix_fadvise(open_[pack].get(), static_cast<off_t>(begin), static_cast<off_t>(end - begin), POSIX_FADV_WILLNEED);
    }
  }

  void DropFirstIfUsed() {
    if (kept_.empty() || *kept_.front().uses > 0) return;
    known_.erase(kept_.front().key);
    spare_ = std::move(kept_.front().bytes);
    kept_.pop_front();
  }

  /// A block to the front of those that are kept.
  Status Bring(size_t pack, uint64_t number) {
    const uint64_t key = KeyOf(pack, number);
    const PackOfPages& of = index_.packs[pack];
    const std::string path = PathOfPack(directory_, of.number);
    HARROW_RETURN_IF_ERROR(Open(pack));
    if (read_ < order_.size() && order_[read_] == key) ++read_;
    Fetch();
    const auto [begin, end] = BoundsOf(pack, number);
    const size_t size = static_cast<size_t>(end - begin);
    packed_.Reserve(size);
    HARROW_RETURN_IF_ERROR(ReadAt(path, open_[pack].get(), begin, packed_.data(), size));
    if (kept_.size() >= kBlocksKept) {
      known_.erase(kept_.back().key);
      spare_ = std::move(kept_.back().bytes);
      kept_.pop_back();
    }
    PageBuffer bytes = std::move(spare_);
    bytes.Reserve(kBlockBytes);
    const Status unpacked = coder_.Unpack(of.ways[static_cast<size_t>(number)], packed_.First(size), bytes.data(), InBlock(pack, number) * kPage);
    if (!unpacked.ok()) return NotAsWritten(path);
    kept_.push_front({.key = key, .uses = &uses_.find(key)->second, .bytes = std::move(bytes)});
    known_[key] = kept_.begin();
    return {};
  }

  const std::string& directory_;
  const PackIndex& index_;
  std::vector<uint64_t> begins_;
  std::vector<os::Fd> open_;
  std::vector<uint64_t> order_;  // keys of blocks, as they are wanted first
  size_t read_ = 0, told_ = 0;   // of these, and those that the kernel has been told of
  std::unordered_map<uint64_t, uint64_t> uses_;  // of blocks, by their keys
  std::list<Kept> kept_;  // the one used last first
  std::unordered_map<uint64_t, std::list<Kept>::iterator> known_;
  PageBuffer packed_, spare_;
  BlockCoder coder_;
};

Status PutTogether(const PackedFile& file, const std::string& to, const std::function<bool()>& stop, PackReader* reader) {
  static const std::string zeros(kPage, '\0');
  const std::string path = StrCat(to, "/", file.name);
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const os::Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, file.mode & 0700));
  if (fd.get() < 0) return FileError(path, errno);
  store::Hasher hasher;
  size_t next_look = 0;
  for (size_t page = 0; page < file.pages.size();) {
    if (page >= next_look) {
      if (stop && stop()) return IsToEnd();
      next_look = page + kPagesOfPackBlock;
    }
    const uint64_t at = page * kPage;
    size_t count = 1;
    std::string_view bytes = zeros;
    if (file.pages[page] != 0) {
      const Result<std::string_view> run = reader->Pages(&file.pages[page], file.pages.size() - page);
      if (!run.ok()) return run.status();
      bytes = *run;
      count = bytes.size() / kPage;
    }
    bytes = bytes.substr(0, static_cast<size_t>(std::min<uint64_t>(bytes.size(), file.size - at)));
    hasher.Add(bytes.data(), bytes.size());
    if (file.pages[page] != 0) HARROW_RETURN_IF_ERROR(WriteAt(path, fd.get(), bytes, static_cast<int64_t>(at)));
    page += count;
  }
  if (ftruncate(fd.get(), static_cast<off_t>(file.size)) != 0) return FileError(path, errno);
  return hasher.Id(store::Kind::kFile) == file.digest ? Status() : NotAsWritten(path);
}

}  // namespace

Result<Packed> Pack(const std::string& from, const std::string& to, const FindEarlier& earlier, const std::function<bool()>& stop) {
  return Packer(from, to, earlier, stop).Run();
}

Status Unpack(const std::string& from, const std::string& to, const std::function<bool()>& stop) {
  const Result<PackIndex> index = ReadIndex(from);
  if (!index.ok()) return index.status();
  PackReader reader(from, *index);
  for (const PackedFile& file : index->files) HARROW_RETURN_IF_ERROR(PutTogether(file, to, stop, &reader));
  return {};
}

}  // namespace harrow::migrate
