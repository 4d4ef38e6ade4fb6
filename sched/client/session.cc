// Requests and questions are those of a session of the run: from its begin or resume to its end. A server that takes the place of
// another one in the same session knows what that one took, by the requests' ids; so what has no answer is sent again, and
// what has not settled is asked for again. In another session neither the ids of requests nor, with another flow, those of
// tasks mean the same: nothing is sent there.

#include "client/session.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "run_dir/rendezvous.h"

namespace harrow::client {
namespace {

constexpr size_t kMostUnsent = 32u << 20;
constexpr int kMostInQuestion = 1'000'000;
constexpr uint32_t kDone = 1;  // journal::TaskFate

}  // namespace

Session::Session(os::EventLoop* loop, os::FileSystem& fs, std::string run, std::string part_dir, Setup setup,
                 Hooks hooks)
    : loop_(loop),
      run_(std::move(run)),
      hooks_(std::move(hooks)),
      queue_(setup.limits, setup.alone,
             {.new_id = [] { return run_dir::NewKey(); },
              .taken = [this](uint64_t handle, uint32_t id) { Taken(handle, id); },
              .refused = [this](uint64_t handle, const Status& why) { hooks_.refused(handle, why); }}),
      posted_(std::make_shared<Session*>(this)),
      link_(loop, fs, std::move(part_dir), std::move(setup.link),
            {.up = [this](const pb::ClientHello& hello) { Up(hello); },
             .message = [this](const pb::ToClient& message) { OnMessage(message); },
             .down = [](const Status&) { return true; },
             .over = [this](const Status& why) { Over(why); }}) {}

run_dir::Part Session::Nearest(const run_dir::Part& first) {
  const char *run = std::getenv("HARROW_RUN"), *number = std::getenv("HARROW_PART");
  if (run == nullptr || number == nullptr || first.run == first.dir || number == StrCat(first.number)) return first;
  std::error_code none;
  if (!std::filesystem::equivalent(run, first.run->path(), none)) return first;
  const Result<std::vector<uint32_t>> parts = run_dir::PartNumbers(*first.run);
  for (const uint32_t part : parts.ok() ? *parts : std::vector<uint32_t>()) {
    if (StrCat(part) != number) continue;
    const Result<run_dir::Part> own = run_dir::OpenPart(first.run, number);
    if (own.ok()) return *own;
  }
  return first;
}

Session::Setup Session::OfRun(Setup setup, const run_dir::Part& part) {
  setup.link.others = [run = part.run, dir = part.dir, number = part.number] {
    std::vector<run_dir::Part> others;
    if (run == dir) return others;
    const Result<std::vector<uint32_t>> numbers = run_dir::PartNumbers(*run);
    for (const uint32_t other : numbers.ok() ? *numbers : std::vector<uint32_t>()) {
      if (other == number) continue;
      Result<run_dir::Part> opened = run_dir::OpenPart(run, StrCat(other));
      if (opened.ok()) others.push_back(*std::move(opened));
    }
    return others;
  };
  return setup;
}

Session::~Session() {
  *posted_ = nullptr;
}

uint64_t Session::Submit(NewTask task) {
  const uint64_t handle = queue_.Add(std::move(task));
  GoOnLater();
  return handle;
}

void Session::AskBest(pb::FromClient question) {
  const uint64_t number = question.has_offer() ? question.offer().number() : question.best().number();
  if (link_.up() && !over_) link_.Send(question);
  best_asked_[number] = std::move(question);
}

uint64_t Session::AskStreams(const std::vector<pb::StreamRequest>& asked) {
  const uint64_t number = ++last_stream_;
  pb::SubmitRequest& request = streams_asked_[number];
  request.set_id(run_dir::NewKey());
  *request.mutable_stream() = {asked.begin(), asked.end()};
  if (link_.up() && !over_) Send(request);
  GoOnLater();
  return number;
}

/// Is it the request of a question about a stream?
bool Session::AnswersStream(const std::string& request, const Status& how) {
  const auto asked = std::find_if(streams_asked_.begin(), streams_asked_.end(), [&](const auto& each) { return each.second.id() == request; });
  if (asked == streams_asked_.end()) return false;
  const uint64_t number = asked->first;
  streams_asked_.erase(asked);
  if (hooks_.stream) hooks_.stream(number, how);
  return true;
}

void Session::AwaitAll() {
  if (std::exchange(awaits_, true)) return;
  for (const auto& [id, handle] : std::exchange(taken_, {})) {
    unsettled_.emplace(id, handle);
    to_ask_.push_back(id);
  }
  GoOnLater();
}

void Session::Up(const pb::ClientHello& hello) {
  if (over_) return;
  if (!session_) {
    session_ = hello.session();
    hooks_.greeted(hello);
  } else if (*session_ != hello.session()) {
    return End(Status(Code::kNotFound, StrCat("the run in ", run_, " has been resumed since; open it again")),
               Status(Code::kUnavailable, "the run has been resumed since, and it is not known whether the tasks were taken"));
  }
  for (const pb::SubmitRequest* request : queue_.InFlight()) Send(*request);
  for (const auto& [number, question] : best_asked_) link_.Send(question);
  for (const auto& [number, request] : streams_asked_) Send(request);
  to_ask_.clear();
  for (const auto& [id, handle] : unsettled_) to_ask_.push_back(id);
  GoOn();
}

/// Without a copy of it.
void Session::Send(const pb::SubmitRequest& request) {
  pb::FromClient message;
  message.set_allocated_submit(const_cast<pb::SubmitRequest*>(&request));
  link_.Send(message);
  (void)message.release_submit();
}

void Session::OnMessage(const pb::ToClient& message) {
  if (message.has_submitted() && !AnswersStream(message.submitted().request(), Status())) queue_.Taken(message.submitted());
  if (message.has_answer() && !message.answer().request().empty() &&
      !AnswersStream(message.answer().request(), RefusalOf(message.answer())))
    queue_.Refused(message.answer());
  if (message.has_best() && best_asked_.erase(message.best().number()) > 0 && hooks_.best) hooks_.best(message.best());
  for (const uint32_t id : message.settled().done()) {
    pb::SettledTask done;
    done.set_task(id);
    done.set_fate(kDone);
    done.set_end(pb::Attempt::EXITED);
    Settle(done);
  }
  for (const pb::SettledTask& task : message.settled().other()) Settle(task);
  if (message.settled().unknown_size() > 0) {
    const Status lost(Code::kDamaged, StrCat("the run in ", run_, " does not know tasks that it has taken; see its server's log"));
    return End(lost, lost);
  }
  GoOnLater();
}

void Session::Taken(uint64_t handle, uint32_t id) {
  if (awaits_) {
    unsettled_.emplace(id, handle);
    to_ask_.push_back(id);
  } else {
    taken_.emplace_back(id, handle);
  }
  hooks_.taken(handle, id);
}

void Session::Settle(const pb::SettledTask& task) {
  const auto [first, last] = unsettled_.equal_range(task.task());
  for (auto each = first; each != last; ++each) hooks_.settled(each->second, task);
  unsettled_.erase(first, last);
}

void Session::Over(const Status& why) {
  if (why.code() != Code::kNotFound) return End(why, why);
  const std::string run = StrCat("the run in ", run_);
  End(Status(Code::kNotFound, StrCat(run, " is over, and takes no more tasks")),
      Status(Code::kUnavailable, StrCat(run, " has ended, and it is not known whether the tasks were taken")));
}

void Session::End(const Status& not_taken, const Status& unknown) {
  if (over_) return;
  over_ = not_taken;
  queue_.Close(not_taken, unknown);
  for (const auto& [number, request] : std::exchange(streams_asked_, {})) {
    if (hooks_.stream) hooks_.stream(number, unknown);
  }
  hooks_.over(not_taken);
}

/// What one turn of the loop brings is looked at together.
void Session::GoOnLater() {
  if (std::exchange(pending_, true)) return;
  loop_->Post([posted = posted_] {
    if (*posted == nullptr) return;
    (*posted)->pending_ = false;
    (*posted)->GoOn();
  });
}

void Session::GoOn() {
  if (over_) {
    for (const auto& [number, request] : std::exchange(streams_asked_, {})) {
      if (hooks_.stream) hooks_.stream(number, *over_);
    }
    return queue_.Close(*over_, *over_);
  }
  if (!link_.up()) return;
  while (link_.unsent_bytes() < kMostUnsent) {
    const pb::SubmitRequest* request = queue_.Next();
    if (request == nullptr) break;
    Send(*request);
  }
  while (!to_ask_.empty()) {
    pb::FromClient message;
    for (int i = 0; i < kMostInQuestion && !to_ask_.empty(); ++i, to_ask_.pop_back())
      message.mutable_await()->add_task(to_ask_.back());
    link_.Send(message);
  }
}

}  // namespace harrow::client
