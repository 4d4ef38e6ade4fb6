// The server says which files the node is to have (CopyFile), before or together with the task that reads
// them, and which it is to drop. A task's inputs that are neither here nor on their way are waited for all
// the same: the word to bring them may come later, from a server that has just learnt who has them. An
// attempt that waits for what will never come is taken back by the server, or ended.

#include "agent/local_files.h"

#include <algorithm>
#include <chrono>
#include <semaphore>
#include <sys/stat.h>
#include <utility>

#include "base/text.h"
#include "os/file_system.h"
#include "os/random.h"

namespace harrow::agent {
namespace {

constexpr uint32_t kForThisUser = 077;  // what it may be besides, the object's kind tells

uint32_t Umask() {
  const mode_t mask = ::umask(022);
  ::umask(mask);
  return mask;
}

FileNews::What WhatOf(const Transfers::Outcome& outcome) {
  using What = FileNews::What;
  if (outcome.status.ok()) return What::kStored;
  if (outcome.status.code() == Code::kExhausted) return What::kNoRoom;
  // It is not there, or no more what it was; else it may be this node that cannot read it.
  if (outcome.listed && outcome.status.code() == Code::kNotFound) return What::kAbsent;
  // kInvalid: it is no file or directory at all, or is written to while it is read (store/take_in.cc).
  if (outcome.listed && (outcome.status.code() == Code::kDamaged || outcome.status.code() == Code::kInvalid)) return What::kDamaged;
  // kPermission: this node's disk cannot hold it (fetches.cc).
  if (!outcome.from || outcome.status.code() == Code::kPermission) return What::kUnreadable;
  if (outcome.status.code() == Code::kNotFound) return What::kAbsent;
  return outcome.status.code() == Code::kDamaged ? What::kDamaged : What::kUnreachable;
}

}  // namespace

LocalFiles::LocalFiles(store::Store* store, size_t slots, Hooks hooks, FileRecords records)
    : store_(*store), hooks_(std::move(hooks)), records_(records), umask_(Umask()), workers_(slots) {}

void LocalFiles::Restore(const HeldLog::Held& held) {
  const std::lock_guard lock(mutex_);
  for (const auto& [file, object] : held) {
    if (!Keep(object)) continue;
    files_[file].object = object;
    ++used_[object.id];
  }
}

void LocalFiles::Outside(const std::function<void()>& work) {
  std::binary_semaphore done(0);
  workers_.Do([&] {
    work();
    done.release();
  });
  done.acquire();
}

void LocalFiles::Use(Transfers* transfers) {
  std::lock_guard lock(mutex_);
  transfers_ = transfers;
}

void LocalFiles::Bring(Copy copy) {
  std::unique_lock lock(mutex_);
  File& file = files_[copy.file];
  if (!file.object && copy.object && copy.object->id.kind != store::Kind::kDirectory &&
      store_.Has(copy.object->id)) {
    // What earlier runs left gives way until a task needs it.
    const bool found = records_.sources != nullptr && !records_.tell && !copy.from &&
                       !used_.contains(copy.object->id) && records_.sources->Names(copy.object->id);
    // As another file's; what is here as a part of a directory stays from now on.
    if (found || Keep(*copy.object)) Hold(lock, copy.file, *copy.object, found);
  }
  if (file.object && (!copy.object || copy.object->id == file.object->id)) {
    FileNews news{.file = copy.file, .object = file.object, .from = copy.from};
    lock.unlock();
    if (records_.sources != nullptr && copy.from)
      records_.sources->Note(copy.path, copy.source, *news.object);
    if (records_.sources == nullptr || copy.from || !records_.tell) return hooks_.tell(news);
    workers_.Do([this, news, path = copy.path]() mutable {
      news.source = SourceOf(path);
      if (records_.sources->Find(path, news.source) != news.object) news.source.clear();
      hooks_.tell(news);
    });
    return;
  }
  if (file.object) Release(&file);  // what it was before
  file.coming = true;
  file.trouble.clear();
  Transfers* const transfers = transfers_;
  lock.unlock();
  transfers->Fetch({.file = copy.file, .object = copy.object, .path = copy.path, .from = copy.from, .listed = copy.listed},
                   [this, copy](Transfers::Outcome outcome) {
                     if (outcome.status.ok() && copy.from && records_.sources != nullptr)
                       records_.sources->Note(copy.path, copy.source, outcome.object);
                     Came(std::move(outcome));
                   });
}

void LocalFiles::Came(Transfers::Outcome outcome) {
  FileNews news{.file = outcome.file,
                .what = WhatOf(outcome),
                .from = outcome.from,
                .moved = outcome.fetched_bytes,
                .text = outcome.status.message(),
                .source = outcome.source};
  if (news.what == FileNews::What::kStored) news.object = outcome.object;
  std::vector<AttemptId> failed;
  std::string trouble;
  {
    std::unique_lock lock(mutex_);
    File& file = files_[outcome.file];
    file.coming = false;
    // Dropped meanwhile as another file's: it is asked for again.
    if (news.object && !Keep(*news.object)) {
      news.object.reset();
      news.what = FileNews::What::kUnreachable;
    }
    if (news.object) {
      Hold(lock, outcome.file, *news.object);
    } else if (news.what == FileNews::What::kNoRoom) {
      file.no_room = news.text;
    } else if (news.what == FileNews::What::kUnreadable) {
      // Also for those that come before the server has heard of it.
      trouble = file.trouble =
          StrCat("an input of it cannot be ", outcome.from ? "kept on its node: " : "read: ", news.text);
      failed = std::exchange(file.waiting, {});
    }
  }
  for (const AttemptId attempt : failed) hooks_.failed(attempt, trouble);
  if (outcome.listed) news.object = outcome.listed;  // also of what is not there
  hooks_.tell(std::move(news));
}

void LocalFiles::Save(FileId id, const std::string& path) {
  const std::optional<store::Object> object = ObjectOf(id);
  if (!object) {
    return hooks_.tell({.file = id, .what = FileNews::What::kNotSaved, .text = "the node does not hold it"});
  }
  workers_.Do([this, id, path, object = *object] {
    const store::CopyWatch watch{.temporary = [this](const std::string& name) { NoteTemporary(name); },
                                 .may_name = {}};
    const Status copied = store_.CopyOut(object.id, path, umask_, watch);
    hooks_.tell({.file = id,
                 .what = copied.ok() ? FileNews::What::kSaved : FileNews::What::kNotSaved,
                 .object = object,
                 .text = copied.message()});
  });
}

void LocalFiles::Put(Putting putting) {
  FileNews news{.file = putting.file, .what = FileNews::What::kNotPut, .put = putting.number};
  news.object = ObjectOf(putting.file);
  if (putting.object && (!news.object || news.object->id != *putting.object)) {
    news.text = "the node does not hold it";
    return hooks_.tell(std::move(news));
  }
  {
    const std::lock_guard lock(mutex_);
    if (!putting_.insert(putting.number).second) return;  // it is answered when that is done
  }
  workers_.Do([this, putting = std::move(putting), news = std::move(news)]() mutable {
    const Status put = PutAt(putting, &news.took);
    if (put.ok()) news.what = FileNews::What::kPut;
    news.text = put.message();
    {
      const std::lock_guard lock(mutex_);
      putting_.erase(putting.number);
    }
    hooks_.tell(std::move(news));
  });
}

/// Whatever has that name has it for being whole, and that.
Status LocalFiles::PutAt(const Putting& putting, Duration* took) {
  os::FileSystem& fs = os::RealFileSystem();
  if (fs.Stat(putting.path).ok()) return {};
  if (!putting.object) return fs.WriteWhole(putting.path, putting.content, 0600);
  const std::string half = StrCat(putting.path, ".half-", HexDigits(os::UniqueNumber()));
  double begun = 0;
  {
    const std::lock_guard lock(mutex_);
    begun = put_time_.Begin(std::chrono::steady_clock::now());
  }
  Status put = store_.CopyOut(*putting.object, half, kForThisUser);
  if (put.ok()) put = fs.Rename(half, putting.path);
  {
    const std::lock_guard lock(mutex_);
    *took = put_time_.End(std::chrono::steady_clock::now(), begun);
  }
  // A directory of that name may have come from another node meanwhile.
  if (!put.ok() && fs.Stat(putting.path).ok()) put = Status();
  (void)fs.RemoveTree(half);
  return put;
}

void LocalFiles::Unput(std::vector<std::string> paths) {
  workers_.Do([paths = std::move(paths)] {
    for (const std::string& path : paths) (void)os::RealFileSystem().RemoveTree(path);
  });
}

void LocalFiles::Refuse(FileId id) {
  std::vector<AttemptId> failed;
  std::string trouble;
  {
    const std::lock_guard lock(mutex_);
    File& file = files_[id];
    if (file.object || file.coming) return;
    trouble = file.trouble = StrCat("no room on its node for an input: ", file.no_room);
    failed = std::exchange(file.waiting, {});
  }
  for (const AttemptId attempt : failed) hooks_.failed(attempt, trouble);
}

/// Whoever else dropped or spared it. False: it is here no more.
bool LocalFiles::Keep(const store::Object& object) {
  if (!store_.Has(object.id)) return false;
  return object.id.kind == store::Kind::kDirectory || store_.Begin(object).status().code() == Code::kExists;
}

/// Unlocks while it tells those that wait.
void LocalFiles::Hold(std::unique_lock<std::mutex>& lock, FileId id, const store::Object& object,
                      bool spare) {
  File& file = files_[id];
  ++used_[object.id];
  if (file.object) Release(&file);
  file.object = object;
  file.spare = spare;
  if (records_.log != nullptr) records_.log->Note(id, object);
  const std::vector<AttemptId> waiting = std::exchange(file.waiting, {});
  lock.unlock();
  for (const AttemptId attempt : waiting) hooks_.arrived(attempt);
  lock.lock();
}

void LocalFiles::Release(File* file) {
  const auto used = used_.find(file->object->id);
  if (--used->second == 0) {
    used_.erase(used);
    DropUnused(file->object->id);
  }
  file->object.reset();
}

void LocalFiles::Drop(FileId id) {
  std::unique_lock lock(mutex_);
  const auto found = files_.find(id);
  if (found == files_.end()) return;
  const bool coming = std::exchange(found->second.coming, false);
  if (found->second.object) Release(&found->second);
  if (found->second.waiting.empty()) files_.erase(found);
  Transfers* const transfers = transfers_;
  lock.unlock();
  if (coming) transfers->Abandon(id);
}

void LocalFiles::DropDamaged(const std::vector<FileId>& files) {
  std::vector<FileId> others;
  {
    const std::lock_guard lock(mutex_);
    for (const FileId id : files) {
      const auto found = files_.find(id);
      if (found != files_.end() && found->second.object) store_.Damaged(found->second.object->id);
    }
    for (auto& [id, file] : files_) {
      if (!file.object || store_.Has(file.object->id)) continue;
      ++spoilings_[file.object->id];
      Release(&file);
      if (std::find(files.begin(), files.end(), id) == files.end()) others.push_back(id);
    }
    if (records_.sources != nullptr) records_.sources->ForgetGone(store_);
  }
  for (const FileId id : files) Drop(id);
  for (const FileId id : others) hooks_.tell({.file = id, .what = FileNews::What::kGone});
}

FileHost::Awaited LocalFiles::Await(const LocalTask& task) {
  Awaited awaited;
  std::vector<FileId> missing, unasked;
  {
    std::lock_guard lock(mutex_);
    for (const TaskInput& input : task.inputs) {
      File& file = files_[input.file];
      if (file.spare && file.object) {
        file.spare = false;
        if (!Keep(*file.object)) Release(&file);
      }
      if (file.object || std::find(missing.begin(), missing.end(), input.file) != missing.end()) continue;
      missing.push_back(input.file);
      if (file.coming) continue;
      unasked.push_back(input.file);
      if (!file.trouble.empty()) awaited.trouble = file.trouble;
    }
    for (const FileId file : missing) files_[file].waiting.push_back(task.attempt_id());
  }
  awaited.inputs = static_cast<uint32_t>(missing.size());
  // The server may believe that they are here. Where it does not this tells it nothing.
  for (const FileId file : unasked) hooks_.tell({.file = file, .what = FileNews::What::kGone});
  return awaited;
}

void LocalFiles::TellMissing() {
  std::vector<FileId> missing;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, file] : files_) {
      if (!file.waiting.empty() && !file.object && !file.coming) missing.push_back(id);
    }
  }
  for (const FileId file : missing) hooks_.tell({.file = file, .what = FileNews::What::kGone});
}

