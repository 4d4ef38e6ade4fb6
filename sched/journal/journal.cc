// One thread writes. Records gather while it is busy or rests; then they are committed together. After a
// commit it rests for half the group time, so that a busy run makes some 20 commits a second of hundreds of
// records, while a lone record, or that of a node, is on disk at once. Task records, which come by the million at the start, go
// in pieces between the other records.
#include "journal/journal.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/text.h"
#include "journal/store.h"

namespace harrow::journal {
namespace {

constexpr size_t kTasksInGroup = 8192;

class GroupedJournal : public Journal {
 public:
  GroupedJournal(std::unique_ptr<Store> store, const Options& options)
      : rest_(options.group_time / 2), nodes_at_once_(options.nodes_at_once), last_task_(store->last_task()), store_(std::move(store)) {
    thread_ = std::thread([this] { Write(); });
  }

  ~GroupedJournal() override { Join(); }

  uint64_t Add(AttemptRecord record) override {
    return Queue([&] { queued_.attempts.push_back(std::move(record)); });
  }
  uint64_t Add(PartRecord record) override {
    return Queue([&] { queued_.parts.push_back(std::move(record)); });
  }
  uint64_t Add(FateRecord record) override {
    return Queue([&] { queued_.fates.push_back(record); });
  }
  uint64_t Add(NodeRecord record) override {
    const uint64_t sequence = Queue([&] { queued_.nodes.push_back(std::move(record)); });
    if (nodes_at_once_) wake_.notify_one();
    return sequence;
  }
  uint64_t Add(CopyRecord record) override {
    return Queue([&] { queued_.copies.push_back(std::move(record)); });
  }
  uint64_t Add(MoveRecord record) override {
    return Queue([&] { queued_.moves.push_back(std::move(record)); });
  }
  uint64_t Add(std::vector<TaskRecord> tasks) override {
    return Queue([&] {
      auto first = std::find_if(tasks.begin(), tasks.end(), [&](const TaskRecord& t) {
        return !last_task_ || t.task.value > last_task_.value;
      });
      if (first == tasks.end()) return;
      last_task_ = tasks.back().task;
      task_batches_.push_back(
          {last_sequence_ + 1, static_cast<size_t>(first - tasks.begin()), std::move(tasks)});
    });
  }
  uint64_t SetFact(std::string_view key, std::string_view value) override {
    return Queue([&] { queued_.facts.emplace_back(key, value); });
  }

  void SetCallbacks(std::function<void(uint64_t)> committed, std::function<void(Status)> failed) override {
    std::lock_guard lock(mutex_);
    on_committed_ = std::move(committed);
    on_failed_ = std::move(failed);
    wake_.notify_one();
  }

  Status Flush() override {
    std::unique_lock lock(mutex_);
    uint64_t upto = last_sequence_;
    flush_upto_ = std::max(flush_upto_, upto);
    wake_.notify_one();
    flushed_.wait(lock, [&] { return committed_ >= upto || !failed_.ok() || joined_; });
    return failed_;
  }

  Status Close() override {
    Status flushed = Flush();
    Join();
    if (!store_) return flushed;
    Status closed = store_->Close();
    store_.reset();
    return flushed.ok() ? closed : flushed;
  }

 private:
  struct Records {
    std::vector<AttemptRecord> attempts;
    std::vector<FateRecord> fates;
    std::vector<NodeRecord> nodes;
    std::vector<CopyRecord> copies;
    std::vector<std::pair<std::string, std::string>> facts;
    std::vector<PartRecord> parts;
    std::vector<MoveRecord> moves;
    void Clear() {
      attempts.clear();
      parts.clear();
      moves.clear();
      fates.clear();
      nodes.clear();
      copies.clear();
      facts.clear();
    }
  };
  struct TaskBatch {
    uint64_t sequence = 0;
    size_t begin = 0;  // of what is not yet written
    std::vector<TaskRecord> tasks;
  };

  template <class Push>
  uint64_t Queue(Push push) {
    std::lock_guard lock(mutex_);
    if (failed_.ok()) push();
    ++last_sequence_;
    if (idle_) {
      idle_ = false;
      wake_.notify_one();
    }
    return last_sequence_;
  }

  void Join() {
    if (!thread_.joinable()) return;
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
      wake_.notify_one();
    }
    thread_.join();
    joined_ = true;
  }

  /// Nodes, which come once, may wait for their records.
  bool Urgent() const {
    return stop_ || flush_upto_ > committed_ || !task_batches_.empty() || (nodes_at_once_ && !queued_.nodes.empty()) || !failed_.ok();
  }

