#include "server/links.h"

#include <utility>

#include "base/text.h"
#include "os/log.h"
#include "wire/decode.h"
#include "wire/version.h"

namespace harrow::server {
namespace {

constexpr Duration kLookEvery = std::chrono::milliseconds(500);
constexpr Duration kWriteTime = std::chrono::milliseconds(20);
// Storage, or an owner who is about to let go, may take its time.
constexpr Duration kPatience = std::chrono::seconds(60);

}  // namespace

Links::Links(os::EventLoop* loop, const Options& options, PartWatch watch, OtherServers* others, Hooks hooks)
    : loop_(loop), options_(options), watch_(std::move(watch)), others_(*others), hooks_(std::move(hooks)) {}

Links::~Links() {
  if (looking_.joinable()) looking_.join();
}

void Links::Begin() {
  if (look_pending_ || closed_) return;
  look_pending_ = true;
  Look();
}

// Storage may take its time, so a thread of its own waits for it.
void Links::Look() {
  if (closed_) return;
  if (!hooks_.may_look()) {
    loop_->After(kWriteTime, [this] { Look(); });
    return;
  }
  if (looking_.joinable()) looking_.join();
  hooks_.before_look();
  watch_.SetReaders(hooks_.readers());
  looking_ = std::thread([this, connected = others_.connected(), first_owners = hooks_.first_owners(), now = loop_->Now()] {
    PartWatch::Seen seen = watch_.Look(connected, first_owners, now);
    loop_->Post([this, seen = std::move(seen)] { Looked(seen); });
  });
}

void Links::Looked(const PartWatch::Seen& seen) {
  if (closed_) return;
  if (seen.trouble != last_trouble_ && !seen.trouble.empty())
    hooks_.tell(StrCat("the tasks of another allocation of the run cannot be taken over: ", seen.trouble));
  last_trouble_ = seen.trouble;
  others_.SetAlive(seen.alive > 0);
  for (const auto& [part, what] : seen.over) {
    os::LogInfo(StrCat("part ", part, " of the run is over"));
    if (const auto session = of_part_.find(part); session != of_part_.end())
      Drop(session->second, Status(Code::kUnavailable, "its part is over"));
    others_.PartOver(part, what);
  }
  if (seen.lowest) hooks_.lowest();
  for (const PartWatch::Seen::Server& server : seen.servers) {
    if (server.part < options_.part && !of_part_.contains(server.part) && dialling_.insert(server.part).second)
      Dial(server.at, server.part, 0);
  }
  if (!seen.over.empty() || seen.alive > 0 || !others_.connected().empty() || !hooks_.waits()) {
    waits_since_.reset();
  } else if (!waits_since_) {
    waits_since_ = loop_->Now();
  } else if (loop_->Now() - *waits_since_ >= kPatience) {
    hooks_.lost(seen.trouble.empty() ? "the directories of other allocations in the run directory are gone" : seen.trouble);
  }
  // Nobody else is there: who comes dials.
  if (seen.others || options_.part != 0 || hooks_.waits()) {
    loop_->After(kLookEvery, [this] { Look(); });
  } else {
    look_pending_ = false;
  }
  hooks_.changed();
}

void Links::Dial(const run_dir::Rendezvous& at, uint32_t part, size_t address) {
  if (address >= at.addresses.size() || at.run_id != options_.run_id) {
    dialling_.erase(part);
    return;
  }
  wire::Dial(loop_, at.addresses[address], wire::Role::kServer, {at.run_id, at.key}, wire::Limits(),
             [this, at, part, address](Result<std::shared_ptr<wire::Channel>> channel) -> wire::ChannelHandler {
               if (closed_) return {};
               if (!channel.ok()) {
                 Dial(at, part, address + 1);
                 return {};
               }
               dialling_.erase(part);
               const wire::Channel* key = channel->get();
               sessions_[key].channel = *channel;
               SayHello(**channel, part);
               return Handler(key);
             });
}

wire::ChannelHandler Links::Accept(std::shared_ptr<wire::Channel> channel) {
  const wire::Channel* key = channel.get();
  sessions_[key].channel = std::move(channel);
  return Handler(key);
}

wire::ChannelHandler Links::Handler(const wire::Channel* key) {
  return {.on_message =
              [this, key](std::string_view bytes) {
                if (!sessions_.contains(key)) return;
                if (const Status taken = Take(key, bytes); !taken.ok()) Drop(key, taken);
              },
          .on_closed = [this, key](const Status& why) { Drop(key, why); }};
}

void Links::SayHello(wire::Channel& channel, uint32_t to) {
  pb::BetweenServers message;
  pb::ServerHello& hello = *message.mutable_hello();
  hello.set_version(wire::kProtocolVersion);
  hello.set_run_id(options_.run_id);
  hello.set_flow_id(options_.flow_id);
  hello.set_part(options_.part);
  hello.set_to(to);
  hello.set_epoch(options_.epoch);
  hello.set_session_ns(options_.session_ns);
  channel.Send(message.SerializeAsString());
}

Status Links::Take(const wire::Channel* key, std::string_view bytes) {
  HARROW_RETURN_IF_ERROR(wire::Decode(bytes, &message_));
  Session& session = sessions_.at(key);
  if (session.part) {
    const Status taken = others_.Take(*session.part, message_);
    hooks_.changed();
    return taken;
  }
  const pb::ServerHello& hello = message_.hello();
  if (!message_.has_hello() || hello.version() != wire::kProtocolVersion)
    return Status(Code::kRefused, "another version of Harrow");
  if (hello.run_id() != options_.run_id || hello.flow_id() != options_.flow_id ||
      hello.session_ns() != options_.session_ns || hello.to() != options_.part || hello.part() == options_.part)
    return Status(Code::kRefused, "it is of another run, or takes this server for another one");
  const uint32_t part = hello.part();
  // One that comes again has lost its connection before this server has noticed.
  if (const auto earlier = of_part_.find(part); earlier != of_part_.end())
    Drop(earlier->second, Status(Code::kUnavailable, "it has come again"));
  const bool dialled = part < options_.part;
  if (!dialled) SayHello(*session.channel, part);
  session.part = part;
  of_part_[part] = key;
  os::LogInfo(StrCat("server of part ", part, " at ", session.channel->peer(), " is connected"));
  others_.Connected(part, hello.epoch());
  Begin();
  return {};
}

void Links::Drop(const wire::Channel* key, const Status& why) {
  const auto found = sessions_.find(key);
  if (found == sessions_.end()) return;
  const Session session = std::move(found->second);
  sessions_.erase(found);
  if (session.part) {
    os::LogInfo(StrCat("server of part ", *session.part, ": ", why.message()));
    of_part_.erase(*session.part);
    others_.Disconnected(*session.part);
  } else {
    os::LogWarning(StrCat("another server at ", session.channel->peer(), ": ", why.message()));
  }
  session.channel->Close();
  // Not now: it may be that channel whose message is being handled.
  loop_->Post([this, held = session.channel] { hooks_.changed(); });
}

void Links::Send(uint32_t part, const pb::BetweenServers& message) {
  const auto found = of_part_.find(part);
  if (found != of_part_.end()) sessions_.at(found->second).channel->Send(message.SerializeAsString());
}

void Links::Close() {
  closed_ = true;
  for (auto& [key, session] : std::exchange(sessions_, {})) session.channel->Close();
  of_part_.clear();
}

}  // namespace harrow::server
