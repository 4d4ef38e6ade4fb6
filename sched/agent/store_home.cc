// A home is a directory with the store, which of its objects are which files of the run (held), and, where it
// lasts, of the submit directory (sources). Objects that are neither are of a run that is over, and dropped.
// What lasts is spare until somebody wants it: it gives way where its room is needed.
//
// One that is not there is made for `harrow stage`, and in a job's own directory for every run: that is
// removed with the job, whoever forgets to.
#include "agent/store_home.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <unordered_set>
#include <utility>

#include "agent/steps/tmp_tree.h"
#include "base/text.h"
#include "os/file_system.h"
#include "os/log.h"
#include "os/posix_files.h"

namespace harrow::agent {
namespace {

constexpr size_t kMostNamed = 16u << 20;  // bytes, of a message's 64 MiB
constexpr size_t kAnEntry = 32;           // without its path
constexpr size_t kLookers = 8;            // threads: looking at a file of a busy file server takes its time

/// A directory of ours alone, made if need be.
Status TakeDirectory(const std::string& path, bool make) {
  if (make && mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return Status(Code::kUnavailable, StrCat("cannot make ", Printable(path), ": ", strerror(errno)));
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0)
    return Status(errno == ENOENT ? Code::kNotFound : Code::kUnavailable,
                  StrCat(Printable(path), ": ", strerror(errno)));
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    return Status(Code::kPermission,
                  StrCat(Printable(path), " is not a directory of yours alone (mode 0700)"));
  }
  return {};
}

}  // namespace

std::string StoreHome::LastingPath(const std::string& base, const std::string& node) {
  return StrCat(base, "/harrow-store-", static_cast<uint32_t>(geteuid()), "-", node);
}

Result<std::unique_ptr<StoreHome>> StoreHome::Open(const Options& options) {
  using Use = Options::Use;
  auto home = std::make_unique<StoreHome>();
  const auto open = [&](const std::string& directory, bool make) -> Status {
    HARROW_RETURN_IF_ERROR(TakeDirectory(directory, make));
    Result<std::unique_ptr<store::Store>> store =
        store::Store::Open(directory + "/store", {.limit = options.limit});
    if (!store.ok()) return store.status();
    home->directory_ = directory;
    home->store_ = *std::move(store);
    return {};
  };
  const std::string lasting = options.base.empty() ? "" : LastingPath(options.base, options.node);
  home->drop_ = options.use == Use::kDrop;
  struct stat info {};
  home->found_ = !lasting.empty() && lstat(lasting.c_str(), &info) == 0;
  bool lasts = options.use != Use::kRun;
  if (lasts) {
    if (lasting.empty()) {
      return Status(Code::kInvalid,
                    "nothing outlives a run there: no --local-dir is given that can be used, and the "
                    "job has no HARROW_LOCAL");
    }
    HARROW_RETURN_IF_ERROR(open(lasting, options.use == Use::kStage));
  } else if (!lasting.empty() && (options.of_job || home->found_)) {
    const Status opened = open(lasting, options.of_job);
    lasts = opened.ok();
    if (!lasts) home->notice_ = StrCat("what earlier runs left there is not used: ", opened.message());
  }
  if (!lasts) {
    if (options.tmp.empty())
      return Status(Code::kInvalid, "there is no private directory on its disk (TMPDIR)");
    HARROW_RETURN_IF_ERROR(open(options.tmp + "/files", true));
  }
  store::Store& store = *home->store_;
  os::FileSystem& fs = os::RealFileSystem();
  if (home->drop_) return home;
  if (lasts) home->sources_ = SourceIndex::Open(fs, home->directory_ + "/sources", store);
  home->log_ = HeldLog::Open(fs, home->directory_ + "/held", options.session, store, &home->held_);
  std::unordered_set<store::ObjectId> held;
  for (const auto& [file, object] : home->held_) held.insert(object.id);
  for (const store::Object& object : store.All()) {
    if (held.contains(object.id)) continue;
    if (home->sources_ && home->sources_->Names(object.id)) {
      store.Spare(object.id);
    } else {
      store.Drop(object.id);
    }
  }
  return home;
}

std::vector<SourceIndex::Entry> StoreHome::FindUnchanged(const std::string& below) const {
  if (!sources_) return {};
  std::vector<SourceIndex::Entry> entries = sources_->Entries();
  std::erase_if(entries, [prefix = below + "/"](const SourceIndex::Entry& entry) {
    return !entry.path.starts_with(prefix);
  });
  size_t bytes = 0, count = 0;
  for (; count < entries.size() && bytes < kMostNamed; ++count)
    bytes += entries[count].path.size() + kAnEntry;
  entries.resize(count);
  std::atomic<size_t> next = 0;
  std::vector<char> good(entries.size());
  const auto look = [&] {
    for (size_t i; (i = next.fetch_add(1)) < entries.size();)
      good[i] = store_->Has(entries[i].object.id) && SourceOf(entries[i].path) == entries[i].source ? 1 : 0;
  };
  std::vector<std::thread> lookers;
  for (size_t n = 1; n < std::min(kLookers, entries.size()); ++n) lookers.emplace_back(look);
  look();
  for (std::thread& looker : lookers) looker.join();
  std::vector<SourceIndex::Entry> unchanged;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (good[i] != 0) unchanged.push_back(std::move(entries[i]));
  }
  return unchanged;
}

void StoreHome::Close() {
  log_.reset();
  if (sources_) {
    for (const store::Object& object : store_->All()) {
      if (!sources_->Names(object.id)) store_->Drop(object.id);
    }
  }
  sources_.reset();
  if (!drop_) return;
  store_->Erase();
  store_.reset();
  // Also what killed agents were about to give its name.
  const os::Fd fd(open(directory_.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  (void)EmptyDirectory(fd.get());
  if (rmdir(directory_.c_str()) != 0)
    os::LogWarning(StrCat(Printable(directory_), " cannot be removed: ", strerror(errno)));
}

}  // namespace harrow::agent
