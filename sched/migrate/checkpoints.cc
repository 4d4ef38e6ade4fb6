// When is a checkpoint whole? Of a program that was asked, when it has ended with the status that says so: what it left is moved aside
// as one directory, and counts as soon as its sums are on disk. A program that writes by itself may be writing when it is ended, or its
// node dies. Its files belong together by what the wildcards in `files` stand for ("restart.*.bin": the number of a step). Such a set
// counts when each of these patterns has a file of it, and when the file that was written last was left alone for kLeftAlone before the
// program ended; where nobody knows when that was, a newer one has to be there. Time for which the program was stopped is none in which it left
// a file alone. So what was being written never counts, and the one before it does.
//
// Whose is the directory? The attempt's that has begun last: it has left a word of its own there. An agent that was stopped, or cut off,
// while it digests what an attempt has left goes on when others have long begun the next; it finds that word, and lets be.
//
// Attempts get copies: a program may open its old checkpoint and write over it, and die half-way.
#include "migrate/checkpoints.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/integer.h"
#include "base/text.h"
#include "migrate/file_error.h"
#include "migrate/packed.h"
#include "os/posix_files.h"
#include "os/random.h"
#include "store/hasher.h"

namespace harrow::migrate {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kGenerations = 2;
constexpr int64_t kLeftAlone = 500'000'000;  // ns
constexpr size_t kBlock = 1u << 20;
constexpr std::string_view kHead = "harrow-checkpoint 1 ";
constexpr const char* kSums = ".sums";
constexpr const char* kFailures = ".failed";
constexpr const char* kUnfinished = ".new";

int64_t TimeOf(const struct stat& st) {
  return int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec;
}

int64_t TimeOfFile(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 ? TimeOf(st) : 0;
}

Status SyncDirectory(const std::string& path) {
  const os::Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || fsync(fd.get()) != 0) return FileError(path, errno);
  return {};
}

Status MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return FileError(StrCat("cannot make ", path), errno);
}

Status RemoveAll(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? FileError(StrCat("cannot remove ", path), error.value()) : Status();
}

/// Calls `use` with each block of a file.
template <class Use>
Status ReadBlocks(const std::string& path, int fd, const Use& use) {
  std::string block(kBlock, '\0');
  while (true) {
    const ssize_t n = TEMP_FAILURE_RETRY(read(fd, block.data(), block.size()));
    if (n < 0) return FileError(path, errno);
    if (n == 0) return {};
    HARROW_RETURN_IF_ERROR(use(std::string_view(block.data(), static_cast<size_t>(n))));
  }
}

Status ReadText(const std::string& path, int fd, std::string* text) {
  return ReadBlocks(path, fd, [&](std::string_view block) {
    text->append(block);
    return Status();
  });
}

