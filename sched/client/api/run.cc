// The public library (include/harrow): a Session of a thread of its own.
//
// What callers submit lies in an inbox until the thread comes for it. While an answer is awaited it is not woken for each, but
// comes when the answer does, or when there is enough for a request: so many tasks become few requests. What the session tells is gathered and handed over once a turn of the loop, so that who waits is woken once for
// many tasks. Nothing is asked about results before somebody waits for one; from then on all tasks' are asked for, as who
// waits for one after the other would wait for as many answers.
//
// All that is exported is C: no type of ours, and no exception, comes out.

#include <harrow/harrow.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <pthread.h>
#include <signal.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "client/spec.h"
#include "client/session.h"
#include "os/event_loop.h"
#include "run_dir/find.h"
#include "run_dir/part.h"
#include "run_dir/rendezvous.h"

using harrow::Code;
using harrow::Result;
using harrow::Status;
using harrow::StrCat;
namespace client = harrow::client;

namespace {

constexpr size_t kMostOnTheirWay = 64u << 20;  // bytes of memory, about
constexpr size_t kMostSolution = 16u << 20;
constexpr size_t kOverhead = 512;              // of each task
constexpr size_t kRequest = client::SubmitQueue::Limits{}.worth_sending;

thread_local std::string message;

harrow_code CodeOf(Code code) {
  switch (code) {
    case Code::kOk:
      return HARROW_OK;
    case Code::kInvalid:
    case Code::kExists:
      return HARROW_INVALID;
    case Code::kNotFound:
      return HARROW_OVER;
    case Code::kPermission:
      return HARROW_PERMISSION;
    case Code::kRefused:
      return HARROW_VERSION;
    case Code::kExhausted:
    case Code::kUnavailable:
    case Code::kDamaged:
      return HARROW_UNKNOWN;
    case Code::kInternal:
      return HARROW_INTERNAL;
  }
  return HARROW_INTERNAL;
}

harrow_code Fail(harrow_code code, std::string_view why) {
  message = why;
  return code;
}
harrow_code Fail(const Status& status) {
  return Fail(CodeOf(status.code()), status.message());
}

/// Runs a call, from which nothing is thrown.
template <class Call>
harrow_code Guarded(const Call& call) noexcept {
  try {
    return call();
  } catch (const std::exception& e) {
    message.assign(e.what(), std::min<size_t>(strlen(e.what()), 15));  // without memory: what a string holds itself
    return HARROW_INTERNAL;
  }
}

/// Another number in each child of fork, without asking the kernel.
uint32_t Process() {
  static std::atomic<uint32_t> forks = 0;
  static const int once = pthread_atfork(nullptr, nullptr, [] { ++forks; });
  (void)once;
  return forks.load(std::memory_order_relaxed);
}

using Clock = std::chrono::steady_clock;

/// When so many seconds are over; none: never.
std::optional<Clock::time_point> EndOf(double timeout) {
  constexpr double kLongest = 1e9;
  if (!(timeout >= 0) || timeout > kLongest) return {};
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout));
}

}  // namespace

struct harrow_stream {
  harrow_run* run;
  std::string name, by;
};

struct harrow_run {
  harrow_run() : loop(harrow::os::MakeEventLoop()) {}

  Status Open(const char* directory);
  void Serve(const harrow::run_dir::Part& part);
  void TakeInbox();
  void HandOverLater();
  void HandOver();

  Status CheckTask(harrow_task task) const;
  std::string OwnTask() const;
  bool Wait(std::unique_lock<std::mutex>* lock, const std::optional<Clock::time_point>& end);
  harrow_code Flush(double timeout);
  Result<harrow::pb::BestAnswer> AskBest(harrow::pb::FromClient question);
  Status AskStream(harrow::pb::StreamRequest asked);
  harrow_code Release(harrow_stream* stream);
  void WantResults();
  Status OpenStatus() const;
  harrow_code Told(harrow_task task, harrow_result* result) const;

  /// What is known of a task.
  struct Row {
    enum class Stage : uint8_t { kOpen, kTaken, kRefused, kSettled };
    Stage stage = Stage::kOpen;
    uint8_t state = 0, ending = 0;
    uint32_t id = 0;
    int32_t code = 0;
    uint32_t bytes = 0;  // on their way
  };
  struct News {
    uint64_t handle;
    Row::Stage stage;
    uint32_t id;
    std::shared_ptr<const Status> why;
    harrow::pb::SettledTask settled;
  };

