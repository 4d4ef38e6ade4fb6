// Nothing tells when output is there: the agents, on whichever nodes, append to files of the run directory, a
// tenth of a second or two after it was printed (agent/batch_policy.h), and the thread looks for what is new.
// Each piece is shown as it was read from a rank, so that a line stays whole where the rank wrote it at once.
#include "launcher/output_relay.h"

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <pthread.h>
#include <signal.h>
#include <string_view>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <utility>

#include "os/clock.h"
#include "output/packed_output.h"

namespace harrow::launcher {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(40);
constexpr Duration kLookForSignals = std::chrono::milliseconds(50);

/// 0, or errno.
int Write(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

/// What ends a program, but for what the starter had us ignore.
sigset_t EndingSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&set, signal);
  }
  return set;
}

}  // namespace

struct OutputRelay::State {
  run_dir::Part part;
  std::unique_ptr<output::Reader> reader;  // the thread's
  std::function<void()> broken;
  sigset_t ending{};

  std::mutex mutex;
  std::condition_variable changed;  // of what follows
  std::string said;                 // not yet shown
  bool last = false;                // nothing comes any more
  bool done = false;                // the thread has ended
  End end{};                        // the thread's until then
};

OutputRelay::OutputRelay(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<OutputRelay>> OutputRelay::Start(const run_dir::Part& part,
                                                        std::function<void()> broken) {
  auto state = std::make_shared<State>();
  state->part = part;
  Result<std::unique_ptr<output::Reader>> reader = output::Reader::Open(*part.dir, part.dir->path());
  if (!reader.ok()) return reader.status();
  state->reader = *std::move(reader);
  state->broken = std::move(broken);
  state->ending = EndingSignals();
  // A thread begins with the mask of who makes it.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([state] { Run(state); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), "output");
  thread.detach();
  return std::unique_ptr<OutputRelay>(new OutputRelay(std::move(state)));
}

OutputRelay::~OutputRelay() {
  std::lock_guard lock(state_->mutex);
  state_->last = true;
  state_->changed.notify_all();
}

void OutputRelay::Say(const std::string& line) {
  std::lock_guard lock(state_->mutex);
  state_->said.append("harrow: ").append(line).append("\n");
  state_->changed.notify_all();
}

void OutputRelay::Run(const std::shared_ptr<State>& state) {
  End end;
  const auto show = [&](int fd, std::string_view text, bool last) {
    if (end.error != 0) return;
    end.error = Write(fd, text);
    if (end.error != 0 && !last) state->broken();
  };
  std::unique_lock lock(state->mutex);
  for (bool last = false; !last;) {
    state->changed.wait_for(lock, kLook, [&] { return state->last || !state->said.empty(); });
    // Taken before the files are read: what was printed before it was said is shown before it.
    last = state->last;
    const std::string said = std::exchange(state->said, {});
    lock.unlock();
    const Status read = state->reader->ReadNew([&](output::FileNumber, const output::Piece& piece) {
      show(piece.stream == output::Stream::kStdout ? STDOUT_FILENO : STDERR_FILENO, piece.data, last);
    });
    // What cannot be read now may be later; what is damaged is told once.
    if (!read.ok() && (last || read.code() == Code::kDamaged) && end.damage.ok()) end.damage = read;
    show(STDERR_FILENO, said, last);
    lock.lock();
  }
  state->end = std::move(end);
  state->done = true;
  state->changed.notify_all();
}

OutputRelay::End OutputRelay::Finish(const std::string& words, std::optional<Duration> patience) {
  const Duration begin = os::RealClock().Steady();
  std::unique_lock lock(state_->mutex);
  state_->said += words;
  state_->last = true;
  state_->changed.notify_all();
  while (!state_->changed.wait_for(lock, kLookForSignals, [this] { return state_->done; })) {
    const timespec now{};
    const int signal = sigtimedwait(&state_->ending, nullptr, &now);
    if (signal > 0) return {.signal = signal, .cut = true};
    if (patience && os::RealClock().Steady() - begin >= *patience) return {.cut = true};
  }
  return state_->end;
}

}  // namespace harrow::launcher
