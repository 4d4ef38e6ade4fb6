// Harrow in C++20: tasks for a run that goes on, and what becomes of them. It is <harrow/harrow.h> with values instead of pointers,
// and all that is told there holds here; there is nothing of it in the library.
//
//     auto run = harrow::client::Run::Open();
//     if (!run) return std::puts(run.error().message.c_str());
//     auto task = run->Submit({.command = "./solve case-7", .cores = 4});
//     auto result = run->Await(*task);
//     if (result && result->state == harrow::client::State::kDone) ...
#ifndef HARROW_CLIENT_H
#define HARROW_CLIENT_H

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <harrow/harrow.h>

namespace harrow::client {

enum class Code {
  kOk = HARROW_OK,
  kInvalid = HARROW_INVALID,
  kNotFound = HARROW_NOT_FOUND,
  kPermission = HARROW_PERMISSION,
  kOver = HARROW_OVER,
  kUnknown = HARROW_UNKNOWN,
  kTimeout = HARROW_TIMEOUT,
  kNone = HARROW_NONE,
  kVersion = HARROW_VERSION,
  kInternal = HARROW_INTERNAL,
};

/// How a call went; true when it did what it was to do.
struct Status {
  Code code = Code::kOk;
  std::string message{};  // one line for people
  explicit operator bool() const { return code == Code::kOk; }
};

/// A value, or why there is none.
template <class T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Expected(Status error) : v_(std::in_place_index<1>, std::move(error)) {}
  explicit operator bool() const { return v_.index() == 0; }
  T& operator*() { return std::get<0>(v_); }
  const T& operator*() const { return std::get<0>(v_); }
  T* operator->() { return &std::get<0>(v_); }
  const T* operator->() const { return &std::get<0>(v_); }
  /// Where there is no value.
  const Status& error() const { return std::get<1>(v_); }

 private:
  std::variant<T, Status> v_;
};

/// A task that was submitted, of the Run that took it.
struct Task {
  harrow_task handle;
  bool operator==(const Task&) const = default;
};

/// harrow_spec tells what they mean.
struct Spec {
  std::string command{};
  std::vector<std::string> arguments{};
  std::string name{};
  uint32_t cores = 0, gpus = 0;
  uint64_t memory = 0;
  uint32_t nodes = 0, ranks = 0;
  std::chrono::duration<double> time_limit{0};
  int32_t retries = 0, priority = 0;
  std::string directory{}, shell{};
  std::vector<std::string> environment{}, inputs{}, outputs{};
  std::string stdin_path{}, stdout_path{}, stderr_path{};
  std::vector<Task> after{}, after_any{};
  std::vector<std::string> after_names{}, after_any_names{};
  std::optional<double> bound{};
  std::vector<std::string> from{}, to{};
  std::string share{}, records{};
  std::vector<std::string> open{};
};

enum class State { kDone = HARROW_DONE, kFailed = HARROW_FAILED, kSkipped = HARROW_SKIPPED, kCancelled = HARROW_CANCELLED, kPruned = HARROW_PRUNED };
enum class Ending {
  kNoAttempt = HARROW_NO_ATTEMPT,
  kExited = HARROW_EXITED,
  kSignaled = HARROW_SIGNALED,
  kTimedOut = HARROW_TIMED_OUT,
  kOutOfMemory = HARROW_OUT_OF_MEMORY,
  kCancelled = HARROW_ENDED_BY_CANCEL,
  kInterrupted = HARROW_INTERRUPTED,
  kNotStarted = HARROW_NOT_STARTED,
  kLost = HARROW_LOST,
  kMissingOutput = HARROW_MISSING_OUTPUT,
  kRewound = HARROW_REWOUND,
  kCheckpointed = HARROW_CHECKPOINTED,
};
struct Result {
  Task task{};
  State state{};
  Ending ending{};
  int32_t code = 0;
};

/// A value of the run, and what belongs to it.
struct Best {
  double value = 0;
  std::string solution{};
};

inline std::string Name(State state) {
  return harrow_state_name(static_cast<harrow_state>(state));
}

/// A stream that is held open, until Close or the end of this.
class Stream {
 public:
  /// As Close, whose answer nobody hears.
  ~Stream() { harrow_stream_close(stream_); }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    if (this != &other) harrow_stream_close(std::exchange(stream_, std::exchange(other.stream_, nullptr)));
    return *this;
  }
  Status Close() {
    const harrow_code code = harrow_stream_close(std::exchange(stream_, nullptr));
    return code == HARROW_OK ? Status{} : Status{static_cast<Code>(code), harrow_message()};
  }

 private:
  friend class Run;
  explicit Stream(harrow_stream* stream) : stream_(stream) {}
  harrow_stream* stream_;
};

/// A run that goes on. Any thread may call any member at any time, but for its end and what moves it.
class Run {
 public:
  using Seconds = std::chrono::duration<double>;
  static constexpr Seconds kForever{HARROW_FOREVER};

  /// Empty: the run of the task which this is in (HARROW_RUN).
  static Expected<Run> Open(const std::string& directory = {}) {
    harrow_run* run = nullptr;
    const harrow_code code = harrow_open(directory.empty() ? nullptr : directory.c_str(), &run);
    if (code != HARROW_OK) return Failed(code);
    return Run(run);
  }
  /// As Close, whose answer nobody hears.
  ~Run() { harrow_close(run_); }
  Run(Run&& other) noexcept : run_(std::exchange(other.run_, nullptr)) {}
  Run& operator=(Run&& other) noexcept {
    if (this != &other) harrow_close(std::exchange(run_, std::exchange(other.run_, nullptr)));
    return *this;
  }

