// Which tasks run here. A task is a block of the View's grid; its processes are those that hold elements of it. Where contents
// are complete the layout tells them, without a word to anyone; where elements may be absent, processes that may share a task
// write to the first one that may, which answers with the list. Communicators are made in ascending order of keys, so that
// processes which share several cannot wait for each other in a circle.
#include <cstring>
#include <map>

#include "multiview/gather.h"
#include "multiview/guard.h"
#include "multiview/scatter.h"
#include "multiview/store.h"

namespace harrow::multiview::internal {

/// What a Task sees; refilled for each one.
class TaskRun {
 public:
  TaskRun(const Store& store, const View& view, Store* output)
      : store_(store), view_(view), output_(output), additions_(output ? output->NewAdditions() : store.NewAdditions()) {}

  const Key& key() const { return key_; }
  const Elements& elements() const { return elements_; }
  MPI_Comm comm() const { return comm_; }
  const Split& split() const { return store_.split(); }
  const View& view() const { return view_; }
  const std::vector<Index>& shape() const { return store_.shape(); }
  bool has_output() const { return output_ != nullptr; }
  const std::vector<Index>& shape_of_output() const { return output_ ? output_->shape() : none_; }
  Status Put(Coordinates at, const void* bytes, std::size_t size) {
    if (output_) {
      Status s = Guarded("map: put", [&] { return output_->Note(&additions_, "map: put", at, bytes, size, number_); });
      if (!s.ok() && additions_.error.ok()) additions_.error = s;
      return s;
    }
    additions_.error = Status(Code::kInvalid, "map: put: there is no output store");
    return additions_.error;
  }

  void Begin(std::uint64_t number, MPI_Comm comm) {
    number_ = number;
    comm_ = comm;
    additions_.error = {};
  }
  Key key_;
  Elements elements_{{}};
  Additions& additions() { return additions_; }

 private:
  const Store& store_;
  const View& view_;
  Store* output_;
  Additions additions_;
  const std::vector<Index> none_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::uint64_t number_ = 0;  // of the task, on this process
};

namespace {

constexpr std::size_t kUnloadEvery = 64 << 20;
constexpr std::size_t kPageNumbers = 32 << 10;

std::string Bytes(const std::vector<std::int64_t>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::int64_t)};
}

/// Numbers for a process, in pages of bounded length.
using Pages = std::vector<std::vector<std::int64_t>>;
using Mail = std::map<int, Pages>;

/// Where a further record is to be appended.
std::vector<std::int64_t>& NewRecord(Pages* pages) {
  if (pages->empty() || pages->back().size() >= kPageNumbers) pages->emplace_back();
  return pages->back();
}

/// Failed tasks as bytes: key, code, length and text of the message.
void Pack(std::string* out, Index key, int code, const std::string& message) {
  *out += Bytes({key, code, static_cast<std::int64_t>(message.size())}) + message;
}

}  // namespace

class MapRun {
 public:
  MapRun(Store& store, Store* output, const MapFunction& task, const View& view, Grid grid)
      : store_(store), team_(store.team()), output_(output), task_(task), grid_(std::move(grid)), run_(store, view, output) {}
  MapResult Run();

 private:
  struct Failure {
    std::size_t number;
    int code;
    std::string message;
  };
  void FindTasks();
  Status FindMembers();
  Box BlockOf(Index key) const {
    Box block{Indices(grid_.shape().size()), Indices(grid_.shape().size(), 1)};
    Unlinear(grid_.blocks(), key, block.lo.data());
    return grid_.Elements(block);
  }
  bool complete() const { return store_.content().state == Content::State::kComplete; }
  void RunTask(std::size_t number);
  MapResult Finish();
  std::vector<FailedTask> GatherFailures();

  Store& store_;
  Team& team_;
  Store* output_;
  const MapFunction& task_;
  Grid grid_;  // the View's
  TaskRun run_;
  std::int64_t owner_ = 0;  // of the communicators
  std::vector<Index> keys_;  // of the tasks here, ascending
  std::vector<Entry> entries_;              // loose: by key, then by element
  std::vector<std::size_t> entries_begin_;  // of each task, and the end
  std::map<Index, std::vector<int>> members_;  // loose: of tasks that may have several
  std::vector<Failure> failures_;
  std::size_t touched_ = 0;
};