Status WriteAllTo(const std::string& path, int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = TEMP_FAILURE_RETRY(write(fd, bytes.data(), bytes.size()));
    if (n < 0) return FileError(path, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

std::string Escaped(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '\n') {
      out += "%0A";
    } else if (c == '%') {
      out += "%25";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view code = text.substr(i, 3);
    if (code == "%0A" || code == "%25") {
      out += code == "%25" ? '%' : '\n';
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool HasWildcard(std::string_view pattern) {
  return pattern.find_first_of("*?[") != std::string_view::npos;
}

/// The first word of the text, which loses it and the blank behind it.
std::string_view TakeWord(std::string_view* text) {
  const std::string_view word = text->substr(0, text->find(' '));
  text->remove_prefix(std::min(text->size(), word.size() + 1));
  return word;
}

template <class Int>
bool TakeNumber(std::string_view* text, Int* out) {
  const std::optional<Int> number = ParseInteger<Int>(TakeWord(text));
  if (number) *out = *number;
  return number.has_value();
}

bool TakeSum(std::string_view* text, store::ObjectId* sum) {
  const auto id = store::ObjectId::FromText(TakeWord(text));
  if (id) *sum = *id;
  return id.has_value();
}

/// The number of "17" or "17.sums", with that ending.
std::optional<uint64_t> NumberOf(std::string_view name, std::string_view ending) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || std::string_view(end, static_cast<size_t>(name.data() + name.size() - end)) != ending) return {};
  return number;
}

/// At `at` of the pattern stands [...]: whether it takes c, and where it ends; npos: it has no end.
std::pair<bool, size_t> TakesOneOf(std::string_view pattern, size_t at, char c) {
  const size_t close = pattern.find(']', at + 2);
  if (close == std::string_view::npos) return {false, close};
  std::string_view inside = pattern.substr(at + 1, close - at - 1);
  const bool other = inside.starts_with('!');
  if (other) inside.remove_prefix(1);
  bool found = false;
  for (size_t i = 0; i < inside.size(); ++i) {
    const bool range = i + 2 < inside.size() && inside[i + 1] == '-';
    found |= range ? inside[i] <= c && c <= inside[i + 2] : inside[i] == c;
    if (range) i += 2;
  }
  return {found != other && c != '/', close + 1};
}

bool MatchesFrom(std::string_view pattern, size_t at, std::string_view name, size_t begin, std::string* shown) {
  for (; at < pattern.size(); ++begin) {
    if (pattern[at] == '*') {
      const size_t kept = shown->size();
      for (size_t end = begin;; ++end) {
        shown->resize(kept);
        *shown += StrCat(name.substr(begin, end - begin), "\n");
        if (MatchesFrom(pattern, at + 1, name, end, shown)) return true;
        if (end == name.size() || name[end] == '/') break;
      }
      shown->resize(kept);
      return false;
    }
    if (begin == name.size()) return false;
    if (pattern[at] == '?' || pattern[at] == '[') {
      const auto [takes, next] = pattern[at] == '?' ? std::pair(name[begin] != '/', at + 1) : TakesOneOf(pattern, at, name[begin]);
      if (!takes) return false;
      *shown += name[begin];
      *shown += '\n';
      at = next;
    } else if (pattern[at++] != name[begin]) {
      return false;
    }
  }
  return begin == name.size();
}

}  // namespace

bool MatchesName(std::string_view pattern, std::string_view name, std::string* shown) {
  shown->clear();
  return MatchesFrom(pattern, 0, name, 0, shown);
}

Checkpoints::Checkpoints(std::string directory, Rules rules, std::function<bool()> stop)
    : directory_(std::move(directory)), rules_(std::move(rules)), stop_(std::move(stop)) {}

std::string Checkpoints::PathOf(uint64_t number) const {
  return StrCat(directory_, "/", number);
}

std::string Checkpoints::SumsOf(uint64_t number) const {
  return PathOf(number) + kSums;
}

std::string Checkpoints::FailuresOf(uint64_t number) const {
  return PathOf(number) + kFailures;
}

// --- what there is

std::vector<Checkpoints::File> Checkpoints::FilesBelow(const std::string& directory) const {
  std::vector<File> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    struct stat st {};
    const std::string& path = at->path().native();
    if (lstat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) continue;
    files.push_back({path.substr(directory.size() + 1), st.st_size, TimeOf(st)});
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.name < b.name; });
  return files;
}

std::vector<Checkpoints::Set> Checkpoints::SetsOf(const std::vector<File>& files) const {
  std::map<std::string, std::vector<std::vector<const File*>>> by_shown;
  std::vector<std::vector<const File*>> fixed(rules_.files.size());
  bool any_wildcard = false;
  std::string shown;
  for (size_t i = 0; i < rules_.files.size(); ++i) {
    const bool wildcard = HasWildcard(rules_.files[i]);
    any_wildcard |= wildcard;
    for (const File& file : files) {
      if (!MatchesName(rules_.files[i], file.name, &shown)) continue;
      auto& of = wildcard ? by_shown.try_emplace(shown, rules_.files.size()).first->second : fixed;
      of[i].push_back(&file);
    }
  }
  if (!any_wildcard) by_shown.try_emplace("", rules_.files.size());
  std::vector<Set> sets;
  for (const auto& [what, members] : by_shown) {
    Set set;
    bool whole = true;
    for (size_t i = 0; i < rules_.files.size(); ++i) {
      const auto& of = HasWildcard(rules_.files[i]) ? members[i] : fixed[i];
      whole &= !of.empty();
      for (const File* file : of) {
        if (set.first.empty()) set.first = file->name;
        set.time_ns = std::max(set.time_ns, file->time_ns);
        set.files.push_back(*file);
      }
    }
    if (whole) sets.push_back(std::move(set));
  }
  std::stable_sort(sets.begin(), sets.end(), [](const Set& a, const Set& b) { return a.time_ns > b.time_ns; });
  return sets;
}

