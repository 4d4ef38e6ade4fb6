// kApart --dial--> kDialing --connected: hello--> kGreeting --welcome--> kJoined; any failure leads back to
// kApart, and after kRetry it dials again, reading RUN/server anew. The hello tells all that this agent has,
// the results that are kept included, so that a server that has just been started knows at once. A server
// with a lower epoch than one obeyed before is a left-over: it is hung up on. An agent that leaves, for
// whatever reason, uses the connection that it has and makes no other: who dials is taken for one that goes
// on.
#include "agent/session.h"

#include <utility>

#include "agent/messages.h"
#include "base/text.h"
#include "os/log.h"
#include "wire/attempt_id.h"
#include "wire/decode.h"
#include "wire/version.h"

namespace harrow::agent {
namespace {

constexpr Duration kRetry = std::chrono::milliseconds(100);
constexpr int kSilentBeats = 10;  // a server that answers none of so many is gone
constexpr Duration kMostLease = std::chrono::hours(24);
constexpr int kBeatsBeforeFence = 4;
constexpr Duration kAskAgain = std::chrono::milliseconds(5);

std::vector<AttemptId> IdsOf(const google::protobuf::RepeatedPtrField<pb::AttemptId>& messages) {
  std::vector<AttemptId> ids;
  ids.reserve(static_cast<size_t>(messages.size()));
  for (const pb::AttemptId& message : messages) ids.push_back(wire::IdOf(message));
  return ids;
}

}  // namespace

Session::Session(os::EventLoop& loop, TaskHost& host, NodeInfo node, Dial dial, Hooks hooks)
    : loop_(loop), host_(host), node_(std::move(node)), dial_(std::move(dial)), hooks_(std::move(hooks)) {}

Session::~Session() {
  *alive_ = false;
  loop_.CancelTimer(beat_timer_);
  loop_.CancelTimer(lease_timer_);
  loop_.CancelTimer(fence_timer_);
  loop_.CancelTimer(notes_timer_);
}

void Session::Start() {
  last_heard_ = lease_looked_ = loop_.Now();
  CheckLease();
  Connect();
}

void Session::Connect() {
  if (state_ != State::kApart || leaving_) return;
  state_ = State::kDialing;
  dial_([this, alive = alive_](Result<Connection> result) {
    return *alive ? Dialed(std::move(result)) : wire::ChannelHandler();
  });
}

wire::ChannelHandler Session::Dialed(Result<Connection> result) {
  if (state_ != State::kDialing || leaving_) return {};
  if (!result.ok()) {
    Disconnected(result.status().message());
    return {};
  }
  if (!run_id_.empty() && result->run_id != run_id_) {
    Finish(Over::kRefused, StrCat("the run directory now belongs to another run, ", result->run_id));
    return {};
  }
  run_id_ = result->run_id;
  channel_ = std::move(result->channel);
  state_ = State::kGreeting;
  const uint64_t connection = ++connection_;
  Hello(run_id_);
  return {.on_message =
              [this, connection, alive = alive_](std::string_view message) {
                if (*alive && connection == connection_) Receive(message);
              },
          .on_closed =
              [this, connection, alive = alive_](const Status& why) {
                if (*alive && connection == connection_) Disconnected(why.message());
              }};
}

void Session::Hello(const std::string& run_id) {
  hello_sent_ = loop_.Now();
  pb::FromAgent message;
  pb::AgentHello* hello = message.mutable_hello();
  hello->set_version(wire::kProtocolVersion);
  hello->set_run_id(run_id);
  hello->set_incarnation(node_.incarnation);
  hello->set_output_file(node_.output_file);
  hello->set_unfit(node_.unfit);
  pb::NodeDescription* node = hello->mutable_node();
  node->set_name(node_.name);
  node->set_slots(node_.slots);
  node->set_gpus(node_.devices);
  node->set_memory(node_.memory);
  node->set_topology(node_.topology);
  const TaskHost::Snapshot snapshot = host_.TakeSnapshot();
  for (const StartedTask& task : snapshot.running) {
    pb::Attempt* attempt = hello->add_running();
    attempt->set_task(task.id);
    attempt->set_attempt(task.attempt);
    attempt->set_start_ns(Nanoseconds(task.start));
    if (task.gang) GangToProto(*task.gang, attempt->mutable_gang());
  }
  for (const AttemptId attempt : snapshot.queued) wire::SetId(attempt, hello->add_queued());
  hooks_.held(hello);
  // Serialized messages can be joined: their fields are merged, repeated ones appended.
  std::string bytes = message.SerializeAsString();
  for (const Kept& kept : kept_) bytes += kept.message;
  told_sequence_ = last_sequence_;
  early_starts_.clear();
  channel_->Send(bytes);
  // A server that hangs, or whose node is gone, takes connections and answers none.
  beat_timer_ = loop_.After(heartbeat_ * kSilentBeats, [this] { HangUp("the server does not greet"); });
}

void Session::HangUp(const std::string& why) {
  channel_->Close();
  Disconnected(why);
}

void Session::Disconnected(const std::string& why) {
  if (state_ == State::kOver) return;
  if (state_ == State::kJoined || why != last_failure_) os::LogInfo("no server: " + why);
  last_failure_ = why;
  ++connection_;
  loop_.CancelTimer(beat_timer_);
  ForgetNotes();
  // Destroyed later: this may be a call of the channel's own.
  if (channel_) loop_.Post([channel = std::exchange(channel_, nullptr)] {});
  state_ = State::kApart;
  if (leaving_) return;
  loop_.After(kRetry, [this, alive = alive_] {
    if (*alive) Connect();
  });
}

void Session::Receive(std::string_view bytes) {
  pb::ToAgent& message = incoming_;
  if (const Status read = wire::Decode(bytes, &message); !read.ok()) {
    HangUp(StrCat("the server: ", read.message()));
    return;
  }
  last_heard_ = loop_.Now();
  CheckFence();  // an agent that hung finds only now that its time was over
  if (message.has_shutdown()) {
    const pb::Shutdown& shutdown = message.shutdown();
    told_to_end_ = true;
    Finish(shutdown.refused() ? Over::kRefused : Over::kShutDown, shutdown.reason());
    return;
  }
  if (message.has_welcome()) {
    if (message.welcome().epoch() < epoch_seen_) {
      HangUp(StrCat("a server of epoch ", message.welcome().epoch(), " answered, but one of epoch ",
                    epoch_seen_, " has been there"));
      return;
    }
    TakeWelcome(message.welcome());
  }
  if (state_ != State::kJoined) return;
  TakeProfiles(message);
  if (message.take_back_size() > 0) {
    pb::FromAgent answer;
    for (const AttemptId attempt : host_.TakeBack(IdsOf(message.take_back())))
      wire::SetId(attempt, answer.mutable_returned()->add_attempt());
    if (answer.has_returned()) Send(answer);
  }
  // Before new tasks: what is to be ended may be an earlier attempt of one of them.
  if (message.has_cancel()) {
    host_.EndTasks(IdsOf(message.cancel().attempt()),
                   message.cancel().interrupted() ? End::kInterrupted : End::kCancelled);
    host_.EndTasks(IdsOf(message.cancel().lost()), End::kLost);
  }
  if (message.checkpoint_size() > 0) host_.AskForCheckpoints(IdsOf(message.checkpoint()));
  // After what is to be ended instead.
  if (message.has_welcome()) {
    fence_.Set(Duration(message.welcome().fence_ns()));
    fence_.Answered(hello_sent_, loop_.Now());
    RenewFence();
    loop_.CancelTimer(beat_timer_);
    Beat();
  }
  if (message.end_time_ns() > 0) hooks_.job_ends(WallTime(Duration(message.end_time_ns())));
  if (message.peer_size() + message.drop_size() + message.drop_damaged_size() + message.refuse_size() +
          message.copy_size() + message.save_size() + message.put_size() + message.unput_size() >
      0)
    hooks_.files(message);
  if (message.start_size() > 0) TakeTasks(message);
  if (state_ != State::kJoined) return;
  if (message.source_size() + message.unread_size() + message.drop_written_size() > 0) hooks_.streams(message);
  if (message.has_committed()) {
    while (!kept_.empty() && kept_.front().sequence <= message.committed().sequence()) {
      Remove(std::move(kept_.front().over));
      kept_.pop_front();
    }
  }
  if (message.has_heartbeat()) TakeHeartbeat(message);
}

/// Storage may take its time. What is not removed then the last server of the run removes.
void Session::Remove(std::vector<std::shared_ptr<const migrate::Checkpoints>> over) {
  if (over.empty()) return;
  if (!removers_) removers_.emplace(1);
  for (auto& each : over) {
    removers_->Do([each = std::move(each)] {
      if (const Status removed = each->Remove(); !removed.ok()) os::LogWarning(StrCat("checkpoints stay: ", removed.message()));
    });
  }
}

void Session::TakeWelcome(const pb::Welcome& welcome) {
  epoch_seen_ = welcome.epoch();
  os::LogInfo(StrCat("joined the server of epoch ", epoch_seen_));
  state_ = State::kJoined;
  if (welcome.lease_ns() > 0) lease_ = std::min<Duration>(Duration(welcome.lease_ns()), kMostLease);
  if (welcome.heartbeat_ns() > 0) heartbeat_ = Duration(welcome.heartbeat_ns());
  EnvList environment;
  for (const pb::EnvVar& variable : welcome.env())
    environment.emplace_back(variable.name(), variable.value());
  base_ = std::make_shared<BaseEnvironment>(environment,
                                            BaseEnvironment::Common{.submit_dir = welcome.submit_dir(),
                                                                    .run_dir = node_.run_dir,
                                                                    .part = node_.part,
                                                                    .node_name = node_.name,
                                                                    .shell = welcome.shell(),
                                                                    .has_devices = node_.devices > 0,
                                                                    .own_tmp = node_.own_tmp,
                                                                    .no_fabric = node_.no_fabric,
                                                                    .local = node_.local,
                                                                    .hosts = node_.hosts,
                                                                    .slots = node_.slots});
  profiles_.clear();
  // What began and ended between greeting and welcome.
  if (!early_starts_.empty()) channel_->Send(std::exchange(early_starts_, {}));
  for (const Kept& kept : kept_) {
    if (kept.sequence > told_sequence_) channel_->Send(kept.message);
  }
  hooks_.welcomed(welcome);
}

void Session::TakeProfiles(const pb::ToAgent& message) {
  for (const pb::Profile& profile : message.profile())
    profiles_[profile.id()] = std::make_shared<TaskProfile>(ProfileFromProto(profile), base_);
}

void Session::TakeTasks(pb::ToAgent& message) {
  std::vector<LocalTask> tasks;
  tasks.reserve(static_cast<size_t>(message.start_size()));
  for (pb::Task& start : *message.mutable_start()) {
    LocalTask task = TaskFromProto(start);
    const auto profile = profiles_.find(start.profile());
    if (profile == profiles_.end()) {
      Report(StrCat("task ", task.id, " names profile ", start.profile(), ", which was never sent"), true);
      HangUp("the server does not keep to the protocol");
      return;
    }
    task.profile = profile->second;
    tasks.push_back(std::move(task));
  }
  host_.Push(std::move(tasks));
}

void Session::Beat() {
  if (loop_.Now() - last_heard_ > heartbeat_ * kSilentBeats) {
    HangUp("the server does not answer");
    return;
  }
  pb::FromAgent message;
  pb::Heartbeat* beat = message.mutable_heartbeat();
  beat->set_sequence(++beats_);
  beat->set_sent_ns(loop_.Now().time_since_epoch().count());
  beat->set_round_trip_ns(round_trip_.count());
  Send(message);
  beat_timer_ = loop_.After(BeatEvery(), [this] { Beat(); });
}

Duration Session::BeatEvery() const {
  return fence_.until() ? std::min(heartbeat_, fence_.limit() / kBeatsBeforeFence) : heartbeat_;
}

void Session::TakeHeartbeat(const pb::ToAgent& message) {
  const bool first = round_trip_ == Duration(0);
  const Time sent(Duration(message.heartbeat().sent_ns()));
  const Duration measured = loop_.Now() - sent;
  fence_.Answered(sent, loop_.Now());
  RenewFence();
  // What hides a round trip has to hide the gathering of results as well.
  if (measured > Duration(0)) round_trip_ = measured + BatchPolicy().gather;
  if (!first) return;
  // Tasks are sent ahead only once the round trip is known.
  loop_.CancelTimer(beat_timer_);
  Beat();
}

void Session::RenewFence() {
  loop_.CancelTimer(fence_timer_);
  CheckFence();
  if (hooks_.may_run_until(fence_.until())) return;
  fence_timer_ = loop_.After(kAskAgain, [this] { RenewFence(); });
}

/// For the log: the slots and the warden look for themselves.
void Session::CheckFence() {
  const Time now = loop_.Now();
  if (fence_.At(now) == Fence::State::kStopped) {
    if (standing_) return;
    standing_ = *fence_.until();
    os::LogWarning(StrCat("no server has answered for ", FormatDuration(fence_.limit()),
                          ": tasks stand still until one does"));
  } else if (standing_) {
    os::LogInfo(StrCat("tasks go on after ", FormatDuration(now - *standing_)));
    standing_.reset();
  }
}

void Session::CheckLease() {
  if (state_ == State::kOver || leaving_) return;
  CheckFence();
  // Who stood (Ctrl-Z, a virtual machine that was stopped) could hear nothing: the server, which may have
  // stood as well, has the whole time again. That nothing is written twice is the fence's business, which
  // goes by the clock.
  const Time now = loop_.Now();
  if (now - std::exchange(lease_looked_, now) > heartbeat_ * kSilentBeats) awake_since_ = now;
  const Duration left = lease_ - (now - std::max(last_heard_, awake_since_));
  if (left <= Duration(0)) {
    Finish(Over::kLeaseOver, StrCat("no server was heard of for ", FormatDuration(lease_)));
    return;
  }
  // The lease may change meanwhile, so it is looked at now and then.
  lease_timer_ = loop_.After(std::min<Duration>(left, heartbeat_), [this] { CheckLease(); });
}

void Session::Deliver(Batch batch) {
  if (state_ == State::kOver) return;
  pb::FromAgent& message = outgoing_;
  message.Clear();
  // What began before the hello is in it.
  if ((state_ == State::kJoined || state_ == State::kGreeting) && !batch.started.empty()) {
    pb::TasksStarted* started = message.mutable_started();
    for (const StartedTask& task : batch.started) {
      wire::SetId(task.attempt_id(), started->add_attempt());
      started->add_start_ns(Nanoseconds(task.start));
    }
    if (state_ == State::kJoined) {
      Send(message);
    } else {
      message.AppendToString(&early_starts_);
    }
    message.Clear();
  }
  // Who was away when it was told asks again.
  for (MissedCheckpoint& missed : batch.missed) {
    pb::CheckpointMissed* const out = message.add_missed();
    wire::SetId(missed.attempt, out->mutable_attempt());
    out->set_why(std::move(missed.why));
  }
  if (state_ == State::kJoined && message.missed_size() > 0) Send(message);
  message.Clear();
  if (batch.ended.empty()) return;
  pb::TasksEnded* ended = message.add_ended();
  ended->set_sequence(++last_sequence_);
  std::vector<std::shared_ptr<const migrate::Checkpoints>> over;
  for (TaskResult& result : batch.ended) {
    const bool has_output = result.output_offset != 0;
    if (result.over) over.push_back(std::move(result.over));
    pb::Attempt* attempt = ended->add_attempt();
    ResultToProto(std::move(result), attempt);
    if (has_output) attempt->mutable_output()->set_file(node_.output_file);
  }
  kept_.push_back({.sequence = last_sequence_, .message = message.SerializeAsString(), .over = std::move(over)});
  if (state_ == State::kJoined) Send(kept_.back().message);
}

void Session::Report(const std::string& problem, bool fatal) {
  os::LogWarning(problem);
  if (state_ != State::kJoined) return;
  pb::FromAgent message;
  message.mutable_problem()->set_text(problem);
  message.mutable_problem()->set_fatal(fatal);
  Send(message);
}

void Session::TellFile(const FileNews& news) {
  if (state_ != State::kJoined) return;
  pb::FromAgent message;
  pb::FileNote* note = message.add_file();
  note->set_file(news.file.value);
  note->set_what(static_cast<pb::FileNote::What>(news.what));
  if (news.object) {
    note->set_object(news.object->id.Bytes());
    note->set_bytes(news.object->bytes);
    note->set_source(news.source);
  }
  if (news.from) note->set_from(news.from.value + 1);
  note->set_moved(news.moved);
  note->set_why(news.text);
  note->set_put(news.put);
  note->set_took_ns(news.took.count());
  message.AppendToString(&notes_);
  if (notes_timer_ != 0) return;
  notes_timer_ = loop_.After(BatchPolicy().gather, [this] { Send(""); });
}

void Session::TellPeerAddresses(const std::vector<std::string>& addresses) {
  if (state_ != State::kJoined) return;
  pb::FromAgent message;
  for (const std::string& address : addresses) message.add_peer_address(address);
  Send(message);
}

void Session::TellUnfit(const std::string& why) {
  os::LogWarning(why);
  if (state_ != State::kJoined) return;
  pb::FromAgent message;
  message.set_unfit(why);
  Send(message);
}

bool Session::AllSent() const {
  return (kept_.empty() || told_to_end_) && notes_.empty() &&
         (channel_ == nullptr || channel_->unsent_bytes() == 0);
}

void Session::Send(const pb::FromAgent& message) {
  Send(message.SerializeAsString());
}

/// What waits to be told of files goes with it, and comes first, as it did here.
void Session::Send(std::string_view bytes) {
  if (notes_.empty()) return channel_->Send(bytes);
  std::string all = std::move(notes_);
  ForgetNotes();
  all += bytes;
  channel_->Send(all);
}

void Session::ForgetNotes() {
  notes_.clear();
  loop_.CancelTimer(std::exchange(notes_timer_, 0));
}

void Session::Close() {
  if (state_ == State::kOver) return;
  ++connection_;
  loop_.CancelTimer(beat_timer_);
  loop_.CancelTimer(lease_timer_);
  loop_.CancelTimer(fence_timer_);
  ForgetNotes();
  state_ = State::kOver;
  if (channel_) {
    channel_->Close();
    loop_.Post([channel = std::exchange(channel_, nullptr)] {});
  }
}

void Session::Finish(Over how, const std::string& why) {
  if (state_ == State::kOver || leaving_) return;
  Leave();
  hooks_.over(how, why);
}

}  // namespace harrow::agent