  const uint32_t process = Process();
  std::string directory;      // of the process when it opened the run
  std::string submit_directory;
  std::string run_path;
  bool local_files = false;

  std::mutex mutex;
  std::condition_variable changed;
  // All below is theirs.
  std::vector<Row> rows;  // by handle
  std::vector<client::NewTask> inbox;
  bool answer_comes = false;  // and the thread looks into the inbox then
  std::shared_ptr<const harrow::pb::Profile> last_profile;
  std::string last_profile_text;
  uint64_t answered = 0;  // all tasks before this one are
  size_t on_their_way = 0;
  std::unordered_map<uint64_t, std::shared_ptr<const Status>> refusals;
  std::optional<uint64_t> untold_refusal;
  std::deque<uint64_t> ended;  // for harrow_next
  uint64_t ended_told = 0;
  bool results_wanted = false, greeted = false;
  std::optional<Status> over;
  uint64_t best_asked = 0;
  std::unordered_map<uint64_t, std::optional<harrow::pb::BestAnswer>> best_answers;  // of questions that somebody waits for

  std::unordered_map<std::string, uint32_t> opened;  // how often, by name
  std::vector<std::unique_ptr<harrow_stream>> streams;                               // that are open
  std::unordered_map<const void*, std::optional<Status>> stream_answers;             // of those that wait for one

  // Of the thread.
  std::unordered_map<uint64_t, const void*> streams_asked;  // who waits for the answer
  std::unique_ptr<harrow::os::EventLoop> loop;
  std::optional<client::Session> session;
  std::vector<client::NewTask> taken;  // from the inbox
  std::vector<News> news;
  std::shared_ptr<const Status> last_why;
  std::optional<Status> news_over;
  bool posted = false;

  std::thread thread;
};

// --- the thread

Status harrow_run::Open(const char* given) {
  std::string path = given == nullptr ? "" : given;
  if (given == nullptr) {
    const char* of_task = getenv("HARROW_RUN");
    if (of_task == nullptr || *of_task == '\0')
      return {Code::kInvalid, "this is in no task of a run (HARROW_RUN is not set); name the run directory"};
    path = of_task;
  }
  if (path.empty()) return {Code::kInvalid, "the run directory has no name"};
  const auto found = harrow::run_dir::FindRun(harrow::os::RealFileSystem(), path, "", harrow::run_dir::Purpose::kLook);
  if (!found.ok()) return found.status();
  std::unique_ptr<char, void (*)(void*)> whole(realpath(found->c_str(), nullptr), free);
  run_path = whole == nullptr ? *found : whole.get();
  auto run = harrow::run_dir::RunDir::Open(*found, harrow::run_dir::Purpose::kLook);
  if (!run.ok()) return run.status();
  const auto part = harrow::run_dir::LookAtPart(*std::move(run));
  if (!part.ok()) return part.status();
  std::unique_ptr<char, void (*)(void*)> here(getcwd(nullptr, 0), free);
  if (here == nullptr) return {Code::kInvalid, StrCat("the present directory cannot be found: ", strerror(errno))};
  directory = here.get();

  // Signals are for the threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread = std::thread([this, part = *part] { Serve(part); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);

  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return greeted || over; });
  if (greeted) return {};
  if (over->code() == Code::kNotFound) return {Code::kNotFound, StrCat("the run in ", path, " is over, or has not begun")};
  return *over;
}