  Expected<Task> Submit(const Spec& spec) {
    Pointers arguments(spec.arguments), environment(spec.environment), inputs(spec.inputs), outputs(spec.outputs),
        after_names(spec.after_names), after_any_names(spec.after_any_names), from(spec.from), to(spec.to), open(spec.open);
    const std::vector<harrow_task> after = Handles(spec.after), after_any = Handles(spec.after_any);
    const auto text = [](const std::string& given) { return given.empty() ? nullptr : given.c_str(); };
    for (const std::string* given : {&spec.command, &spec.name, &spec.directory, &spec.shell, &spec.stdin_path, &spec.stdout_path,
                                     &spec.stderr_path, &spec.share, &spec.records}) {
      if (given->find('\0') != std::string::npos) return Status{Code::kInvalid, "a text of a task holds a NUL"};
    }
    harrow_spec c{};
    c.size = sizeof c;
    c.command = text(spec.command);
    c.arguments = arguments.get();
    c.name = text(spec.name);
    c.cores = spec.cores;
    c.gpus = spec.gpus;
    c.memory = spec.memory;
    c.nodes = spec.nodes;
    c.ranks = spec.ranks;
    c.time_limit = spec.time_limit.count();
    c.retries = spec.retries;
    c.priority = spec.priority;
    c.directory = text(spec.directory);
    c.shell = text(spec.shell);
    c.environment = environment.get();
    c.inputs = inputs.get();
    c.outputs = outputs.get();
    c.stdin_path = text(spec.stdin_path);
    c.stdout_path = text(spec.stdout_path);
    c.stderr_path = text(spec.stderr_path);
    c.after = after.data();
    c.after_count = after.size();
    c.after_any = after_any.data();
    c.after_any_count = after_any.size();
    c.after_names = after_names.get();
    c.after_any_names = after_any_names.get();
    c.bound = spec.bound ? &*spec.bound : nullptr;
    c.from = from.get();
    c.to = to.get();
    c.share = text(spec.share);
    c.records = text(spec.records);
    c.open = open.get();
    Task task{};
    const harrow_code code = harrow_submit(run_, &c, &task.handle);
    if (code != HARROW_OK) return Failed(code);
    return task;
  }
  /// All that was submitted before is on disk, or one was not taken: why.
  Status Flush(Seconds timeout = kForever) { return Told(harrow_flush(run_, timeout.count())); }
  /// What the task is called in the run: "#12".
  Expected<std::string> Number(Task task, Seconds timeout = kForever) {
    uint32_t number = 0;
    const harrow_code code = harrow_number(run_, task.handle, timeout.count(), &number);
    if (code != HARROW_OK) return Failed(code);
    return "#" + std::to_string(number);
  }
  Expected<Result> Await(Task task, Seconds timeout = kForever) {
    harrow_result result{};
    const harrow_code code = harrow_await(run_, task.handle, timeout.count(), &result);
    if (code != HARROW_OK) return Failed(code);
    return Of(result);
  }
  /// The next that has ended, each once. Where the code is kInvalid or kUnknown, *which was not taken.
  Expected<Result> Next(Seconds timeout = kForever, Task* which = nullptr) {
    harrow_result result{};
    const harrow_code code = harrow_next(run_, timeout.count(), &result);
    if (which != nullptr) which->handle = result.task;
    if (code != HARROW_OK) return Failed(code);
    return Of(result);
  }
  /// Whether it is better than all that were known; it is on disk.
  Expected<bool> Offer(double value, const std::string& solution = {}) {
    int better = 0;
    const harrow_code code = harrow_offer(run_, value, solution.data(), solution.size(), &better);
    if (code != HARROW_OK) return Failed(code);
    return better != 0;
  }
  /// It is open as long as what is returned, which must not outlive the Run.
  Expected<Stream> OpenStream(const std::string& name) {
    harrow_stream* stream = nullptr;
    const harrow_code code = harrow_stream_open(run_, name.c_str(), &stream);
    if (code != HARROW_OK) return Failed(code);
    return Stream(stream);
  }
  /// kNone: none is known.
  Expected<Best> BestValue() {
    Best best;
    for (size_t room = 4096;;) {
      best.solution.resize(room);
      size_t size = room;
      const harrow_code code = harrow_best(run_, &best.value, best.solution.data(), &size);
      if (code == HARROW_INVALID && size > room) {
        room = size;  // it may be another one by now
        continue;
      }
      if (code != HARROW_OK) return Failed(code);
      best.solution.resize(size);
      return best;
    }
  }
  /// Waits as Flush does; the Run is of no more use.
  Status Close() { return Told(harrow_close(std::exchange(run_, nullptr))); }

 private:
  /// A list as C has them; of none NULL.
  class Pointers {
   public:
    explicit Pointers(const std::vector<std::string>& texts) {
      if (texts.empty()) return;
      for (const std::string& text : texts) list_.push_back(text.c_str());
      list_.push_back(nullptr);
    }
    const char* const* get() const { return list_.empty() ? nullptr : list_.data(); }

   private:
    std::vector<const char*> list_;
  };

  explicit Run(harrow_run* run) : run_(run) {}
  static std::vector<harrow_task> Handles(const std::vector<Task>& tasks) {
    std::vector<harrow_task> handles;
    for (const Task& task : tasks) handles.push_back(task.handle);
    return handles;
  }
  static Status Failed(harrow_code code) { return {static_cast<Code>(code), harrow_message()}; }
  static Status Told(harrow_code code) { return code == HARROW_OK ? Status{} : Failed(code); }
  static Result Of(const harrow_result& result) {
    return {{result.task}, static_cast<State>(result.state), static_cast<Ending>(result.ending), result.code};
  }

  harrow_run* run_;
};

}  // namespace harrow::client

#endif