void MapRun::FindTasks() {
  Content& content = store_.content();
  if (complete()) {
    for (const Box& box : content.boxes.boxes) {
      const Box blocks = grid_.Blocks(box);
      Indices at = blocks.lo;
      for (Index n = blocks.volume(); n > 0; --n) {
        keys_.push_back(Linear(grid_.blocks(), at));
        for (std::size_t d = at.size(); d-- > 0;) {
          if (++at[d] < blocks.lo[d] + blocks.n[d]) break;
          at[d] = blocks.lo[d];
        }
      }
    }
    if (!std::is_sorted(keys_.begin(), keys_.end())) std::sort(keys_.begin(), keys_.end());
    keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
    return;
  }
  // Entries cut where the View cuts the last dimension, and at the ends of rows.
  const std::size_t last = grid_.shape().size() - 1, bytes = store_.element_bytes();
  std::vector<std::pair<Index, Entry>> parts;
  Indices at(last + 1), block(last + 1);
  for (const Entry& e : content.loose.entries()) {
    for (Index i = e.index, end = e.index + e.count; i < end;) {
      Unlinear(grid_.shape(), i, at.data());
      for (std::size_t d = 0; d <= last; ++d) block[d] = grid_.Holding(d, at[d]);
      const Index some = std::min(end - i, grid_.Start(last, block[last] + 1) - at[last]);
      const std::size_t skip = static_cast<std::size_t>(i - e.index) * bytes;
      parts.push_back({Linear(grid_.blocks(), block),
                       {i, some, e.order, 0, e.data + skip, e.count == 1 ? e.bytes : static_cast<std::size_t>(some) * bytes}});
      i += some;
    }
  }
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [key, entry] : parts) {
    if (keys_.empty() || keys_.back() != key) {
      keys_.push_back(key);
      entries_begin_.push_back(entries_.size());
    }
    entries_.push_back(entry);
  }
  entries_begin_.push_back(entries_.size());
}

Status MapRun::FindMembers() {
  if (complete()) {
    owner_ = team_.CommOwner(store_.content().layout, grid_);
    return {};
  }
  owner_ = team_.NewCommOwner();
  const auto numbers = [](const std::byte* bytes, std::size_t size) {
    std::vector<std::int64_t> v(size / sizeof(std::int64_t));
    std::memcpy(v.data(), bytes, size);
    return v;
  };
  // A letter ends between two records: with any number of tasks, no message is longer than MPI can count.
  const auto letters = [](const Mail& by_process) {
    std::vector<Letter> list;
    for (const auto& [process, pages] : by_process) {
      for (const auto& page : pages) {
        const auto bytes = std::as_bytes(std::span(page));
        list.push_back({process, {bytes.begin(), bytes.end()}});
      }
    }
    return list;
  };
  Mail questions, answers;
  for (Index key : keys_) {
    const std::vector<int> may = store_.content().layout->Holders(BlockOf(key));
    if (may.size() > 1) NewRecord(&questions[may.front()]).push_back(key);
  }
  std::map<Index, std::vector<int>> present;
  Status s = SendLetters(team_, letters(questions), [&](int process, const std::byte* bytes, std::size_t size) {
    for (std::int64_t key : numbers(bytes, size)) {
      std::vector<int>& processes = present[key];
      processes.insert(std::upper_bound(processes.begin(), processes.end(), process), process);
    }
    return Status();
  });
  if (!s.ok()) return s;
  for (const auto& [key, processes] : present) {
    for (int p : processes) {
      auto& answer = NewRecord(&answers[p]);
      answer.push_back(key);
      answer.push_back(static_cast<std::int64_t>(processes.size()));
      answer.insert(answer.end(), processes.begin(), processes.end());
    }
  }
  return SendLetters(team_, letters(answers), [&](int, const std::byte* bytes, std::size_t size) {
    const auto v = numbers(bytes, size);
    for (std::size_t i = 0; i < v.size();) {
      auto& list = members_[v[i]];
      for (std::int64_t n = 0; n < v[i + 1]; ++n) list.push_back(static_cast<int>(v[i + 2 + n]));
      i += 2 + static_cast<std::size_t>(v[i + 1]);
    }
    return Status();
  });
}

void MapRun::RunTask(std::size_t number) {
  const Index key = keys_[number];
  const Box box = BlockOf(key);
  const int me = team_.rank();
  std::vector<int> ranks{me};
  std::vector<Fragment> fragments;
  if (complete()) {
    const Content& content = store_.content();
    const bool alone = std::any_of(content.boxes.boxes.begin(), content.boxes.boxes.end(),
                                   [&](const Box& mine) { return mine.Contains(box); });
    if (!alone) ranks = content.layout->Holders(box);
    store_.AddDenseFragments(box, &fragments);
  } else {
    if (const auto found = members_.find(key); found != members_.end()) ranks = found->second;
    const std::size_t begin = entries_begin_[number];
    store_.AddLooseFragments({&entries_[begin], entries_begin_[number + 1] - begin}, &fragments);
  }
  run_.key_.resize(grid_.shape().size());
  Unlinear(grid_.blocks(), key, run_.key_.data());
  run_.elements_ = Elements(std::move(fragments));

  auto comm = team_.CommOf(owner_, ranks);
  if (!comm) {
    failures_.push_back({number, -1, comm.status().message()});
    return;
  }
  run_.Begin(number, *comm);
  Task task(&run_);
  int code = -1;
  std::string message;
  team_.in_task = true;
  message = Caught("", [&] { code = task_(task); }).message();
  team_.in_task = false;
  if (const Status& s = run_.additions().error; !s.ok()) {
    if (code == 0) code = -1;
    message = s.message();
  }
  if (code != 0 || !message.empty()) failures_.push_back({number, code, message});

  // Of files, what tasks have touched must not pile up in memory.
  const Segment* dense = store_.content().dense.get();
  if (dense && dense->in_file()) {
    touched_ += static_cast<std::size_t>(run_.elements().count()) * store_.element_bytes();
    if (touched_ >= kUnloadEvery) {
      store_.content().dense->Unload();
      touched_ = 0;
    }
  }
}