void harrow_run::Serve(const harrow::run_dir::Part& part) {
  try {
    session.emplace(loop.get(), part, client::Session::Setup{},
                    client::Session::Hooks{
                        .greeted =
                            [this](const harrow::pb::ClientHello& hello) {
                              std::lock_guard lock(mutex);
                              submit_directory = hello.submit_dir();
                              local_files = hello.local_files();
                              greeted = true;
                              changed.notify_all();
                            },
                        .taken =
                            [this](uint64_t handle, uint32_t id) {
                              news.push_back({handle, Row::Stage::kTaken, id, nullptr, {}});
                              HandOverLater();
                            },
                        .refused =
                            [this](uint64_t handle, const Status& why) {
                              if (last_why == nullptr || last_why->code() != why.code() || last_why->message() != why.message())
                                last_why = std::make_shared<const Status>(why);
                              news.push_back({handle, Row::Stage::kRefused, 0, last_why, {}});
                              HandOverLater();
                            },
                        .settled =
                            [this](uint64_t handle, const harrow::pb::SettledTask& task) {
                              news.push_back({handle, Row::Stage::kSettled, 0, nullptr, task});
                              HandOverLater();
                            },
                        .best =
                            [this](const harrow::pb::BestAnswer& answer) {
                              std::lock_guard lock(mutex);
                              if (const auto asked = best_answers.find(answer.number()); asked != best_answers.end()) asked->second = answer;
                              changed.notify_all();
                            },
                        .stream =
                            [this](uint64_t number, const Status& how) {
                              const void* const who = std::exchange(streams_asked[number], nullptr);
                              streams_asked.erase(number);
                              std::lock_guard lock(mutex);
                              if (const auto waits = stream_answers.find(who); waits != stream_answers.end()) waits->second = how;
                              changed.notify_all();
                            },
                        .over =
                            [this](const Status& why) {
                              news_over = why;
                              HandOverLater();
                            }});
    session->Start();
    loop->Run();
    session.reset();
  } catch (const std::exception& e) {
    std::lock_guard lock(mutex);
    over = Status(Code::kInternal, StrCat("the library's thread has ended: ", e.what()));
    changed.notify_all();
  }
}

void harrow_run::TakeInbox() {
  {
    std::lock_guard lock(mutex);
    taken.swap(inbox);
    answer_comes = !taken.empty() || session->unanswered() > 0;
  }
  for (client::NewTask& task : taken) session->Submit(std::move(task));
  taken.clear();
}

void harrow_run::HandOverLater() {
  if (std::exchange(posted, true)) return;
  loop->Post([this] { HandOver(); });
}

void harrow_run::HandOver() {
  posted = false;
  {
    std::lock_guard lock(mutex);
    for (News& each : news) {
      Row& row = rows[each.handle];
      row.stage = each.stage;
      if (each.stage == Row::Stage::kSettled) {
        row.state = static_cast<uint8_t>(each.settled.fate());
        row.ending = static_cast<uint8_t>(each.settled.end());
        row.code = each.settled.code();
        ended.push_back(each.handle);
        continue;
      }
      on_their_way -= std::exchange(row.bytes, 0);
      row.id = each.id;
      if (each.stage == Row::Stage::kTaken) continue;
      refusals[each.handle] = std::move(each.why);
      if (!untold_refusal || *untold_refusal > each.handle) untold_refusal = each.handle;
      ended.push_back(each.handle);
    }
    while (answered < rows.size() && rows[answered].stage != Row::Stage::kOpen) ++answered;
    if (news_over) over = news_over;
  }
  news.clear();
  changed.notify_all();
  TakeInbox();
}

// --- the callers

/// Waits for the answer of whatever server is there.
Result<harrow::pb::BestAnswer> harrow_run::AskBest(harrow::pb::FromClient question) {
  std::unique_lock lock(mutex);
  const uint64_t number = ++best_asked;
  if (question.has_offer()) question.mutable_offer()->set_number(number);
  if (question.has_best()) question.mutable_best()->set_number(number);
  best_answers.emplace(number, std::nullopt);
  loop->Post([this, question = std::move(question)] { session->AskBest(question); });
  while (!best_answers[number] && !over) changed.wait(lock);
  std::optional<harrow::pb::BestAnswer> answer = std::move(best_answers[number]);
  best_answers.erase(number);
  if (!answer) return *over;
  return *std::move(answer);
}

/// The task of the run that this is in; empty: none.
std::string harrow_run::OwnTask() const {
  const char *number = getenv("HARROW_TASK_ID"), *of = getenv("HARROW_RUN");
  return number == nullptr || of == nullptr || run_path != of ? std::string() : StrCat("#", number);
}

/// Waits until it is on disk.
Status harrow_run::AskStream(harrow::pb::StreamRequest asked) {
  std::unique_lock lock(mutex);
  const void* const who = &asked;
  stream_answers.emplace(who, std::nullopt);
  loop->Post([this, asked, who] { streams_asked[session->AskStreams({asked})] = who; });
  while (!stream_answers[who] && !(over && over->code() == Code::kInternal)) changed.wait(lock);
  const Status how = stream_answers[who].value_or(over.value_or(Status()));
  stream_answers.erase(who);
  return how;
}