void LocalFiles::Forget(const LocalTask& task) {
  std::lock_guard lock(mutex_);
  for (const TaskInput& input : task.inputs) {
    if (const auto found = files_.find(input.file); found != files_.end())
      std::erase(found->second.waiting, task.attempt_id());
  }
}

std::vector<std::pair<FileId, store::Object>> LocalFiles::Held() {
  std::lock_guard lock(mutex_);
  std::vector<std::pair<FileId, store::Object>> held;
  for (const auto& [id, file] : files_) {
    if (file.object) held.emplace_back(id, *file.object);
  }
  return held;
}

std::optional<store::Object> LocalFiles::ObjectOf(FileId file) {
  std::lock_guard lock(mutex_);
  const auto found = files_.find(file);
  return found == files_.end() ? std::nullopt : found->second.object;
}

void LocalFiles::Made(FileId file, const store::Object& object) {
  std::unique_lock lock(mutex_);
  Hold(lock, file, object);
}

/// What a later run may read goes when its room is needed.
void LocalFiles::DropOrSpare(const store::ObjectId& object) {
  if (records_.sources != nullptr && records_.sources->Names(object)) {
    store_.Spare(object);
  } else {
    store_.Drop(object);
  }
}

void LocalFiles::DropUnused(const store::ObjectId& object) {
  if (used_.contains(object)) return;
  if (taking_.empty()) {
    DropOrSpare(object);
  } else {
    to_drop_.emplace_back(takings_, object);
  }
}

