// Streams between tasks. What a task writes to streams is its standard output; the thread of its slot takes
// that from the pipe into a log, a file of this node (stream/spool.h), so that a writer never waits for who
// reads. Who reads it, here or on another node, reads the log, as often as it is wanted, until the server has
// it dropped. A log is whole when its attempt has succeeded, by what this agent makes of its end; that of one
// that did not is dropped at once.
//
// One thread, with a loop, feeds all who read (stream_feeds.h), and gives to other nodes what they ask for,
// and asks them (stream_exchange.h). It begins with the first attempt that has streams. Slots' threads have
// descriptors of their own, and know one of this: an eventfd, by which they wake the loop. The other way
// round, the loop's thread opens a slot's end of a pipe by its name below /proc.
//
// The server says which attempt is a stream's writer, and where. When one that was read from does not
// succeed, or what it wrote is lost, whoever was given some of it ends as rewound, and its task starts again.
#include "agent/stream_port.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <future>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "agent/messages.h"
#include "base/text.h"
#include "os/in_batches.h"
#include "os/log.h"
#include "wire/attempt_id.h"
#include "wire/harrow.pb.h"

namespace harrow::agent {

StreamPort::StreamPort(const std::string& tmp, Hooks hooks)
    : hooks_(std::move(hooks)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      loop_(os::MakeEventLoop()),
      gate_(loop_.get()) {
  if (tmp.empty()) {
    no_spool_ =
        Status(Code::kUnavailable,
               "there is no private directory on the node's disk for what it writes to streams (TMPDIR)");
    return;
  }
  Result<std::unique_ptr<stream::Spool>> spool = stream::Spool::Open(tmp);
  no_spool_ = spool.status();
  if (!spool.ok()) return;
  spool_ = *std::move(spool);
  exchange_ = std::make_unique<StreamExchange>(loop_.get(), spool_.get());
  feeds_ = std::make_unique<StreamFeeds>(loop_.get(), spool_.get(), exchange_.get(),
                                         StreamFeeds::Hooks{.rewind = hooks_.rewind});
  exchange_->SetFeeds(feeds_.get());
  loop_->WatchFd(wake_.get(), [this] {
    uint64_t count;
    [[maybe_unused]] const ssize_t n = read(wake_.get(), &count, sizeof count);
    DoPosted();
  });
}

StreamPort::~StreamPort() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    posted_.clear();
  }
  if (thread_.joinable()) {
    loop_->Post([this] { loop_->Stop(); });
    thread_.join();
  }
  loop_->UnwatchFd(wake_.get());
  feeds_.reset();
  exchange_.reset();
}

void StreamPort::OnLoop(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    posted_.push_back(std::move(work));
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(wake_.get(), &one, sizeof one);
}

void StreamPort::DoPosted() {
  while (true) {
    std::function<void()> work;
    {
      std::lock_guard lock(mutex_);
      if (posted_.empty()) return;
      work = std::move(posted_.front());
      posted_.pop_front();
    }
    work();
  }
}

bool StreamPort::OnLoopNow(const std::function<void()>& work) {
  {
    std::lock_guard lock(mutex_);
    if (!began_ || ended_) return false;
  }
  const auto done = std::make_shared<std::promise<void>>();
  OnLoop([&work, done] {
    work();
    done->set_value();
  });
  done->get_future().wait();
  return true;
}

// --- of the server

void StreamPort::SetSelf(NodeId node) {
  OnLoop([this, node] {
    if (feeds_) feeds_->SetSelf(node);
  });
}