/// False: the time is over.
bool harrow_run::Wait(std::unique_lock<std::mutex>* lock, const std::optional<Clock::time_point>& end) {
  if (!end) {
    changed.wait(*lock);
    return true;
  }
  return changed.wait_until(*lock, *end) == std::cv_status::no_timeout;
}

Status harrow_run::CheckTask(harrow_task task) const {
  if (task < rows.size()) return {};
  return {Code::kInvalid, StrCat("there is no task ", task, "; ", rows.size(), " were submitted to this harrow_run")};
}

/// Why what is open stays so, as nothing more comes.
Status harrow_run::OpenStatus() const {
  if (over->code() != Code::kNotFound) return *over;
  return {Code::kNotFound, "the run has ended before the task; it goes on when the run is resumed"};
}

harrow_code harrow_run::Flush(double timeout) {
  const auto end = EndOf(timeout);
  std::unique_lock lock(mutex);
  const uint64_t before = rows.size();
  while (answered < before) {
    if (over && over->code() == Code::kInternal) return Fail(*over);
    if (!Wait(&lock, end) && answered < before)
      return Fail(HARROW_TIMEOUT, StrCat(before - answered, " tasks have not been taken yet"));
  }
  if (!untold_refusal || *untold_refusal >= before) return HARROW_OK;
  const uint64_t handle = *std::exchange(untold_refusal, {});
  return Fail(*refusals.at(handle));
}

void harrow_run::WantResults() {
  if (std::exchange(results_wanted, true)) return;
  loop->Post([this] { session->AwaitAll(); });
}

harrow_code harrow_run::Told(harrow_task task, harrow_result* result) const {
  const Row& row = rows[task];
  *result = {task, static_cast<harrow_state>(row.state), static_cast<harrow_ending>(row.ending), row.code};
  return row.stage == Row::Stage::kRefused ? Fail(*refusals.at(task)) : HARROW_OK;
}

/// What was submitted before is taken first.
harrow_code harrow_run::Release(harrow_stream* stream) {
  const harrow_code flushed = Flush(HARROW_FOREVER);
  harrow::pb::StreamRequest asked;
  asked.set_name(stream->name);
  asked.set_what(harrow::pb::StreamRequest::RELEASE);
  asked.set_by(stream->by);
  const Status released = AskStream(asked);
  {
    std::lock_guard lock(mutex);
    std::erase_if(streams, [&](const auto& each) { return each.get() == stream; });
  }
  return released.ok() ? flushed : Fail(released);
}

namespace {

/// Nothing is done with what another process has opened: its thread is not here.
harrow_code CheckRun(const harrow_run* run) {
  if (run == nullptr) return Fail(HARROW_INVALID, "the harrow_run is NULL");
  if (run->process != Process()) return Fail(HARROW_INVALID, "the run was opened by another process; open it in this one");
  return HARROW_OK;
}

}  // namespace

