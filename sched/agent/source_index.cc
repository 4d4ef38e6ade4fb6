// Lines are words with blanks between them and a newline at the end; one that is cut or not understood is
// passed over. Files are not synced: after a crash of the node the store holds nothing either.
//
//     harrow sources 1
//     OBJECT BYTES SOURCE PATH     a path has %XX for its controls, blanks and percent signs
//
//     harrow held 1 SESSION
//     OBJECT BYTES FILE
#include "agent/source_index.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "os/log.h"

namespace harrow::agent {
namespace {

constexpr std::string_view kSources = "harrow sources 1\n";
constexpr int64_t kJustWritten = 100'000'000;  // ns: longer than the ticks by which kernels note times

std::string Escape(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > ' ' && byte != '%' && byte != 127) {
      out += c;
    } else {
      out.append(1, '%').append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
    }
  }
  return out;
}

template <class Number>
bool Read(std::string_view word, Number* number, int base = 10) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *number, base);
  return error == std::errc() && end == word.data() + word.size();
}

std::optional<std::string> Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t byte = 0;
    if (text[i] != '%') {
      out += text[i];
    } else if (i + 2 < text.size() && Read(text.substr(i + 1, 2), &byte, 16)) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      return std::nullopt;
    }
  }
  return out;
}

/// Calls back with an object that the store holds and the words behind it.
template <size_t kWords, class Each>
void ForEachLine(std::string_view text, const store::Store& store, const Each& each) {
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    std::string_view line = text.substr(0, end);
    std::array<std::string_view, kWords + 2> words;
    size_t count = 0;
    for (; count < words.size() && !line.empty(); ++count) {
      words[count] = line.substr(0, line.find(' '));
      line.remove_prefix(std::min(words[count].size() + 1, line.size()));
    }
    const std::optional<store::ObjectId> id = store::ObjectId::FromText(words[0]);
    int64_t bytes = 0;
    if (count != words.size() || !line.empty() || !id || !Read(words[1], &bytes) || bytes < 0) continue;
    each(store::Object{*id, bytes}, &words[2], store.Has(*id));
  }
}

std::string ObjectWords(const store::Object& object) {
  return StrCat(object.id.Text(), " ", object.bytes, " ");
}

/// None: the disk is full, perhaps. What is there goes on to be true.
std::unique_ptr<os::AppendFile> Replace(os::FileSystem& fs, const std::string& file,
                                        const std::string& text) {
  const Status written = fs.WriteWhole(file, text, 0600);
  if (!written.ok()) {
    os::LogWarning(StrCat("later agents will not find all files: ", written.message()));
    return nullptr;
  }
  Result<std::unique_ptr<os::AppendFile>> opened = fs.OpenAppend(file, 0600);
  return opened.ok() ? *std::move(opened) : nullptr;
}

constexpr uint64_t kLongest = uint64_t{1} << 32;

}  // namespace

std::string SourceOf(const std::string& path, int64_t now_ns) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  // A file server is asked anew by whoever opens a file, not by who looks at it.
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const bool good = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  if (fd >= 0) close(fd);
  if (!good) return {};
  const auto of = [](const timespec& time) { return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec; };
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (of(info.st_ctim) > (now_ns != 0 ? now_ns : of(now)) - kJustWritten) return {};
  return StrCat(info.st_size, ".", of(info.st_mtim), ".", of(info.st_ctim), ".",
                static_cast<uint64_t>(info.st_ino), ".", static_cast<uint32_t>(info.st_mode & 0111));
}

std::unique_ptr<SourceIndex> SourceIndex::Open(os::FileSystem& fs, const std::string& file,
                                               const store::Store& store) {
  auto index = std::make_unique<SourceIndex>();
  const Result<std::string> text = fs.ReadPrivate(file, kLongest);
  if (text.ok() && text->starts_with(kSources)) {
    ForEachLine<2>(std::string_view(*text).substr(kSources.size()), store,
                   [&](const store::Object& object, const std::string_view* words, bool here) {
                     const std::optional<std::string> path = Unescape(words[1]);
                     if (path && here) index->Add({*path, std::string(words[0]), object});
                   });
  }
  std::string kept(kSources);
  for (const auto& [path, known] : index->known_)
    kept += StrCat(ObjectWords(known.object), known.source, " ", Escape(path), "\n");
  index->file_ = Replace(fs, file, kept);
  return index;
}

void SourceIndex::Add(const Entry& entry) {
  Known& known = known_[entry.path];
  if (!known.source.empty()) {
    const auto before = of_object_.find(known.object.id);
    if (--before->second == 0) of_object_.erase(before);
  }
  known = {entry.source, entry.object};
  ++of_object_[entry.object.id];
}

void SourceIndex::Note(const std::string& path, const std::string& source, const store::Object& object) {
  if (source.empty()) return;
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(path);
  if (found != known_.end() && found->second.source == source && found->second.object == object) return;
  Add({path, source, object});
  if (file_) (void)file_->Append(StrCat(ObjectWords(object), source, " ", Escape(path), "\n"));
}

/// Its lines stay: they are true, should the content come back, and the next Open looks.
void SourceIndex::ForgetGone(const store::Store& store) {
  const std::lock_guard lock(mutex_);
  std::erase_if(of_object_, [&](const auto& object) { return !store.Has(object.first); });
  std::erase_if(known_, [&](const auto& known) { return !of_object_.contains(known.second.object.id); });
}

std::optional<store::Object> SourceIndex::Find(const std::string& path, const std::string& source) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(path);
  if (source.empty() || found == known_.end() || found->second.source != source) return std::nullopt;
  return found->second.object;
}

bool SourceIndex::Names(const store::ObjectId& object) const {
  const std::lock_guard lock(mutex_);
  return of_object_.contains(object);
}

std::vector<SourceIndex::Entry> SourceIndex::Entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> entries;
  for (const auto& [path, known] : known_) entries.push_back({path, known.source, known.object});
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.path < b.path; });
  return entries;
}

std::unique_ptr<HeldLog> HeldLog::Open(os::FileSystem& fs, const std::string& file,
                                       const std::string& session, const store::Store& store, Held* held) {
  const std::string head = StrCat("harrow held 1 ", session, "\n");
  std::unordered_map<uint32_t, std::optional<store::Object>> last;
  const Result<std::string> text = fs.ReadPrivate(file, kLongest);
  if (text.ok() && text->starts_with(head)) {
    ForEachLine<1>(std::string_view(*text).substr(head.size()), store,
                   [&](const store::Object& object, const std::string_view* words, bool here) {
                     uint32_t number = 0;
                     if (!Read(words[0], &number)) return;
                     last[number] = here ? std::optional(object) : std::nullopt;
                   });
  }
  held->clear();
  for (const auto& [number, object] : last) {
    if (object) held->emplace_back(FileId(number), *object);
  }
  std::sort(held->begin(), held->end());
  std::string kept = head;
  for (const auto& [id, object] : *held) kept += StrCat(ObjectWords(object), id.value, "\n");
  auto log = std::make_unique<HeldLog>();
  log->file_ = Replace(fs, file, kept);
  return log;
}

void HeldLog::Note(FileId file, const store::Object& object) {
  const std::lock_guard lock(mutex_);
  if (file_) (void)file_->Append(StrCat(ObjectWords(object), file.value, "\n"));
}

}  // namespace harrow::agent