std::vector<Checkpoints::Good> Checkpoints::GoodOnes() const {
  std::vector<uint64_t> numbers;
  std::error_code error;
  for (fs::directory_iterator at(directory_, error), end; !error && at != end; at.increment(error)) {
    if (const auto number = NumberOf(at->path().filename().native(), kSums)) numbers.push_back(*number);
  }
  std::sort(numbers.rbegin(), numbers.rend());
  std::vector<Good> good;
  for (const uint64_t number : numbers) {
    if (Result<Good> read = ReadSums(PathOf(number)); read.ok()) {
      read->number = number;
      good.push_back(*std::move(read));
    }
  }
  return good;
}

Result<Checkpoints::Good> Checkpoints::ReadSums(const std::string& place) {
  const std::string path = place + kSums;
  const os::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return FileError(path, errno);
  std::string text;
  HARROW_RETURN_IF_ERROR(ReadText(path, fd.get(), &text));
  const Status damaged(Code::kDamaged, StrCat(path, " does not read as it was written"));
  const size_t last = text.size() < 2 ? std::string::npos : text.rfind('\n', text.size() - 2);
  if (last == std::string::npos || text.back() != '\n' || !text.starts_with(kHead)) return damaged;
  Good good{.place = place};
  std::string_view end = std::string_view(text).substr(last + 1);
  end.remove_suffix(1);
  std::string_view body = std::string_view(text).substr(0, last + 1);
  const store::ObjectId all = store::IdOf(body, store::Kind::kFile);
  uint64_t files = 0;
  store::ObjectId sum;
  if (TakeWord(&end) != "end" || !TakeNumber(&end, &files) || !TakeSum(&end, &sum) || sum != all)
    return damaged;
  std::string_view head = body.substr(kHead.size(), body.find('\n') - kHead.size());
  if (!TakeNumber(&head, &good.time_ns)) return damaged;
  body.remove_prefix(body.find('\n') + 1);
  while (!body.empty()) {
    std::string_view line = body.substr(0, body.find('\n'));
    body.remove_prefix(line.size() + 1);
    File file;
    if (TakeWord(&line) != "file" || !TakeSum(&line, &file.sum) || !TakeNumber(&line, &file.bytes)) return damaged;
    file.name = Unescaped(line);
    file.time_ns = TimeOfFile(StrCat(place, "/", file.name));
    good.files.push_back(std::move(file));
  }
  return good.files.size() == files ? Result<Good>(std::move(good)) : damaged;
}

Status Checkpoints::WriteSums(const Good& good) const {
  std::string text = StrCat(kHead, good.time_ns, "\n");
  for (const File& file : good.files) text += StrCat("file ", file.sum.Text(), " ", file.bytes, " ", Escaped(file.name), "\n");
  const store::ObjectId all = store::IdOf(text, store::Kind::kFile);
  text += StrCat("end ", good.files.size(), " ", all.Text(), "\n");
  const std::string path = SumsOf(good.number), temporary = path + kUnfinished;
  {
    const os::Fd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (fd.get() < 0) return FileError(temporary, errno);
    HARROW_RETURN_IF_ERROR(WriteAllTo(temporary, fd.get(), text));
    if (fsync(fd.get()) != 0) return FileError(temporary, errno);
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) return FileError(path, errno);
  return SyncDirectory(directory_);
}

// --- an attempt begins

