// The directory is reached by its descriptor, whatever its path leads to by now: through /proc/self/fd, which
// shows the descriptors of the process's first thread to those, too, that have a table of their own. So
// whoever opens a spool has the same table as the first thread.
//
// Files are called by numbers alone. An attempt that is given back before it began, and begins again, gets a
// new file. What is open for reading is bounded (kMostOpen), whatever is being read; who needs a file for
// longer holds it.
#include "stream/spool.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

namespace harrow::stream {
namespace {

constexpr size_t kMostOpen = 64;

void RemoveFiles(int directory) {
  const int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const entries = fd < 0 ? nullptr : fdopendir(fd);
  if (entries == nullptr) {
    if (fd >= 0) close(fd);
    return;
  }
  std::vector<std::string> names;
  while (const dirent* entry = readdir(entries)) names.emplace_back(entry->d_name);
  for (const std::string& name : names) unlinkat(directory, name.c_str(), 0);
  closedir(entries);
}

}  // namespace

Result<std::unique_ptr<Spool>> Spool::Open(const std::string& parent) {
  const std::string path = parent + "/streams";
  const auto fails = [&] {
    return Status(
        Code::kUnavailable,
        StrCat("cannot keep there what tasks write to streams: ", Printable(path), ": ", strerror(errno)));
  };
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return fails();
  os::Fd directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!directory.ok() || fstat(directory.get(), &info) != 0) return fails();
  if (info.st_uid != geteuid() || fchmod(directory.get(), 0700) != 0) {
    errno = EPERM;
    return fails();
  }
  RemoveFiles(directory.get());
  return std::unique_ptr<Spool>(new Spool(path, std::move(directory)));
}

Spool::~Spool() {
  RemoveFiles(directory_.get());
  (void)rmdir(path_.c_str());
}

std::shared_ptr<Log> Spool::Make(AttemptId attempt) {
  Drop(attempt);
  std::lock_guard lock(mutex_);
  const std::string name = StrCat(attempt.task.value, "-", attempt.number, "-", ++made_);
  auto log = std::make_shared<Log>(attempt, StrCat("/proc/self/fd/", directory_.get(), "/", name));
  logs_[attempt] = log;
  return log;
}

std::shared_ptr<Log> Spool::Find(AttemptId attempt) {
  std::lock_guard lock(mutex_);
  const auto found = logs_.find(attempt);
  return found == logs_.end() ? nullptr : found->second;
}

void Spool::Drop(AttemptId attempt) {
  std::shared_ptr<Log> log;
  {
    std::lock_guard lock(mutex_);
    const auto found = logs_.find(attempt);
    if (found == logs_.end()) return;
    log = std::move(found->second);
    logs_.erase(found);
  }
  log->SetState(Log::State::kGone);
  (void)unlink(log->path().c_str());
}

std::vector<AttemptId> Spool::Whole() {
  std::lock_guard lock(mutex_);
  std::vector<AttemptId> whole;
  for (const auto& [attempt, log] : logs_) {
    if (log->state() == Log::State::kWhole) whole.push_back(attempt);
  }
  std::sort(whole.begin(), whole.end());
  return whole;
}

size_t Spool::count() {
  std::lock_guard lock(mutex_);
  return logs_.size();
}

Result<std::shared_ptr<LogReader>> Spool::Read(const std::shared_ptr<Log>& log) {
  if (const auto found = reader_of_.find(log.get()); found != reader_of_.end()) {
    readers_.splice(readers_.begin(), readers_, found->second);
    return readers_.front().second;
  }
  os::Fd file;
  int error = 0;
  // Where the process may have fewer files than are kept open here, these make way.
  while (true) {
    file = os::Fd(open(log->path().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    error = errno;
    if (file.ok() || (error != EMFILE && error != ENFILE) || readers_.empty()) break;
    reader_of_.erase(readers_.back().first);
    readers_.pop_back();
  }
  if (!file.ok()) {
    return Status(error == EMFILE || error == ENFILE ? Code::kUnavailable : Code::kDamaged,
                  StrCat("what was written to streams cannot be read again: ", strerror(error)));
  }
  if (readers_.size() >= kMostOpen) {
    reader_of_.erase(readers_.back().first);
    readers_.pop_back();
  }
  readers_.emplace_front(log.get(), std::make_shared<LogReader>(log, std::move(file)));
  reader_of_[log.get()] = readers_.begin();
  return readers_.front().second;
}

std::shared_ptr<Split> Spool::SplitOf(const std::shared_ptr<Log>& log, StreamId stream, Records records) {
  std::shared_ptr<Split>& split = splits_[{log, stream}];
  if (!split) split = std::make_shared<Split>(records);
  return split;
}

void Spool::Tidy() {
  std::erase_if(splits_, [](const auto& entry) { return entry.first.first->state() == Log::State::kGone; });
  for (auto it = readers_.begin(); it != readers_.end();) {
    const auto next = std::next(it);
    if (it->second->log().state() == Log::State::kGone) {
      reader_of_.erase(it->first);
      readers_.erase(it);
    }
    it = next;
  }
}

Cursor::Cursor(Spool* spool, Of of) : spool_(spool), of_(std::move(of)) {
  if (!of_.split) return;
  split_ = spool_->SplitOf(of_.log, of_.stream, of_.records);
  split_->Come();
}

Cursor::~Cursor() {
  if (split_) split_->Leave();
}

Result<Range> Cursor::Next(int64_t most) {
  // The state first: what is whole does not grow any more.
  const Log::State state = of_.log->state();
  const int64_t length = of_.log->length();
  if (state == Log::State::kGone) {
    failed_ = true;
    return Range{};
  }
  Range range{of_.offset, std::min(most, length - of_.offset)};
  if (split_) {
    const Split::Read read = [this](int64_t offset, char* to, size_t size) -> Status {
      Result<std::shared_ptr<LogReader>> reader = spool_->Read(of_.log);
      if (!reader.ok()) return reader.status();
      return ReadAll((*reader)->fd(), offset, to, size);
    };
    Result<Range> next = split_->Next(of_.reader, of_.offset, length, state != Log::State::kOpen, read);
    if (!next.ok()) return next.status();
    range = *next;
    range.bytes = std::min(most, range.bytes);
  } else if (range.bytes < 0) {
    return Status(Code::kInvalid, "more of a stream is asked for than was written");
  }
  if (range.bytes == 0 && state == Log::State::kWhole) over_ = true;
  if (range.bytes == 0 && state == Log::State::kIncomplete) failed_ = true;
  return range;
}

}  // namespace harrow::stream
