// A file is written when an image is about to be kept, under another name at first, so that nobody reads half of one: it says what the image has, and
// its name says when that was, whose it is, and "turn". When the image is whole the file gets the image's number instead. Both are renamed and
// removed by the task's own agent alone, as attempts follow one another.
//
// Who is to be waited for? Of two that begin at once on two nodes each may see the other. So only those are waited for that come before by their
// names; as waiting goes one way only, it ends. An agent that stands, or has died, does not touch its file any more, and is not waited for
// after kStands, by the file system's clock. All of this is only about what is written twice.
#include "migrate/alike_files.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "migrate/encoding.h"
#include "os/posix_files.h"
#include "store/files.h"
#include "store/hasher.h"

namespace harrow::migrate {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAlikeHead = "harrow-alike 2\n";
constexpr std::string_view kNew = "new";
constexpr size_t kMostOfFile = 1 << 20;
constexpr auto kBeats = std::chrono::seconds(1);
constexpr int64_t kStands = 30;  // seconds

/// The parts of a name: when, whose, and which of its images.
struct NameParts {
  std::string_view time, task, what;
};
NameParts PartsOf(std::string_view name) {
  NameParts parts;
  const size_t first = name.find('.'), last = name.rfind('.');
  if (first == name.npos || last == first) return parts;
  return {name.substr(0, first), name.substr(first + 1, last - first - 1), name.substr(last + 1)};
}

std::string TimeNow() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string digits = StrCat(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  digits.insert(0, 20 - std::min<size_t>(20, digits.size()), '0');
  return digits;
}

std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) names.push_back(at->path().filename());
  return names;
}

/// Those that are multiples of the least power of two that leaves at most so many.
AlikeFiles::Sampled Thinned(const Sample& sample) {
  AlikeFiles::Sampled thinned{.digests = sample};
  while (thinned.digests.size() > AlikeFiles::kMostDigests) {
    thinned.one_of *= 2;
    std::erase_if(thinned.digests, [&](uint64_t digest) { return digest % thinned.one_of != 0; });
  }
  return thinned;
}

std::string TextOf(const AlikeFiles::Sampled& sampled) {
  std::string text(kAlikeHead);
  PutNumber(sampled.one_of, &text);
  for (const uint64_t digest : sampled.digests) PutNumber(digest, &text);
  PutId(store::IdOf(text, store::Kind::kFile), &text);
  return text;
}

}  // namespace

size_t AlikeFiles::Sampled::InCommon(const Sample& sample) const {
  if (one_of == 1) return migrate::InCommon(sample, digests);
  Sample thinned;
  std::copy_if(sample.begin(), sample.end(), std::back_inserter(thinned), [this](uint64_t digest) { return digest % one_of == 0; });
  return migrate::InCommon(thinned, digests) * one_of;
}

std::shared_ptr<const AlikeFiles::Sampled> AlikeFiles::Known::Find(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

void AlikeFiles::Known::Add(const std::string& name, std::shared_ptr<const Sampled> sampled) {
  const std::lock_guard lock(mutex_);
  if (by_name_.size() >= 4 * kRead) by_name_.erase(by_name_.begin());
  by_name_[name] = std::move(sampled);
}

AlikeFiles::AlikeFiles(Place place, const Sample& sample, Known* known) : place_(std::move(place)), known_(*known) {
  std::error_code error;
  fs::create_directories(place_.directory, error);
  const std::string temporary = StrCat(place_.directory, "/", TimeNow(), ".", place_.task, ".", kNew);
  const os::Fd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.ok()) return;
  const bool written = store::WriteAt(fd.get(), 0, TextOf(Thinned(sample)));
  // The time is looked at last: who comes after it is to find the file.
  time_ = TimeNow();
  const std::string name = StrCat(time_, ".", place_.task, ".", kTurn);
  if (written && rename(temporary.c_str(), StrCat(place_.directory, "/", name).c_str()) == 0) {
    name_ = name;
    beat_ = std::chrono::steady_clock::now();
  } else {
    unlink(temporary.c_str());
  }
}

