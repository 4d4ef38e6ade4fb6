#include "client/client.h"

#include <utility>

#include "base/text.h"

namespace harrow::client {

Result<std::unique_ptr<Client>> Client::Connect(os::EventLoop* loop, os::FileSystem& fs,
                                                const std::string& run_dir, const Options& options) {
  std::unique_ptr<Client> made(new Client(loop, options.reply_time));
  Client* client = made.get();
  const auto end = [client](const Status& why) {
    client->closed_ = true;
    client->why_closed_ = why;
    client->loop_->Stop();
  };
  bool up = false;
  client->link_ = std::make_unique<Link>(loop, fs, run_dir, options,
                                         Link::Hooks{.up =
                                                         [&up, loop](const pb::ClientHello&) {
                                                           up = true;
                                                           loop->Stop();
                                                         },
                                                     .message = [client](const auto& message) { client->OnMessage(message); },
                                                     .down =
                                                         [end](const Status& why) {
                                                           end(why);
                                                           return false;
                                                         },
                                                     .over = end});
  client->link_->Start();
  while (!up && !client->closed_) loop->Run();
  if (client->closed_) return client->why_closed_;
  return made;
}

void Client::OnMessage(const pb::ToClient& message) {
  if (!waiting_ || !waiting_(message)) return;
  answered_ = true;
  loop_->Stop();
}

Status Client::Ask(const pb::FromClient& question, const std::function<bool(const pb::ToClient&)>& got) {
  if (closed_) return why_closed_;
  answered_ = false;
  waiting_ = got;
  link_->Send(question);
  bool late = false;
  const auto timer = loop_->After(reply_time_, [this, &late] {
    late = true;
    loop_->Stop();
  });
  while (!answered_ && !closed_ && !late) loop_->Run();
  loop_->CancelTimer(timer);
  waiting_ = nullptr;
  if (answered_) return {};
  if (closed_) return why_closed_;
  return {Code::kUnavailable, StrCat("no answer within ", FormatDuration(reply_time_))};
}

Result<pb::Progress> Client::Progress(bool with_nodes, bool with_load) {
  pb::FromClient question;
  question.mutable_status()->set_nodes(with_nodes);
  question.mutable_status()->set_load(with_load);
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
  return AskForAnswer(question);
}

Result<pb::Answer> Client::Cancel(const std::vector<std::string>& tasks, bool all) {
  pb::FromClient question;
  for (const std::string& task : tasks) question.mutable_cancel()->add_task(task);
  question.mutable_cancel()->set_all(all);
  return AskForAnswer(question);
}

Result<pb::Answer> Client::Drain(const std::string& node) {
  pb::FromClient question;
  question.mutable_drain()->set_node(node);
  return AskForAnswer(question);
}

Result<pb::Answer> Client::Move(const pb::MoveTask& request) {
  pb::FromClient question;
  *question.mutable_move() = request;
  return AskForAnswer(question);
}

Result<pb::Answer> Client::AskForAnswer(const pb::FromClient& question) {
  pb::Answer answer;
  HARROW_RETURN_IF_ERROR(Ask(question, [&answer](const pb::ToClient& reply) {
    if (!reply.has_answer()) return false;
    answer = reply.answer();
    return true;
  }));
  return answer;
}

}  // namespace harrow::client
