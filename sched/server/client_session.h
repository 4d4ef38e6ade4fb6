#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "server/best.h"
#include "server/driver.h"
#include "server/submissions.h"
#include "wire/channel.h"
#include "wire/harrow.pb.h"

namespace harrow::server {

/// One client's conversation: status, explain, cancel, submit, await, best values. Of the server's thread.
class ClientSession {
 public:
  struct Hooks {
    std::function<Moment()> now;
    std::function<void(pb::SubmitRequest, Submissions::Told)> submit;
    std::function<void(std::shared_ptr<wire::Channel>, const pb::AwaitRequest&)> await;
    std::function<void(run::BestValue, Best::Told)> offer;
    std::function<const run::BestValue*()> best;  // null: none is known
    std::function<void(std::function<void(Status)>)> drain;
    std::function<Status(const std::string&)> drain_node;
    std::function<void(TaskId, const pb::MoveTask&, std::function<void(Status)>)> move;  // kNotFound: another server has the task
    std::function<bool()> takes_tasks;
    std::function<void(pb::Progress*)> tell_load;
    std::function<void(const std::vector<TaskId>&)> cancel;  // tasks of any server of the run
    std::function<void(pb::AllocationStatus*)> allocation;
  };
  ClientSession(std::shared_ptr<wire::Channel> channel, const run::StoredFlow* flow, RunDriver* driver,
                Hooks hooks);

  void OnMessage(std::string_view bytes);
  const wire::Channel* channel() const { return channel_.get(); }
  void Close() { channel_->Close(); }

 private:
  void Send(const pb::ToClient& message);
  void Answer(bool ok, int32_t code, std::string text);
  void Explain(const std::string& name);
  void Cancel(const pb::CancelRequest& request);
  void Drain();
  void DrainNode(const std::string& name);
  void Move(const pb::MoveTask& request);
  void Submit(pb::SubmitRequest* request);
  void Offer(pb::OfferValue* offer);
  /// A task by name, or an answer that it is unknown.
  std::optional<TaskId> Find(const std::string& name);

  std::shared_ptr<wire::Channel> channel_;
  const run::StoredFlow* flow_;
  RunDriver* driver_;
  Hooks hooks_;
  bool greeted_ = false;
};

/// "no task 'x' in this run; did you mean 'y'?"
std::string UnknownTask(const graph::Graph& graph, const std::string& name);

}  // namespace harrow::server
