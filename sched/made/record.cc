// Before a second attempt what the first one made of its declared outputs is removed, and nothing else. So an
// agent looks at them before it starts an attempt and writes down, without waiting for the disk, when it
// looked and which were there already. Only what such a record says was absent may be removed later, and of
// that only what came to be while the attempt ran (remove.cc). A record that got lost, with its node or a
// full disk, makes nothing removable: in doubt a file stays.
//
//   attempt ends well        its end is recorded; its outputs are results, and the server forgets what it
//   knew attempt ends otherwise   its end is recorded, and its result tells the server begin, end and what it
//   found agent or node dies       the server reads the agent's record; the end is its last sign of life
//   agent hangs              the same; its tasks run on until its warden stops them, who shows life then
//   server starts            all records are read
//
// Times are those of the file system that holds the run directory, as tasks' files get theirs from it or one
// whose clock is kept like it.
#include "made/record.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "run_dir/names.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace harrow::made {
namespace {

constexpr std::string_view kMagic = "HRMADE 1";
constexpr uint32_t kBegan = 1, kEnded = 2;
constexpr size_t kHead = 28;      // of an entry: all but the numbers of what was found, and the sum
constexpr int64_t kTick = 20'000'000;  // ns: file systems stamp by a clock of some ms

int64_t Nanoseconds(const timespec& t) {
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

int64_t Clock(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return Nanoseconds(now);
}

template <class T>
void Put(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T Get(std::string_view data, size_t at) {
  T value;
  memcpy(&value, data.data() + at, sizeof value);
  return value;
}

uint32_t SumOf(std::string_view data) {
  return static_cast<uint32_t>(XXH3_64bits(data.data(), data.size()));
}

std::string HeaderOf(const std::string& flow_id) {
  std::string header(kMagic);
  Put(static_cast<uint32_t>(flow_id.size()), &header);
  header += flow_id;
  Put(SumOf(header), &header);
  return header;
}

std::string EntryOf(uint32_t kind, uint32_t task, uint32_t attempt, int64_t time_ns,
                    const std::vector<uint32_t>& found) {
  std::string entry;
  entry.reserve(kHead + 4 * found.size() + 4);
  Put(static_cast<uint32_t>(found.size()), &entry);
  Put(kind, &entry);
  Put(task, &entry);
  Put(attempt, &entry);
  Put(uint32_t{0}, &entry);
  Put(time_ns, &entry);
  for (const uint32_t number : found) Put(number, &entry);
  Put(SumOf(entry), &entry);
  return entry;
}

bool WriteAllOf(int fd, std::string_view data) {
  // One write: entries of several slots must not mix.
  const ssize_t n = TEMP_FAILURE_RETRY(write(fd, data.data(), data.size()));
  return n == static_cast<ssize_t>(data.size());
}

}  // namespace

void Note(Attempt attempt, Attempts* attempts) {
  const auto [at, added] = attempts->try_emplace(attempt.task, attempt);
  if (!added && attempt.begin_ns >= at->second.begin_ns) at->second = std::move(attempt);
}

void Record::Set(std::string path, std::string flow_id) {
  const std::lock_guard lock(mutex_);
  if (created_) return;  // another server of the same run
  path_ = std::move(path);
  flow_id_ = std::move(flow_id);
}

Status Record::Create() {
  const std::lock_guard lock(mutex_);
  if (created_) return {};
  if (path_.empty()) return Status(Code::kUnavailable, "there is no place for the record of outputs");
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return Status(Code::kUnavailable, StrCat("cannot make ", path_, ": ", strerror(errno)));
  const int64_t before = Clock(CLOCK_REALTIME_COARSE);
  struct stat st {};
  const bool good = WriteAllOf(fd, HeaderOf(flow_id_)) && fsync(fd) == 0 && fstat(fd, &st) == 0;
  const int error = errno;
  const int64_t after = Clock(CLOCK_REALTIME);
  close(fd);
  if (!good) {
    unlink(path_.c_str());
    return Status(Code::kUnavailable, StrCat("cannot write ", path_, ": ", strerror(error)));
  }
  const int64_t stamp = Nanoseconds(st.st_mtim);
  if (stamp < before - kTick) ahead_ns_ = stamp - before;
  if (stamp > after + kTick) ahead_ns_ = stamp - after;
  created_ = true;
  return {};
}

Writer::~Writer() {
  if (fd_ >= 0) close(fd_);
}

Status Writer::Open() {
  if (fd_ >= 0) return {};
  HARROW_RETURN_IF_ERROR(record_.Create());
  fd_ = open(record_.path_.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
  return fd_ >= 0 ? Status()
                  : Status(Code::kUnavailable, StrCat("cannot open ", record_.path_, ": ", strerror(errno)));
}

Status Writer::Write(uint32_t kind, uint32_t task, uint32_t attempt, int64_t time_ns,
                     const std::vector<uint32_t>& found) {
  HARROW_RETURN_IF_ERROR(Open());
  if (WriteAllOf(fd_, EntryOf(kind, task, attempt, time_ns, found))) return {};
  return Status(Code::kExhausted, StrCat("cannot write ", record_.path_, ": ", strerror(errno)));
}

Result<int64_t> Writer::Began(uint32_t task, uint32_t attempt, const std::vector<uint32_t>& found) {
  HARROW_RETURN_IF_ERROR(Open());  // the file system's clock is known from here on
  // The coarse clock is what files are stamped by: never later than a stamp given after this.
  const int64_t now = Clock(CLOCK_REALTIME_COARSE) + record_.ahead_ns_;
  HARROW_RETURN_IF_ERROR(Write(kBegan, task, attempt, now, found));
  return now;
}

int64_t Writer::Ended(uint32_t task, uint32_t attempt) {
  const int64_t now = Clock(CLOCK_REALTIME) + record_.ahead_ns_;
  (void)Write(kEnded, task, attempt, now, {});
  return now;
}

void Writer::Beat() {
  const int64_t now = Clock(CLOCK_MONOTONIC);
  int64_t last = record_.last_beat_ns_.load();
  if (fd_ < 0 || now - last < Duration(kBeat).count() / 2) return;
  if (!record_.last_beat_ns_.compare_exchange_strong(last, now)) return;
  futimens(fd_, nullptr);
  fsync(fd_);
}

void ShowLife(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  futimens(fd, nullptr);
  fsync(fd);
  close(fd);
}

Status Read(os::FileSystem& fs, const std::string& path, const std::string& flow_id, Attempts* attempts) {
  const Result<std::string> data = fs.Read(path);
  if (!data.ok()) return data.status();
  const Result<os::FileInfo> info = fs.Stat(path);
  if (!info.ok()) return info.status();
  const std::string header = HeaderOf(flow_id);
  if (!data->starts_with(header)) return {};
  const int64_t latest = (info->modified.time_since_epoch() + Record::kSilence).count();
  Attempts here;
  for (std::string_view rest = std::string_view(*data).substr(header.size()); rest.size() >= kHead + 4;) {
    const size_t size = kHead + size_t{4} * Get<uint32_t>(rest, 0);
    if (rest.size() < size + 4 || SumOf(rest.substr(0, size)) != Get<uint32_t>(rest, size)) break;
    Attempt attempt{.task = Get<uint32_t>(rest, 8), .attempt = Get<uint32_t>(rest, 12)};
    const auto time = Get<int64_t>(rest, 20);
    if (Get<uint32_t>(rest, 4) == kBegan) {
      attempt.begin_ns = time;
      attempt.end_ns = latest;
      for (size_t at = kHead; at < size; at += 4) attempt.found.push_back(Get<uint32_t>(rest, at));
      Note(std::move(attempt), &here);
    } else if (const auto known = here.find(attempt.task);
               known != here.end() && known->second.attempt == attempt.attempt) {
      known->second.end_ns = time;
    }
    rest.remove_prefix(size + 4);
  }
  for (auto& [task, attempt] : here) Note(std::move(attempt), attempts);
  return {};
}

Attempts ReadAll(os::FileSystem& fs, const std::string& run_dir, const std::string& flow_id) {
  Attempts attempts;
  (void)Read(fs, run_dir::EarlierMadePath(run_dir), flow_id, &attempts);
  const std::string directory = run_dir::OutputDirectory(run_dir);
  const Result<std::vector<std::string>> names = fs.List(directory);
  if (!names.ok()) return attempts;
  for (const std::string& name : *names) {
    if (run_dir::IsMade(name)) (void)Read(fs, StrCat(directory, "/", name), flow_id, &attempts);
  }
  return attempts;
}

Status WriteAll(os::FileSystem& fs, const std::string& run_dir, const std::string& flow_id,
                const Attempts& attempts) {
  if (attempts.empty()) return {};
  std::string data = HeaderOf(flow_id);
  for (const auto& [task, a] : attempts) {
    data += EntryOf(kBegan, task, a.attempt, a.begin_ns, a.found);
    data += EntryOf(kEnded, task, a.attempt, a.end_ns, {});
  }
  return fs.WriteWhole(run_dir::EarlierMadePath(run_dir), data, 0600);
}

}  // namespace harrow::made
