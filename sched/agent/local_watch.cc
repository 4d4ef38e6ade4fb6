#include "agent/local_watch.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <mutex>
#include <optional>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

namespace harrow::agent {
namespace {

constexpr Duration kInterval = std::chrono::seconds(1);
constexpr int kRest = 20;   // times as long as a look took: at most a twentieth of a core
constexpr int kDepth = 64;  // an open directory a level

uint64_t UseBelow(int directory, dev_t device, int depth) {
  DIR* entries = fdopendir(directory);
  if (entries == nullptr) {
    close(directory);
    return 0;
  }
  uint64_t bytes = 0;
  while (const dirent* entry = readdir(entries)) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    struct stat st {};
    if (fstatat(dirfd(entries), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || st.st_dev != device)
      continue;
    bytes += static_cast<uint64_t>(st.st_blocks) * 512;
    if (!S_ISDIR(st.st_mode) || depth >= kDepth) continue;
    const int below = openat(dirfd(entries), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below >= 0) bytes += UseBelow(below, device, depth + 1);
  }
  closedir(entries);
  return bytes;
}

}  // namespace

uint64_t DiskUse(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat st {};
  if (fd < 0) return 0;
  if (fstat(fd, &st) != 0) {
    close(fd);
    return 0;
  }
  return UseBelow(fd, st.st_dev, 0);
}

LocalWatch::LocalWatch(const NodeContext& node, const os::Clock& clock, SlotPool& pool)
    : node_(node), clock_(clock), pool_(pool), thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void LocalWatch::Share(store::Store* store) {
  store->SetOthers(Reserved());
  store_.store(store);
}

/// Or a task would be killed for its first bytes, because the files of others fill what there is.
uint64_t LocalWatch::Reserved() const {
  return node_.local_limit / 8;
}

void LocalWatch::Run(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "local-watch");
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  for (Duration pause = kInterval; !wake.wait_for(lock, stop, pause, [&] { return stop.stop_requested(); });) {
    const Duration began = clock_.Steady();
    Look();
    pause = std::max(kInterval, kRest * (clock_.Steady() - began));
  }
}

void LocalWatch::Look() {
  uint64_t total = 0, most = 0;
  std::optional<AttemptId> largest;
  for (uint32_t slot = 0; slot < node_.slots.size(); ++slot) {
    // Asked first: a directory is emptied between two tasks, and the next is not to pay for the one before.
    const std::optional<AttemptId> attempt = pool_.TaskOf(slot);
    if (!attempt) continue;
    const uint64_t bytes = DiskUse(StrCat(node_.tmp_root.path, "/", slot));
    total += bytes;
    if (bytes > most) {
      most = bytes;
      largest = attempt;
    }
  }
  if (store::Store* const store = store_.load()) {
    store->SetOthers(std::max(total, Reserved()));
    total += store->room().used;
  }
  if (total > node_.local_limit && largest) pool_.DiskLimitReached(*largest);
}

}  // namespace harrow::agent