  void Write() {
    std::unique_lock lock(mutex_);
    auto rested = std::chrono::steady_clock::now();
    Records taken;
    while (true) {
      idle_ = true;
      wake_.wait(lock, [&] { return stop_ || committed_ < last_sequence_ || !failed_.ok(); });
      idle_ = false;
      if (!failed_.ok()) {
        // Also when the callbacks come only after the failure.
        wake_.wait(lock, [&] { return stop_ || on_failed_; });
        auto failed = std::exchange(on_failed_, nullptr);
        Status why = failed_;
        bool stop = stop_;
        lock.unlock();
        if (failed) failed(why);
        lock.lock();
        if (stop) return;
        continue;
      }
      if (committed_ == last_sequence_) return;  // and stop_
      wake_.wait_until(lock, rested, [&] { return Urgent(); });

      std::swap(taken, queued_);
      uint64_t reached = last_sequence_;
      Group group;
      TaskBatch* batch = task_batches_.empty() ? nullptr : &task_batches_.front();  // stable: only we remove
      if (batch != nullptr) {
        size_t count = std::min(kTasksInGroup, batch->tasks.size() - batch->begin);
        group.tasks = std::span(batch->tasks).subspan(batch->begin, count);
      }
      group.attempts = taken.attempts;
      group.fates = taken.fates;
      group.nodes = taken.nodes;
      group.copies = taken.copies;
      group.facts = taken.facts;
      group.parts = taken.parts;
      group.moves = taken.moves;
      lock.unlock();
      Status status = store_->Commit(group);
      taken.Clear();
      lock.lock();

      rested = std::chrono::steady_clock::now() + rest_;
      if (!status.ok()) {
        failed_ = status;
        task_batches_.clear();
        queued_.Clear();
        flushed_.notify_all();
        continue;
      }
      if (batch != nullptr) {
        batch->begin += group.tasks.size();
        if (batch->begin == batch->tasks.size()) {
          auto written = std::move(batch->tasks);
          task_batches_.pop_front();
          lock.unlock();  // giving back a million records takes a while
          written = {};
          lock.lock();
        }
      }
      uint64_t before = committed_;
      committed_ = task_batches_.empty() ? reached : std::min(reached, task_batches_.front().sequence - 1);
      if (committed_ == before) continue;
      flushed_.notify_all();
      auto committed = on_committed_;
      uint64_t sequence = committed_;
      lock.unlock();
      if (committed) committed(sequence);
      lock.lock();
    }
  }

  const std::chrono::steady_clock::duration rest_;
  const bool nodes_at_once_;
  std::mutex mutex_;  // of all below but store_ and thread_
  std::condition_variable wake_, flushed_;
  Records queued_;
  std::deque<TaskBatch> task_batches_;
  TaskId last_task_;
  uint64_t last_sequence_ = 0;
  uint64_t committed_ = 0;
  uint64_t flush_upto_ = 0;
  bool idle_ = false;  // the thread waits for a first record
  bool stop_ = false;
  bool joined_ = false;
  Status failed_;
  std::function<void(uint64_t)> on_committed_;
  std::function<void(Status)> on_failed_;

  std::unique_ptr<Store> store_;  // of the thread; after it has ended, of Close
  std::thread thread_;
};

}  // namespace

MoveRecord HasAllTasks(uint32_t part, size_t tasks, int64_t time_ns) {
  return {.what = MoveRecord::What::kTaken,
          .giver = part,
          .taker = part,
          .number = 0,
          .tasks = tasks == 0 ? "" : tasks == 1 ? "0" : StrCat("0-", tasks - 1),
          .tried = {},
          .time_ns = time_ns};
}

bool IsOfAllTasks(const MoveRecord& record) {
  return record.what == MoveRecord::What::kTaken && record.giver == record.taker && record.number == 0;
}

Result<std::unique_ptr<Journal>> Journal::Open(const std::string& run_dir, const Options& options,
                                               History* history) {
  auto dir = run_dir::RunDir::Open(run_dir);
  if (!dir.ok()) return dir.status();
  return Open(*std::move(dir), options, history);
}

Result<std::unique_ptr<Journal>> Journal::Open(std::shared_ptr<run_dir::RunDir> dir, const Options& options,
                                               History* history) {
  Result<std::unique_ptr<Store>> store = Store::Open(std::move(dir), options, history);
  if (!store.ok()) return store.status();
  return std::unique_ptr<Journal>(std::make_unique<GroupedJournal>(std::move(*store), options));
}

}  // namespace harrow::journal