AlikeFiles::~AlikeFiles() {
  if (!name_.empty()) unlink(StrCat(place_.directory, "/", name_).c_str());
}

void AlikeFiles::Beat(std::chrono::steady_clock::time_point now) {
  if (name_.empty() || now - beat_ < kBeats) return;
  beat_ = now;
  (void)utimensat(AT_FDCWD, StrCat(place_.directory, "/", name_).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

std::shared_ptr<const AlikeFiles::Sampled> AlikeFiles::Read(const std::string& name) const {
  const std::string path = StrCat(place_.directory, "/", name);
  const os::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.ok()) return nullptr;
  const Result<std::string> text = store::ReadAll(fd.get(), path, kMostOfFile);
  constexpr size_t kDigest = 16;
  if (!text.ok() || !text->starts_with(kAlikeHead) || text->size() < kAlikeHead.size() + kDigest) return nullptr;
  std::string_view body = std::string_view(*text).substr(0, text->size() - kDigest), end = std::string_view(*text).substr(body.size());
  store::ObjectId digest;
  if (!GetId(&end, &digest) || store::IdOf(body, store::Kind::kFile) != digest) return nullptr;
  body.remove_prefix(kAlikeHead.size());
  auto sampled = std::make_shared<Sampled>();
  if (!GetNumber(&body, &sampled->one_of) || sampled->one_of == 0 || body.size() % 8 != 0) return nullptr;
  sampled->digests.resize(body.size() / 8);
  if (!body.empty()) std::memcpy(sampled->digests.data(), body.data(), body.size());
  return sampled;
}

std::vector<AlikeFiles::Sampled> AlikeFiles::Others() {
  std::vector<Sampled> others;
  struct stat own {};
  if (name_.empty() || stat(StrCat(place_.directory, "/", name_).c_str(), &own) != 0) return others;
  std::vector<std::string> names = NamesIn(place_.directory);
  std::sort(names.rbegin(), names.rend());
  const std::string beside = fs::path(place_.directory).parent_path();
  size_t kept = 0;
  for (const std::string& name : names) {
    const auto [time, task, what] = PartsOf(name);
    if (task.empty() || task == place_.task || what == kNew) continue;
    const std::string path = StrCat(place_.directory, "/", name);
    const bool comes = what == kTurn;
    if (comes) {
      struct stat st {};
      if (name > name_ || stat(path.c_str(), &st) != 0 || st.st_mtim.tv_sec + kStands < own.st_mtim.tv_sec) continue;
    } else if (kept++ == kRead) {
      break;
    }
    // A file goes on saying the same when its image is whole.
    const std::string key = StrCat(time, ".", task);
    std::shared_ptr<const Sampled> sampled = known_.Find(key);
    if (!sampled) {
      sampled = Read(name);
      if (!sampled) continue;
      known_.Add(key, sampled);
    }
    Sampled other = *sampled;
    other.comes = comes;
    if (!comes) other.directory = StrCat(beside, "/", task, "/", what);
    others.push_back(std::move(other));
  }
  return others;
}

void AlikeFiles::Done(const std::string& name) {
  if (name_.empty()) return;
  const std::string whole = StrCat(time_, ".", place_.task, ".", name);
  if (rename(StrCat(place_.directory, "/", name_).c_str(), StrCat(place_.directory, "/", whole).c_str()) == 0) name_.clear();
}

void AlikeFiles::Forget(const Place& place, std::string_view name) {
  for (const std::string& each : NamesIn(place.directory)) {
    const NameParts parts = PartsOf(each);
    if (parts.task == place.task && (name.empty() || parts.what == name)) unlink(StrCat(place.directory, "/", each).c_str());
  }
  if (name.empty()) rmdir(place.directory.c_str());  // where nobody else tells anything
}

}  // namespace harrow::migrate