Result<Checkpoints::Begun> Checkpoints::Begin() {
  std::error_code error;
  fs::create_directories(fs::path(directory_).parent_path(), error);
  HARROW_RETURN_IF_ERROR(MakeDirectory(directory_));
  Begun begun;
  if (rules_.by_itself) {
    const Result<Kept> kept = KeepSet(TimeOfFile(directory_ + "/alive"));
    if (!kept.ok() && kept.status().code() != Code::kNotFound)
      begun.trouble = StrCat("what the attempt before left is no checkpoint: ", kept.status().message());
  }
  const std::vector<Good> good = GoodOnes();
  for (fs::directory_iterator at(directory_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    const bool keeps = std::any_of(good.begin(), good.end(),
                                   [&](const Good& each) { return name == StrCat(each.number) || name == StrCat(each.number, kSums) || name == StrCat(each.number, kFailures); });
    if (!keeps) HARROW_RETURN_IF_ERROR(RemoveAll(at->path()));
  }
  HARROW_RETURN_IF_ERROR(MakeMine());
  if (rules_.alike != nullptr) AlikeFiles::Forget(AlikePlace(), AlikeFiles::kTurn);  // of an attempt that did not live to end it
  HARROW_RETURN_IF_ERROR(MakeFilesDirectories());
  for (const Good& each : good) {
    const Status copied = GiveBack(each);
    if (copied.ok()) {
      begun.restart = RestartOf(each);
      return begun;
    }
    HARROW_RETURN_IF_ERROR(MakeFilesDirectories());
    // It may well be whole.
    if (copied.code() != Code::kDamaged) return copied;
    begun.trouble += StrCat(begun.trouble.empty() ? "" : "; ", copied.message(),
                            &each == &good.back() ? ": it begins anew" : ": it goes on from the checkpoint before");
    HARROW_RETURN_IF_ERROR(Drop(each.number));
  }
  return begun;
}

Status Checkpoints::MakeMine() {
  uint64_t words[2] = {};
  if (!os::RandomBytes(words, sizeof words)) return FileError("random numbers", errno);
  mine_ = HexDigits(words[0]) + HexDigits(words[1]);
  const os::Fd fd(open(BegunBy().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd.get() < 0) return FileError(BegunBy(), errno);
  // A disk that is full keeps nobody from running.
  if (!WriteAllTo(BegunBy(), fd.get(), mine_).ok()) mine_.clear();
  return {};
}

Status Checkpoints::StillMine() const {
  if (mine_.empty()) return {};
  std::string found;
  const os::Fd fd(open(BegunBy().c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() >= 0) HARROW_RETURN_IF_ERROR(ReadText(BegunBy(), fd.get(), &found));
  return found == mine_ ? Status() : Status(Code::kRefused, "another attempt has begun since, and has taken them over");
}

AlikeFiles::Place Checkpoints::AlikePlace() const {
  const fs::path directory = directory_;
  return {.directory = directory.parent_path() / "alike", .task = directory.filename()};
}

Status Checkpoints::Drop(uint64_t number) const {
  if (rules_.alike != nullptr) AlikeFiles::Forget(AlikePlace(), StrCat(number));
  HARROW_RETURN_IF_ERROR(RemoveAll(SumsOf(number)));
  HARROW_RETURN_IF_ERROR(RemoveAll(FailuresOf(number)));
  return RemoveAll(PathOf(number));
}

Result<bool> Checkpoints::CountFailure() {
  HARROW_RETURN_IF_ERROR(StillMine());
  const std::vector<Good> good = GoodOnes();
  if (good.empty()) return Status(Code::kNotFound, "there is no checkpoint");
  const std::string path = FailuresOf(good.front().number);
  const os::Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  struct stat st {};
  if (fd.get() < 0 || write(fd.get(), "\n", 1) != 1 || fstat(fd.get(), &st) != 0) return FileError(path, errno);
  if (st.st_size < kMostFailures) return false;
  HARROW_RETURN_IF_ERROR(Drop(good.front().number));
  if (good.size() == 1) {
    const os::Fd mark(open(GivenUp().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (mark.get() < 0) return FileError(GivenUp(), errno);
  }
  return true;
}

Status Checkpoints::MakeFilesDirectories() const {
  HARROW_RETURN_IF_ERROR(RemoveAll(Staging()));
  HARROW_RETURN_IF_ERROR(MakeDirectory(Staging()));
  if (rules_.unpacked.empty()) return {};
  HARROW_RETURN_IF_ERROR(RemoveAll(rules_.unpacked));
  HARROW_RETURN_IF_ERROR(MakeDirectory(rules_.unpacked));
  HARROW_RETURN_IF_ERROR(MakeDirectory(files_directory()));
  return MakeDirectory(rules_.unpacked + "/read");
}

Status Checkpoints::GiveBack(const Good& good) const {
  return rules_.unpacked.empty() ? CopyBack(good) : Unpack(good.place, rules_.unpacked + "/read", stop_);
}

bool Checkpoints::IsGivenUp() const {
  return access(GivenUp().c_str(), F_OK) == 0;
}

Status Checkpoints::CopyBack(const Good& good) const {
  for (const File& file : good.files) {
    HARROW_RETURN_IF_ERROR(StillMine());
    const std::string from = StrCat(good.place, "/", file.name), to = StrCat(files_directory(), "/", file.name);
    std::error_code error;
    fs::create_directories(fs::path(to).parent_path(), error);
    const os::Fd in(open(from.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat st {};
    if (in.get() < 0 || fstat(in.get(), &st) != 0) {
      if (errno == ENOENT) return Status(Code::kDamaged, StrCat("the checkpoint ", from, " is gone"));
      return FileError(from, errno);
    }
    const os::Fd out(open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 0700));
    if (out.get() < 0) return FileError(to, errno);
    store::Hasher hasher;
    HARROW_RETURN_IF_ERROR(ReadBlocks(from, in.get(), [&](std::string_view block) {
      if (Stopped()) return Status(Code::kUnavailable, "it is to end");
      hasher.Add(block.data(), block.size());
      return WriteAllTo(to, out.get(), block);
    }));
    if (st.st_size != file.bytes || hasher.Id(store::Kind::kFile) != file.sum)
      return Status(Code::kDamaged, StrCat("the checkpoint ", from, " is not what was written (its digest differs)"));
    const timespec times[] = {st.st_atim, st.st_mtim};
    futimens(out.get(), times);
  }
  return {};
}

std::string Checkpoints::RestartOf(const Good& good) const {
  if (!rules_.unpacked.empty()) return rules_.unpacked + "/read";
  if (rules_.files.empty()) return files_directory();
  const std::vector<Set> sets = SetsOf(good.files);
  return sets.empty() ? files_directory() : StrCat(files_directory(), "/", sets.front().first);
}

std::string Checkpoints::Restart() const {
  const std::vector<Good> good = GoodOnes();
  return good.empty() ? "" : RestartOf(good.front());
}

// --- an attempt has ended

Result<Checkpoints::Kept> Checkpoints::Keep(bool ran) {
  HARROW_RETURN_IF_ERROR(StillMine());
  if (rules_.by_itself) {
    if (ran) Beat();  // what was left alone before it ended is measured by the file system's own time
    return KeepSet(TimeOfFile(directory_ + "/alive"));
  }
  if (!rules_.unpacked.empty()) return PackFiles();
  std::vector<File> files = FilesBelow(files_directory());
  if (files.empty()) return Status(Code::kNotFound, "left no file in HARROW_CHECKPOINT_DIR");
  std::string shown;
  for (const std::string& pattern : rules_.files) {
    if (std::none_of(files.begin(), files.end(), [&](const File& file) { return MatchesName(pattern, file.name, &shown); }))
      return Status(Code::kNotFound, StrCat("left no ", pattern, " in HARROW_CHECKPOINT_DIR, which checkpoint_files names"));
  }
  int64_t time_ns = 0;
  for (const File& file : files) time_ns = std::max(time_ns, file.time_ns);
  return Seal(std::move(files), time_ns);
}

Result<Checkpoints::Kept> Checkpoints::PackFiles() {
  int64_t time_ns = 0;
  for (const File& file : FilesBelow(files_directory())) time_ns = std::max(time_ns, file.time_ns);
  if (time_ns == 0) return Status(Code::kNotFound, "left no image");
  const std::vector<Good> good = GoodOnes();
  std::optional<AlikeImages::Turn> turn;
  const auto earlier = [&](const Sample& sample) {
    std::vector<std::string> directories;
    if (!good.empty()) directories.push_back(good.front().place);
    if (rules_.alike != nullptr) {
      turn.emplace(rules_.alike->Take(sample, stop_, AlikePlace()));
      directories.insert(directories.end(), turn->earlier().begin(), turn->earlier().end());
    }
    return directories;
  };
  const auto stop = [&] {
    if (turn) turn->Beat();
    return Stopped();
  };
  const Result<Packed> packed = Pack(files_directory(), Staging(), earlier, stop);
  if (!packed.ok()) return packed.status();
  Result<Kept> kept = Seal(FilesBelow(Staging()), time_ns, turn ? turn->earlier() : std::vector<std::string>());
  if (!kept.ok()) return kept;
  if (turn) turn->Done(kept->place);
  kept->files = packed->files;
  kept->bytes = packed->bytes;
  kept->written = packed->written;
  return kept;
}

Result<Checkpoints::Kept> Checkpoints::KeepSet(int64_t alive_ns) {
  std::vector<Set> sets = SetsOf(FilesBelow(files_directory()));
  const std::vector<Good> good = GoodOnes();
  const int64_t known = good.empty() ? 0 : good.front().time_ns;
  std::erase_if(sets, [&](const Set& set) { return set.time_ns <= known; });
  // The newest may be one that was being written; so may any of several that are equally new, as the file system's clock has ticks.
  if (const int64_t newest = sets.empty() ? 0 : sets.front().time_ns; newest + kLeftAlone > alive_ns)
    std::erase_if(sets, [&](const Set& set) { return set.time_ns == newest; });
  if (!sets.empty()) return Seal(std::move(sets.front().files), sets.front().time_ns);
  if (good.empty()) return Status(Code::kNotFound, "left no whole set of the files that checkpoint_files names");
  Kept kept{.files = good.front().files.size(), .bytes = 0, .news = false};
  for (const File& file : good.front().files) kept.bytes += file.bytes;
  return kept;
}

bool Checkpoints::IsLinkOf(const Good& good, const std::string& path, File* file) {
  struct stat one {}, other {};
  if (stat(path.c_str(), &one) != 0 || one.st_nlink < 2) return false;
  for (const File& known : good.files) {
    if (stat(StrCat(good.place, "/", known.name).c_str(), &other) != 0) continue;
    if (one.st_dev != other.st_dev || one.st_ino != other.st_ino || one.st_size != known.bytes) continue;
    file->bytes = known.bytes;
    file->sum = known.sum;
    return true;
  }
  return false;
}

Status Checkpoints::Sum(const std::string& path, File* file) const {
  const os::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0 || fsync(fd.get()) != 0) return FileError(path, errno);
  store::Hasher hasher;
  file->bytes = 0;
  HARROW_RETURN_IF_ERROR(ReadBlocks(path, fd.get(), [&](std::string_view block) {
    hasher.Add(block.data(), block.size());
    file->bytes += static_cast<int64_t>(block.size());
    return Status();
  }));
  file->sum = hasher.Id(store::Kind::kFile);
  return {};
}

Result<Checkpoints::Kept> Checkpoints::Seal(std::vector<File> files, int64_t time_ns, const std::vector<std::string>& others) {
  Kept kept{.files = files.size()};
  std::vector<Good> known = GoodOnes();
  known.resize(std::min<size_t>(known.size(), 1));
  for (const std::string& other : others) {
    if (Result<Good> read = ReadSums(other); read.ok()) known.push_back(*std::move(read));
  }
  for (File& file : files) {
    const std::string path = StrCat(Staging(), "/", file.name);
    const bool is_link = std::any_of(known.begin(), known.end(), [&](const Good& each) { return IsLinkOf(each, path, &file); });
    if (!is_link) HARROW_RETURN_IF_ERROR(Sum(path, &file));
    kept.bytes += file.bytes;
  }
  Good good{.number = 1, .time_ns = time_ns, .files = std::move(files)};
  std::error_code error;
  for (fs::directory_iterator at(directory_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (const auto number = NumberOf(name.substr(0, name.find('.')), "")) good.number = std::max(good.number, *number + 1);
  }
  const std::string place = kept.place = PathOf(good.number);
  HARROW_RETURN_IF_ERROR(StillMine());
  if (!rules_.by_itself) {
    if (rename(Staging().c_str(), place.c_str()) != 0) return FileError(place, errno);
  } else {
    HARROW_RETURN_IF_ERROR(MakeDirectory(place));
    for (const File& file : good.files) {
      const std::string to = StrCat(place, "/", file.name);
      fs::create_directories(fs::path(to).parent_path(), error);
      if (rename(StrCat(files_directory(), "/", file.name).c_str(), to.c_str()) != 0) return FileError(to, errno);
    }
  }
  HARROW_RETURN_IF_ERROR(StillMine());
  HARROW_RETURN_IF_ERROR(WriteSums(good));
  HARROW_RETURN_IF_ERROR(StillMine());
  for (const Good& each : GoodOnes()) {
    if (each.number + kGenerations > good.number) continue;
    (void)Drop(each.number);
  }
  return kept;
}

Status Checkpoints::Ask() const {
  HARROW_RETURN_IF_ERROR(StillMine());
  const os::Fd fd(open(request().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  return fd.get() >= 0 ? Status() : FileError(request(), errno);
}

void Checkpoints::Beat() const {
  if (!StillMine().ok()) return;
  const os::Fd fd(open((directory_ + "/alive").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (fd.get() >= 0) futimens(fd.get(), nullptr);
}

void Checkpoints::Clear() const {
  if (!rules_.unpacked.empty()) (void)RemoveAll(rules_.unpacked);
}

Status Checkpoints::Remove() const {
  HARROW_RETURN_IF_ERROR(StillMine());
  HARROW_RETURN_IF_ERROR(RemoveAll(directory_));
  if (rules_.alike != nullptr) AlikeFiles::Forget(AlikePlace(), {});
  std::error_code error;
  fs::remove(fs::path(directory_).parent_path(), error);  // which has no others
  return {};
}

}  // namespace harrow::migrate
