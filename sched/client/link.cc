// A server that is killed is started again within a second, with a new address and epoch in PART/server. So a
// dial that fails is repeated, PART/server read anew each time, until the patience is over. One whose machine has gone
// says nothing: where its kernel does not even acknowledge, the connection counts as broken. Where a run has several parts
// their servers are tried one after the other.
//
// The loop may call back about a connection that has been given up; what is called holds a guard of that connection, which
// knows.

#include "client/link.h"

#include <utility>

#include "base/text.h"
#include "run_dir/names.h"
#include "wire/decode.h"
#include "wire/version.h"

namespace harrow::client {
namespace {

constexpr Duration kBetweenDials = std::chrono::milliseconds(100);
constexpr Duration kWatchEvery = std::chrono::seconds(5);
constexpr Duration kUnheard = std::chrono::seconds(20);
constexpr Duration kMostPassive = std::chrono::minutes(10);

void DialOverTls(os::EventLoop* loop, const std::string& address, const wire::Credentials& credentials,
                 std::function<wire::ChannelHandler(Result<std::shared_ptr<wire::Channel>>)> done) {
  wire::Dial(loop, address, wire::Role::kClient, credentials, wire::Limits{}, std::move(done));
}

}  // namespace

struct Link::Guard {
  Link* link;  // null: given up
};

Link::Link(os::EventLoop* loop, os::FileSystem& fs, std::string part_dir, Options options, Hooks hooks)
    : loop_(loop), fs_(fs), part_dir_(std::move(part_dir)), options_(std::move(options)), hooks_(std::move(hooks)) {}

Link::~Link() {
  LetGo();
  if (channel_ != nullptr) channel_->Close();
}

void Link::Start() {
  give_up_ = loop_->Now() + options_.patience;
  Look();
}

void Link::Send(const pb::FromClient& message) {
  channel_->Send(message.SerializeAsString());
}

void Link::Look() {
  others_ = options_.others ? options_.others() : std::vector<run_dir::Part>();
  place_ = 0;
  any_there_ = false;
  ReadAnnouncement();
}

/// Of the next place that has one, and dials it.
void Link::ReadAnnouncement() {
  for (; place_ <= others_.size(); ++place_) {
    const bool first = place_ == 0;
    os::FileSystem& fs = first ? fs_ : *others_[place_ - 1].dir;
    const std::string& dir = first ? part_dir_ : others_[place_ - 1].dir->path();
    auto announced = run_dir::ReadRendezvous(fs, dir);
    if (announced.ok()) {
      any_there_ = true;
      announced_ = *std::move(announced);
      next_address_ = 0;
      last_ = Status(Code::kUnavailable, StrCat(run_dir::ServerPath(dir), " names no address"));
      return DialNext();
    }
    // A file system that others write may say for a moment what is not so.
    const Code why = announced.status().code();
    any_there_ |= why == Code::kUnavailable || why == Code::kExhausted || why == Code::kDamaged;
    if (first) first_missing_ = last_ = announced.status();
  }
  // One may have gone, and another one be about to take its place.
  if (!any_there_ && !passive_since_) return End(first_missing_);
  TryAgain();
}

void Link::TryAgain() {
  if (loop_->Now() >= give_up_) {
    if (!announced_.addresses.empty() || !any_there_)
      return End(Status(Code::kUnavailable, StrCat("the server of ", part_dir_, " (", announced_.host, ", process ", announced_.pid,
                                                   ") does not answer: ", last_.message())));
    return End(first_missing_);
  }
  state_ = State::kWaiting;
  SetTimer(kBetweenDials, &Link::Look);
}

void Link::DialNext() {
  if (next_address_ == announced_.addresses.size()) {
    ++place_;
    return ReadAnnouncement();
  }
  state_ = State::kDialing;
  guard_ = std::make_shared<Guard>(Guard{this});
  SetTimer(options_.reply_time, &Link::Watch);
  const Options::Dial dial = options_.dial ? options_.dial : DialOverTls;
  dial(loop_, announced_.addresses[next_address_++], {announced_.run_id, announced_.key},
       [guard = guard_](Result<std::shared_ptr<wire::Channel>> channel) -> wire::ChannelHandler {
         if (guard->link == nullptr) return {};
         if (channel.ok()) guard->link->channel_ = *channel;
         guard->link->Dialled(channel.status());
         return {.on_message =
                     [guard](std::string_view bytes) {
                       if (guard->link != nullptr) guard->link->OnMessage(bytes);
                     },
                 .on_closed =
                     [guard](const Status& why) {
                       if (guard->link != nullptr) guard->link->Lost(why);
                     }};
       });
}

void Link::Dialled(const Status& why) {
  if (!why.ok()) return Failed(why);
  state_ = State::kGreeting;
  SetTimer(options_.reply_time, &Link::Watch);
  pb::FromClient hello;
  hello.mutable_hello()->set_version(wire::kProtocolVersion);
  hello.mutable_hello()->set_run_id(announced_.run_id);
  Send(hello);
}

void Link::OnMessage(std::string_view bytes) {
  pb::ToClient message;
  if (const Status read = wire::Decode(bytes, &message); !read.ok()) return Lost(read);
  if (state_ == State::kUp) return hooks_.message(message);
  if (state_ == State::kGreeting && message.has_hello()) Greeted(message);
}

void Link::Greeted(const pb::ToClient& message) {
  const uint32_t version = message.hello().version();
  if (version != wire::kProtocolVersion) {
    return End({Code::kRefused, StrCat("the server speaks version ", version, " and this program version ",
                                       wire::kProtocolVersion, "; use the harrow that started the run")});
  }
  if (options_.submits && message.hello().passive()) {
    // The run goes on: somebody will take what is submitted, when it is known that who did so is gone.
    if (!passive_since_) passive_since_ = loop_->Now();
    if (loop_->Now() - *passive_since_ < kMostPassive) give_up_ = loop_->Now() + options_.patience;
    return Failed({Code::kUnavailable, "another server of the run takes tasks, and is not to be found"});
  }
  passive_since_.reset();
  state_ = State::kUp;
  SetTimer(kWatchEvery, &Link::Watch);
  hooks_.up(message.hello());
}

void Link::Watch() {
  switch (state_) {
    case State::kDialing:
      return Failed({Code::kUnavailable, StrCat("no connection within ", FormatDuration(options_.reply_time))});
    case State::kGreeting:
      return Failed({Code::kUnavailable, StrCat("no answer within ", FormatDuration(options_.reply_time))});
    case State::kUp:
      if (channel_->unheard() > kUnheard)
        return Lost({Code::kUnavailable, StrCat("its machine has not been heard of for ", FormatDuration(kUnheard))});
      return SetTimer(kWatchEvery, &Link::Watch);
    default:
      return;
  }
}

/// The connection is no more.
void Link::Lost(const Status& why) {
  const Status known = why.ok() ? Status(Code::kUnavailable, "the server closed the connection") : why;
  if (state_ != State::kUp) return Failed(known);
  Drop();
  state_ = State::kWaiting;
  if (!hooks_.down(known)) {
    state_ = State::kOver;
    return;
  }
  last_ = known;
  give_up_ = loop_->Now() + options_.patience;
  SetTimer(kBetweenDials, &Link::Look);
}

/// The connection that was about to be made is not.
void Link::Failed(const Status& why) {
  if (why.code() == Code::kRefused) return End(why);
  Drop();
  last_ = why;
  DialNext();
}

void Link::End(const Status& why) {
  Drop();
  state_ = State::kOver;
  hooks_.over(why);
}

void Link::LetGo() {
  if (timed_) loop_->CancelTimer(timer_);
  timed_ = false;
  if (guard_) guard_->link = nullptr;
  guard_.reset();
}

void Link::Drop() {
  LetGo();
  if (channel_ == nullptr) return;
  channel_->Close();
  // Not now: it may be that channel whose message is being handled.
  loop_->Post([held = std::move(channel_)] {});
  channel_.reset();
}

void Link::SetTimer(Duration delay, void (Link::*what)()) {
  if (timed_) loop_->CancelTimer(timer_);
  timed_ = true;
  timer_ = loop_->After(delay, [this, what] {
    timed_ = false;
    (this->*what)();
  });
}

}  // namespace harrow::client
