// A server that is killed is started again within a second, with a new address and epoch in PART/server. So a
// dial that fails is repeated, PART/server read anew each time, until the patience is over.

#include "client/client.h"

#include <utility>

#include "base/text.h"
#include "run_dir/names.h"
#include "run_dir/rendezvous.h"
#include "wire/decode.h"
#include "wire/version.h"

namespace harrow::client {
namespace {

constexpr Duration kBetweenDials = std::chrono::milliseconds(100);

void DialOverTls(os::EventLoop* loop, const std::string& address, const wire::Credentials& credentials,
                 std::function<wire::ChannelHandler(Result<std::shared_ptr<wire::Channel>>)> done) {
  wire::Dial(loop, address, wire::Role::kClient, credentials, wire::Limits{}, std::move(done));
}

}  // namespace

Result<std::unique_ptr<Client>> Client::Connect(os::EventLoop* loop, os::FileSystem& fs,
                                                const std::string& run_dir, const Options& options) {
  const Time give_up = loop->Now() + options.patience;
  for (;;) {
    auto rendezvous = run_dir::ReadRendezvous(fs, run_dir);
    if (!rendezvous.ok()) return rendezvous.status();
    Status last(Code::kUnavailable, StrCat(run_dir::ServerPath(run_dir), " names no address"));
    for (const std::string& address : rendezvous->addresses) {
      std::unique_ptr<Client> client(new Client(loop, options.reply_time));
      last = client->Dial(address, {rendezvous->run_id, rendezvous->key}, options);
      if (last.ok()) last = client->Greet(rendezvous->run_id);
      if (last.ok()) return client;
      if (last.code() == Code::kRefused) return last;
    }
    if (loop->Now() >= give_up) {
      return Status(Code::kUnavailable,
                    StrCat("the server of ", run_dir, " (", rendezvous->host, ", process ", rendezvous->pid,
                           ") does not answer: ", last.message()));
    }
    bool waited = false;
    loop->After(kBetweenDials, [&waited, loop] {
      waited = true;
      loop->Stop();
    });
    while (!waited) loop->Run();
  }
}

Client::~Client() {
  if (channel_ && !closed_) channel_->Close();
}

Status Client::Dial(const std::string& address, const wire::Credentials& credentials,
                    const Options& options) {
  // The loop may call back after this returned on time-out: what it touches then must outlive the call.
  struct Attempt {
    Client* client = nullptr;  // null: given up
    bool done = false;
    Status status;
  };
  auto attempt = std::make_shared<Attempt>();
  attempt->client = this;
  const Options::Dial dial = options.dial ? options.dial : DialOverTls;
  dial(loop_, address, credentials,
       [attempt](Result<std::shared_ptr<wire::Channel>> channel) -> wire::ChannelHandler {
         if (attempt->client == nullptr) return {};
         Client* client = attempt->client;
         attempt->done = true;
         client->loop_->Stop();
         if (!channel.ok()) {
           attempt->status = channel.status();
           return {};
         }
         client->channel_ = *channel;
         return {.on_message =
                     [attempt](std::string_view message) {
                       if (attempt->client != nullptr) attempt->client->OnMessage(message);
                     },
                 .on_closed =
                     [attempt](const Status& why) {
                       if (attempt->client == nullptr) return;
                       attempt->client->closed_ = true;
                       attempt->client->why_closed_ = why;
                       attempt->client->loop_->Stop();
                     }};
       });
  const Status waited = RunUntil(attempt->done, reply_time_, "no connection");
  guard_ = std::shared_ptr<void>(nullptr, [attempt](void*) { attempt->client = nullptr; });
  HARROW_RETURN_IF_ERROR(waited);
  return attempt->status;
}

Status Client::RunUntil(const bool& done, Duration limit, const char* what) {
  bool late = false;
  const auto timer = loop_->After(limit, [this, &late] {
    late = true;
    loop_->Stop();
  });
  while (!done && !closed_ && !late) loop_->Run();
  loop_->CancelTimer(timer);
  if (done) return {};
  if (closed_)
    return why_closed_.ok() ? Status(Code::kUnavailable, "the server closed the connection") : why_closed_;
  return {Code::kUnavailable, StrCat(what, " within ", FormatDuration(limit))};
}

void Client::OnMessage(std::string_view bytes) {
  pb::ToClient message;
  if (const Status read = wire::Decode(bytes, &message); !read.ok()) {
    closed_ = true;
    why_closed_ = read;
    loop_->Stop();
    return;
  }
  if (!waiting_ || !waiting_(message)) return;
  answered_ = true;
  loop_->Stop();
}

Status Client::Ask(const pb::FromClient& question, const std::function<bool(const pb::ToClient&)>& got) {
  if (closed_) return why_closed_.ok() ? Status(Code::kUnavailable, "the connection is closed") : why_closed_;
  answered_ = false;
  waiting_ = got;
  channel_->Send(question.SerializeAsString());
  Status status = RunUntil(answered_, reply_time_, "no answer");
  waiting_ = nullptr;
  return status;
}

Status Client::Greet(const std::string& run_id) {
  pb::FromClient hello;
  hello.mutable_hello()->set_version(wire::kProtocolVersion);
  hello.mutable_hello()->set_run_id(run_id);
  uint32_t version = 0;
  HARROW_RETURN_IF_ERROR(Ask(hello, [&version](const pb::ToClient& reply) {
    if (!reply.has_hello()) return false;
    version = reply.hello().version();
    return true;
  }));
  if (version == wire::kProtocolVersion) return {};
  return {Code::kRefused, StrCat("the server speaks version ", version, " and this program version ",
                                 wire::kProtocolVersion, "; use the harrow that started the run")};
}

Result<pb::Progress> Client::Progress(bool with_nodes) {
  pb::FromClient question;
  question.mutable_status()->set_nodes(with_nodes);
  pb::Progress progress;
  HARROW_RETURN_IF_ERROR(Ask(question, [&progress](const pb::ToClient& reply) {
    if (!reply.has_progress()) return false;
    progress = reply.progress();
    return true;
  }));
  return progress;
}

Result<pb::Answer> Client::Explain(const std::string& task) {
  pb::FromClient question;
  question.mutable_explain()->set_task(task);
  pb::Answer answer;
  HARROW_RETURN_IF_ERROR(Ask(question, [&answer](const pb::ToClient& reply) {
    if (!reply.has_answer()) return false;
    answer = reply.answer();
    return true;
  }));
  return answer;
}

Result<pb::Submitted> Client::Submit(const pb::SubmitRequest& request) {
  pb::FromClient question;
  *question.mutable_submit() = request;
  pb::Submitted submitted;
  Status refused;
  HARROW_RETURN_IF_ERROR(Ask(question, [&](const pb::ToClient& reply) {
    if (reply.has_answer()) {
      refused = Status(reply.answer().code() == 2 ? Code::kInvalid : Code::kExhausted, reply.answer().text());
    } else if (!reply.has_submitted()) {
      return false;
    }
    submitted = reply.submitted();
    return true;
  }));
  if (!refused.ok()) return refused;
  return submitted;
}

Result<pb::Answer> Client::Cancel(const std::vector<std::string>& tasks, bool all) {
  pb::FromClient question;
  for (const std::string& task : tasks) question.mutable_cancel()->add_task(task);
  question.mutable_cancel()->set_all(all);
  pb::Answer answer;
  HARROW_RETURN_IF_ERROR(Ask(question, [&answer](const pb::ToClient& reply) {
    if (!reply.has_answer()) return false;
    answer = reply.answer();
    return true;
  }));
  return answer;
}

}  // namespace harrow::client