void StreamPort::Take(const pb::ToAgent& message) {
  if (!spool_) return;
  for (const pb::SourceChanged& changed : message.source()) {
    OnLoop([this, reader = wire::IdOf(changed.reader()), source = SourceFromProto(changed.source())] {
      feeds_->Change(reader, source);
    });
  }
  for (const pb::AttemptId& unread : message.unread()) {
    const AttemptId attempt = wire::IdOf(unread);
    const std::shared_ptr<stream::Log> log = spool_->Find(attempt);
    if (log == nullptr) continue;
    log->Close();
    hooks_.wake(attempt);
  }
  for (const pb::AttemptId& dropped : message.drop_written()) {
    OnLoop([this, attempt = wire::IdOf(dropped)] {
      spool_->Drop(attempt);
      Changed(attempt);
      spool_->Tidy();
    });
  }
}

void StreamPort::NameWritten(pb::AgentHello* hello) {
  if (!spool_) return;
  for (const AttemptId attempt : spool_->Whole()) wire::SetId(attempt, hello->add_written());
}

// --- of slots

void StreamPort::Join(const LocalTask& task) {
  bool first = false;
  {
    std::lock_guard lock(mutex_);
    first = !std::exchange(began_, true);
  }
  if (first) {
    OnLoop([this] {
      if (exchange_) exchange_->Connect(&gate_);
    });
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "streams");
      const os::InBatches batches;
      loop_->Run();
    });
    hooks_.first();
  }
  if (!feeds_ || task.sources.empty()) return;
  OnLoop([this, reader = task.attempt_id(), sources = task.sources] { feeds_->Join(reader, sources); });
}

void StreamPort::Leave(AttemptId attempt) {
  OnLoop([this, attempt] {
    if (feeds_) feeds_->Leave(attempt);
  });
}

Result<std::shared_ptr<stream::Log>> StreamPort::Write(AttemptId attempt) {
  if (!spool_) return no_spool_;
  std::shared_ptr<stream::Log> log = spool_->Make(attempt);
  Grown(attempt);  // who has begun to read it has not found it, and would look again a second later
  return log;
}

Status StreamPort::Feed(AttemptId attempt, int pipe) {
  if (!feeds_) return no_spool_;
  const std::string path =
      StrCat("/proc/self/task/", static_cast<int64_t>(syscall(SYS_gettid)), "/fd/", pipe);
  Status fed;
  const bool done = OnLoopNow([&] {
    os::Fd own(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    if (!own.ok()) {
      fed = Status(Code::kExhausted, StrCat("no way to its standard input: ", strerror(errno)));
      return;
    }
    feeds_->Begin(attempt, std::move(own));
  });
  return done ? fed : Status(Code::kUnavailable, "the agent ends");
}

void StreamPort::Grown(AttemptId attempt) {
  OnLoop([this, attempt] { Changed(attempt); });
}

void StreamPort::Changed(AttemptId writer) {
  feeds_->Grown(writer);
  exchange_->Grown(writer);
}

void StreamPort::Settle(const LocalTask& task, TaskResult* result) {
  if (!feeds_) return;
  (void)OnLoopNow([&] {
    const bool of_itself =
        result->end == End::kExited || result->end == End::kSignaled || result->end == End::kMissingOutput;
    StreamFeeds::Verdict verdict = feeds_->Settle(task.attempt_id());
    if (verdict.rewound && (of_itself || result->end == End::kRewound)) {
      result->end = End::kRewound;
      result->message = std::move(verdict.why);
    } else if (of_itself) {
      result->read = std::move(verdict.read);
      result->read_to_end = verdict.to_end;
    }
    if (task.writes_streams) SettleWriter(task, result);
  });
}

void StreamPort::SettleWriter(const LocalTask& task, TaskResult* result) {
  const AttemptId attempt = task.attempt_id();
  const std::shared_ptr<stream::Log> log = spool_->Find(attempt);
  if (log == nullptr) return;
  const bool succeeded = result->succeeded();
  if (succeeded && !log->cut_off()) {
    result->written = log->length();
    log->SetState(stream::Log::State::kWhole);
  } else if (succeeded || log->closed()) {
    log->SetState(stream::Log::State::kIncomplete);
  } else {
    spool_->Drop(attempt);
  }
  Changed(attempt);
  spool_->Tidy();
}

}  // namespace harrow::agent