std::vector<FailedTask> MapRun::GatherFailures() {
  std::string mine;
  for (const Failure& f : failures_) Pack(&mine, keys_[f.number], f.code, f.message);
  const std::vector<std::byte> all = GatherBytes(team_, std::as_bytes(std::span(mine)));
  // Of several processes of a task the one of lowest rank is quoted.
  std::map<Index, FailedTask> by_key;
  for (std::size_t at = 0; at < all.size();) {
    std::int64_t head[3];
    std::memcpy(head, &all[at], sizeof head);
    at += sizeof head;
    const auto* text = reinterpret_cast<const char*>(all.data() + at);
    FailedTask failed{Key(grid_.shape().size()), static_cast<int>(head[1]), {text, static_cast<std::size_t>(head[2])}};
    Unlinear(grid_.blocks(), head[0], failed.key.data());
    by_key.try_emplace(head[0], std::move(failed));
    at += static_cast<std::size_t>(head[2]);
  }
  // What a failed task has put is dropped on all its processes.
  std::erase_if(run_.additions().entries, [&](const Entry& e) { return by_key.contains(keys_[e.order]); });
  std::vector<FailedTask> failed;
  for (auto& [key, task] : by_key) failed.push_back(std::move(task));
  return failed;
}

MapResult MapRun::Finish() {
  if (!complete()) team_.FreeComms(owner_);
  if (Segment* dense = store_.content().dense.get()) dense->Unload();
  MapResult result;
  std::uint64_t failed = failures_.empty() ? 0 : 1;
  if (output_) {
    result.status = output_->Commit(&run_.additions(), &failed);
  } else {
    failed = team_.Agree({failed, 0}).flags;
  }
  if (!failed || !result.status.ok()) return result;
  result.failed = GatherFailures();
  if (output_) {
    std::uint64_t none = 0;
    result.status = output_->Commit(&run_.additions(), &none);
    if (!result.ok()) return result;
  }
  std::string text = "map: " + std::to_string(result.failed.size()) + " tasks failed, first the one of key (";
  for (Index i : result.failed[0].key) text += std::to_string(i) + ",";
  text.back() = ')';
  text += ": " + (result.failed[0].message.empty() ? "it returned " + std::to_string(result.failed[0].code)
                                                   : result.failed[0].message);
  result.status = Status(Code::kTaskFailed, std::move(text));
  return result;
}

MapResult MapRun::Run() {
  if (Status s = store_.Redistribute(); !s.ok()) return {s, {}};
  if (store_.content().state == Content::State::kEmpty) return {};
  FindTasks();
  if (Status s = FindMembers(); !s.ok()) return {s, {}};
  for (std::size_t number = 0; number < keys_.size(); ++number) RunTask(number);
  return Finish();
}

MapResult Store::Map(Store* output, const MapFunction& task, const View& view) {
  if (Status s = Callable("map"); !s.ok()) return {s, {}};
  if (output && output->team_ != team_) {
    return {Status(Code::kInvalid, "map: the output store belongs to another world"), {}};
  }
  auto grid = Grid::Make(shape_, view, "map", "View");
  if (!grid) return {grid.status(), {}};
  return MapRun(*this, output, task, view, std::move(*grid)).Run();
}

}  // namespace harrow::multiview::internal

namespace harrow::multiview {

const Key& Task::key() const { return run_->key(); }
const Elements& Task::elements() const { return run_->elements(); }
MPI_Comm Task::comm() const { return run_->comm(); }
const Split& Task::split() const { return run_->split(); }
const View& Task::view() const { return run_->view(); }
const std::vector<Index>& Task::shape() const { return run_->shape(); }
bool Task::has_output() const { return run_->has_output(); }
const std::vector<Index>& Task::shape_of_output() const { return run_->shape_of_output(); }
Status Task::Put(Coordinates at, const void* bytes, std::size_t size) { return run_->Put(at, bytes, size); }

}  // namespace harrow::multiview