extern "C" {

harrow_code harrow_open(const char* directory, harrow_run** run) {
  if (run == nullptr) return Fail(HARROW_INVALID, "there is no place for the harrow_run");
  *run = nullptr;
  return Guarded([&] {
    auto opened = std::make_unique<harrow_run>();
    const Status status = opened->Open(directory);
    if (status.ok()) {
      *run = opened.release();
      return HARROW_OK;
    }
    if (opened->thread.joinable()) {
      opened->loop->Stop();
      opened->thread.join();
    } else if (status.code() == Code::kNotFound) {
      return Fail(HARROW_NOT_FOUND, status.message());
    } else if (status.code() == Code::kInvalid) {
      return Fail(directory == nullptr || *directory == '\0' ? HARROW_INVALID : HARROW_NOT_FOUND, status.message());
    }
    return Fail(status);
  });
}

harrow_code harrow_close(harrow_run* run) {
  if (run == nullptr) return HARROW_OK;
  if (const harrow_code code = CheckRun(run); code != HARROW_OK) return code;
  return Guarded([&] {
    const std::unique_ptr<harrow_run> held(run);
    harrow_code code = run->Flush(HARROW_FOREVER);
    while (!run->streams.empty()) {
      const harrow_code released = run->Release(run->streams.back().get());
      if (code == HARROW_OK) code = released;
    }
    run->loop->Stop();
    run->thread.join();
    return code;
  });
}

harrow_code harrow_submit(harrow_run* run, const harrow_spec* spec, harrow_task* task) {
  if (const harrow_code code = CheckRun(run); code != HARROW_OK) return code;
  return Guarded([&] {
    Result<client::Described> read = client::Describe(spec, run->directory, run->local_files ? "" : run->submit_directory);
    if (!read.ok()) return Fail(read.status());
    client::NewTask made = std::move(read->task);
    const std::string profile = read->profile.SerializeAsString();
    const size_t bytes = made.task->ByteSizeLong() + profile.size() + kOverhead;
    std::unique_lock lock(run->mutex);
    for (const auto* handles : {&made.after, &made.after_any}) {
      for (const uint64_t handle : *handles) {
        if (const Status known = run->CheckTask(handle); !known.ok()) return Fail(known);
      }
    }
    while (run->on_their_way > kMostOnTheirWay && !run->over) run->changed.wait(lock);
    if (run->over) return Fail(*run->over);
    if (run->last_profile == nullptr || run->last_profile_text != profile) {
      run->last_profile = std::make_shared<const harrow::pb::Profile>(std::move(read->profile));
      run->last_profile_text = profile;
    }
    made.profile = run->last_profile;
    if (task != nullptr) *task = run->rows.size();
    run->inbox.push_back(std::move(made));
    const bool wake = run->inbox.size() == (run->answer_comes ? kRequest : 1);
    run->rows.push_back({.bytes = static_cast<uint32_t>(std::min<size_t>(bytes, UINT32_MAX))});
    run->on_their_way += run->rows.back().bytes;
    lock.unlock();
    if (wake) run->loop->Post([run] { run->TakeInbox(); });
    return HARROW_OK;
  });
}

harrow_code harrow_flush(harrow_run* run, double timeout) {
  if (const harrow_code code = CheckRun(run); code != HARROW_OK) return code;
  return Guarded([&] { return run->Flush(timeout); });
}

harrow_code harrow_number(harrow_run* run, harrow_task task, double timeout, uint32_t* number) {
  if (const harrow_code code = CheckRun(run); code != HARROW_OK) return code;
  return Guarded([&] {
    const auto end = EndOf(timeout);
    std::unique_lock lock(run->mutex);
    if (const Status known = run->CheckTask(task); !known.ok()) return Fail(known);
    const auto open = [&] { return run->rows[task].stage == harrow_run::Row::Stage::kOpen; };
    while (open()) {
      if (run->over) return Fail(*run->over);
      if (!run->Wait(&lock, end) && open()) return Fail(HARROW_TIMEOUT, "the task has not been taken yet");
    }
    if (run->rows[task].stage == harrow_run::Row::Stage::kRefused) return Fail(*run->refusals.at(task));
    if (number != nullptr) *number = run->rows[task].id + 1;
    return HARROW_OK;
  });
}

harrow_code harrow_await(harrow_run* run, harrow_task task, double timeout, harrow_result* result) {
  if (const harrow_code code = CheckRun(run); code != HARROW_OK) return code;
  return Guarded([&] {
    const auto end = EndOf(timeout);
    harrow_result told{};
    std::unique_lock lock(run->mutex);
    if (const Status known = run->CheckTask(task); !known.ok()) return Fail(known);
    run->WantResults();
    const auto open = [&] { return run->rows[task].stage < harrow_run::Row::Stage::kRefused; };
    while (open()) {
      if (run->over) return Fail(run->OpenStatus());
      if (!run->Wait(&lock, end) && open()) return Fail(HARROW_TIMEOUT, "the task has not ended yet");
    }
    const harrow_code code = run->Told(task, &told);
    if (result != nullptr) *result = told;
    return code;
  });
}

harrow_code harrow_next(harrow_run* run, double timeout, harrow_result* result) {
  if (const harrow_code code = CheckRun(run); code != HARROW_OK) return code;
  if (result == nullptr) return Fail(HARROW_INVALID, "there is no place for the result");
  return Guarded([&] {
    const auto end = EndOf(timeout);
    std::unique_lock lock(run->mutex);
    run->WantResults();
    while (run->ended.empty()) {
      if (run->ended_told == run->rows.size()) return Fail(HARROW_NONE, "every task that was submitted has been told");
      if (run->over) return Fail(run->OpenStatus());
      if (!run->Wait(&lock, end) && run->ended.empty()) return Fail(HARROW_TIMEOUT, "no further task has ended yet");
    }
    const uint64_t task = run->ended.front();
    run->ended.pop_front();
    ++run->ended_told;
    return run->Told(task, result);
  });
}

harrow_code harrow_offer(harrow_run* run, double value, const void* solution, size_t size, int* better) {
  if (const harrow_code code = CheckRun(run); code != HARROW_OK) return code;
  if (std::isnan(value)) return Fail(HARROW_INVALID, "the value is no number");
  if (size > kMostSolution) return Fail(HARROW_INVALID, "a solution has at most 16 MiB");
  if (solution == nullptr && size > 0) return Fail(HARROW_INVALID, "the solution is NULL");
  return Guarded([&] {
    harrow::pb::FromClient question;
    question.mutable_offer()->mutable_best()->set_value(value);
    if (size > 0) question.mutable_offer()->mutable_best()->set_solution(solution, size);
    const auto answer = run->AskBest(std::move(question));
    if (!answer.ok()) return Fail(answer.status());
    if (!answer->why().empty()) return Fail(HARROW_UNKNOWN, answer->why());
    if (better != nullptr) *better = answer->better() ? 1 : 0;
    return HARROW_OK;
  });
}

harrow_code harrow_best(harrow_run* run, double* value, void* solution, size_t* size) {
  if (const harrow_code code = CheckRun(run); code != HARROW_OK) return code;
  if (solution != nullptr && size == nullptr) return Fail(HARROW_INVALID, "the room for the solution is not told");
  return Guarded([&] {
    harrow::pb::FromClient question;
    question.mutable_best()->set_solution(size != nullptr);
    const auto answer = run->AskBest(std::move(question));
    if (!answer.ok()) return Fail(answer.status());
    if (!answer->has_best()) return Fail(HARROW_NONE, "no value is known yet");
    if (value != nullptr) *value = answer->best().value();
    const std::string& found = answer->best().solution();
    const size_t room = size == nullptr ? 0 : std::exchange(*size, found.size());
    if (solution == nullptr) return HARROW_OK;
    if (found.size() > room) return Fail(HARROW_INVALID, StrCat("the solution has ", found.size(), " bytes, more than there is room for"));
    memcpy(solution, found.data(), found.size());
    return HARROW_OK;
  });
}

harrow_code harrow_stream_open(harrow_run* run, const char* name, harrow_stream** stream) {
  if (stream == nullptr) return Fail(HARROW_INVALID, "there is no place for the harrow_stream");
  *stream = nullptr;
  if (const harrow_code code = CheckRun(run); code != HARROW_OK) return code;
  if (name == nullptr || *name == '\0') return Fail(HARROW_INVALID, "the stream has no name");
  return Guarded([&] {
    // A further attempt of the task takes the place of this one.
    const std::string task = run->OwnTask();
    const auto ordinal = [&] {
      std::lock_guard lock(run->mutex);
      return ++run->opened[name];
    };
    auto opened = std::make_unique<harrow_stream>(harrow_stream{run, name, task.empty() ? harrow::run_dir::NewKey() : StrCat(task, "/", ordinal())});
    harrow::pb::StreamRequest asked;
    asked.set_name(opened->name);
    asked.set_by(opened->by);
    asked.set_task(task);
    const Status status = run->AskStream(asked);
    if (!status.ok()) return Fail(status);
    std::lock_guard lock(run->mutex);
    *stream = run->streams.emplace_back(std::move(opened)).get();
    return HARROW_OK;
  });
}

harrow_code harrow_stream_close(harrow_stream* stream) {
  if (stream == nullptr) return HARROW_OK;
  if (const harrow_code code = CheckRun(stream->run); code != HARROW_OK) return code;
  return Guarded([&] { return stream->run->Release(stream); });
}

const char* harrow_message(void) {
  return message.c_str();
}

const char* harrow_state_name(harrow_state state) {
  switch (state) {
    case HARROW_DONE:
      return "done";
    case HARROW_FAILED:
      return "failed";
    case HARROW_SKIPPED:
      return "skipped";
    case HARROW_CANCELLED:
      return "cancelled";
    case HARROW_PRUNED:
      return "pruned";
  }
  return "unknown";
}

}  // extern "C"
