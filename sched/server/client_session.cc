#include "server/client_session.h"

#include <utility>

#include "base/text.h"
#include "wire/decode.h"
#include "wire/version.h"

namespace harrow::server {
namespace {

constexpr uint32_t kMostCompared = 20'000;  // names looked at for a suggestion

void AnswerOn(wire::Channel* channel, bool ok, int32_t code, std::string text) {
  pb::ToClient reply;
  reply.mutable_answer()->set_ok(ok);
  reply.mutable_answer()->set_code(code);
  reply.mutable_answer()->set_text(std::move(text));
  channel->Send(reply.SerializeAsString());
}

}  // namespace

std::string UnknownTask(const graph::Graph& graph, const std::string& name) {
  std::vector<std::string_view> names;
  for (uint32_t i = 0; i < graph.task_count() && i < kMostCompared; ++i) {
    if (const std::string_view given = graph.given_name(TaskId(i)); !given.empty()) names.push_back(given);
  }
  const auto near = Suggest(name, names);
  return StrCat("no task '", Printable(name), "' in this run",
                near ? StrCat("; did you mean '", *near, "'?")
                     : StrCat("; tasks are called by name, or #1 to #", graph.task_count()));
}

ClientSession::ClientSession(std::shared_ptr<wire::Channel> channel, const run::StoredFlow* flow,
                             RunDriver* driver, Hooks hooks)
    : channel_(std::move(channel)), flow_(flow), driver_(driver), hooks_(std::move(hooks)) {}

void ClientSession::OnMessage(std::string_view bytes) {
  pb::FromClient message;
  if (!wire::Decode(bytes, &message).ok()) {
    channel_->Close();
    return;
  }
  if (message.has_hello()) {
    if (message.hello().version() != wire::kProtocolVersion ||
        message.hello().run_id() != flow_->settings.run_id) {
      Answer(false, 3,
             StrCat("this client does not fit the server (protocol version ", wire::kProtocolVersion,
                    "); use the harrow that runs the flow"));
      channel_->Close();
      return;
    }
    greeted_ = true;
    pb::ToClient reply;
    reply.mutable_hello()->set_version(wire::kProtocolVersion);
    reply.mutable_hello()->set_run_id(flow_->settings.run_id);
    reply.mutable_hello()->set_session(flow_->settings.session_start().time_since_epoch().count());
    reply.mutable_hello()->set_passive(!hooks_.takes_tasks());
    reply.mutable_hello()->set_submit_dir(flow_->settings.submit_dir);
    reply.mutable_hello()->set_local_files(flow_->settings.files == config::Files::kLocal);
    Send(reply);
  }
  if (!greeted_) {
    channel_->Close();
    return;
  }
  if (message.has_status()) {
    pb::ToClient reply;
    driver_->Snapshot(hooks_.now(), message.status().nodes(), reply.mutable_progress());
    hooks_.allocation(reply.mutable_progress()->mutable_allocation());
    if (message.status().load()) hooks_.tell_load(reply.mutable_progress());
    Send(reply);
  }
  if (message.has_explain()) Explain(message.explain().task());
  if (message.has_cancel()) Cancel(message.cancel());
  if (message.has_drain()) message.drain().node().empty() ? Drain() : DrainNode(message.drain().node());
  if (message.has_move()) Move(message.move());
  if (message.has_submit()) Submit(message.mutable_submit());
  if (message.has_offer()) Offer(message.mutable_offer());
  if (message.has_best()) {
    pb::ToClient reply;
    reply.mutable_best()->set_number(message.best().number());
    if (const run::BestValue* best = hooks_.best()) {
      reply.mutable_best()->mutable_best()->set_value(best->value);
      if (message.best().solution()) reply.mutable_best()->mutable_best()->set_solution(best->solution);
    }
    Send(reply);
  }
  if (message.has_await()) hooks_.await(channel_, message.await());
}

void ClientSession::Send(const pb::ToClient& message) {
  channel_->Send(message.SerializeAsString());
}

void ClientSession::Answer(bool ok, int32_t code, std::string text) {
  AnswerOn(channel_.get(), ok, code, std::move(text));
}

std::optional<TaskId> ClientSession::Find(const std::string& name) {
  const std::optional<TaskId> task = flow_->graph.FindTask(name);
  if (!task) Answer(false, pb::Answer::WRONG, UnknownTask(flow_->graph, name));
  return task;
}

void ClientSession::Explain(const std::string& name) {
  if (const std::optional<TaskId> task = Find(name)) Answer(true, pb::Answer::DONE, driver_->Explain(*task));
}

void ClientSession::Cancel(const pb::CancelRequest& request) {
  std::vector<TaskId> tasks;
  uint64_t over = 0;
  if (request.all()) {
    for (uint32_t i = 0; i < flow_->graph.task_count(); ++i) {
      if (!IsSettled(driver_->scheduler().state(TaskId(i)))) tasks.push_back(TaskId(i));
    }
  }
  for (const std::string& name : request.task()) {
    const std::optional<TaskId> task = Find(name);
    if (!task) return;
    if (IsSettled(driver_->scheduler().state(*task))) {
      ++over;
    } else {
      tasks.push_back(*task);
    }
  }
  hooks_.cancel(tasks);
  std::string text = StrCat(tasks.size(), tasks.size() == 1 ? " task" : " tasks", " cancelled");
  if (over > 0) text += StrCat("; ", over, " had ended before");
  Answer(!tasks.empty() || over == 0, tasks.empty() && over > 0 ? pb::Answer::NOTHING : pb::Answer::DONE, std::move(text));
}

/// The answer may come when the client has gone, and this session with it.
void ClientSession::Drain() {
  hooks_.drain([channel = channel_](const Status& drains) {
    AnswerOn(channel.get(), drains.ok(), drains.ok() ? pb::Answer::DONE : pb::Answer::WRONG,
             drains.ok() ? "its tasks go to the other allocations, and it ends when what runs has ended" : drains.message());
  });
}

void ClientSession::DrainNode(const std::string& name) {
  const Status drains = hooks_.drain_node(name);
  Answer(drains.ok(), drains.ok() ? pb::Answer::DONE : pb::Answer::WRONG,
         drains.ok() ? "nothing more is started there; tasks that write checkpoints go on elsewhere, others end there" : drains.message());
}

/// As of Drain().
void ClientSession::Move(const pb::MoveTask& request) {
  const std::optional<TaskId> task = Find(request.task());
  if (!task) return;
  const core::TaskState before = driver_->scheduler().state(*task);
  hooks_.move(*task, request, [channel = channel_, before](const Status& moves) {
    const auto code = [&] {
      switch (moves.code()) {
        case Code::kOk:
          return pb::Answer::DONE;
        case Code::kNotFound:
          return before == core::TaskState::kElsewhere ? pb::Answer::ELSEWHERE : pb::Answer::NO_NODE;
        case Code::kInvalid:
          return pb::Answer::WRONG;
        default:
          return pb::Answer::CANNOT;
      }
    }();
    AnswerOn(channel.get(), moves.ok(), code,
             !moves.ok()                            ? moves.message()
             : before == core::TaskState::kRunning ? "it is asked for a checkpoint, and goes there when it has left one"
                                                    : "it goes there");
  });
}

/// As of Drain().
void ClientSession::Submit(pb::SubmitRequest* request) {
  std::string id = request->id();
  hooks_.submit(std::move(*request), [channel = channel_, id = std::move(id)](const Result<pb::Submitted>& submitted) {
    pb::ToClient reply;
    if (submitted.ok()) {
      *reply.mutable_submitted() = *submitted;
      reply.mutable_submitted()->set_request(id);
    } else {
      const Code why = submitted.status().code();
      reply.mutable_answer()->set_ok(false);
      reply.mutable_answer()->set_code(why == Code::kInvalid   ? pb::Answer::WRONG
                                       : why == Code::kRefused ? pb::Answer::FULL
                                                               : pb::Answer::CANNOT);
      reply.mutable_answer()->set_text(submitted.status().message());
      reply.mutable_answer()->set_request(id);
    }
    channel->Send(reply.SerializeAsString());
  });
}

void ClientSession::Offer(pb::OfferValue* offer) {
  run::BestValue best = {offer->best().value(), std::move(*offer->mutable_best()->mutable_solution())};
  hooks_.offer(std::move(best), [channel = channel_, number = offer->number()](const Result<bool>& better) {
    pb::ToClient reply;
    reply.mutable_best()->set_number(number);
    reply.mutable_best()->set_better(better.ok() && *better);
    if (!better.ok()) reply.mutable_best()->set_why(better.status().message());
    channel->Send(reply.SerializeAsString());
  });
}

}  // namespace harrow::server