uint64_t LocalFiles::BeginTaking() {
  std::lock_guard lock(mutex_);
  taking_.insert(++takings_);
  return takings_;
}

void LocalFiles::EndTaking(uint64_t taking) {
  std::lock_guard lock(mutex_);
  taking_.erase(taking);
  while (!to_drop_.empty() && (taking_.empty() || *taking_.begin() > to_drop_.front().first)) {
    if (!used_.contains(to_drop_.front().second)) DropOrSpare(to_drop_.front().second);
    to_drop_.pop_front();
  }
}

void LocalFiles::Discard(const store::ObjectId& object) {
  std::lock_guard lock(mutex_);
  DropUnused(object);
}

uint32_t LocalFiles::Spoilings(const store::ObjectId& object) {
  std::lock_guard lock(mutex_);
  const auto found = spoilings_.find(object);
  return found == spoilings_.end() ? 0 : found->second;
}

void LocalFiles::Spoiled(FileId id) {
  {
    std::unique_lock lock(mutex_);
    const auto found = files_.find(id);
    if (found == files_.end() || !found->second.object) return;
    ++spoilings_[found->second.object->id];
    Release(&found->second);
  }
  hooks_.tell({.file = id, .what = FileNews::What::kGone});
}

}  // namespace harrow::agent
