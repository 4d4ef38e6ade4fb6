#include "server/awaiting.h"

#include <algorithm>

#include "journal/parts.h"

// A client that is told of a task's end may act on it, so it is told what no crash takes back: when the journal has
// the record. What is settled already may still be on its way there; then it is told when the journal has all that was
// recorded by the time of the question. How attempts ended that did not succeed is kept here, as the scheduler forgets it.

namespace harrow::server {
namespace {

constexpr int kMostInMessage = 100'000;

}  // namespace

void Awaiting::Restore(const journal::History& history) {
  for (const journal::AttemptRecord& record : history.attempts) AttemptEnded(record);
}

void Awaiting::AttemptEnded(const journal::AttemptRecord& record) {
  if (journal::Succeeded(record)) {
    endings_.erase(record.task.value);
  } else {
    endings_[record.task.value] = {record.end, record.code};
  }
}

std::optional<TaskEnding> Awaiting::EndingOf(TaskId task) const {
  const auto found = endings_.find(task.value);
  if (found == endings_.end()) return {};
  return TaskEnding{task, found->second.end, found->second.code};
}

void Awaiting::Ask(std::shared_ptr<wire::Channel> channel, const pb::AwaitRequest& request) {
  uint64_t& number = numbers_[channel.get()];
  if (number == 0) number = ++last_client_;
  Client& client = clients_[number];
  if (client.channel == nullptr) client.channel = std::move(channel);
  const size_t count = sources_.tasks();
  pb::ToClient unknown;
  for (const uint32_t id : request.task()) {
    const TaskId task(id);
    if (id >= count) {
      unknown.mutable_settled()->add_unknown(id);
    } else if (sources_.fate(task) != journal::TaskFate::kOpen) {
      client.due.emplace_back(sources_.added(), task);
    } else {
      waited_for_[id].push_back(number);
    }
  }
  if (unknown.has_settled()) client.channel->Send(unknown.SerializeAsString());
  Tell(&client);
}

void Awaiting::Gone(const wire::Channel* channel) {
  const auto found = numbers_.find(channel);
  if (found == numbers_.end()) return;
  clients_.erase(found->second);
  numbers_.erase(found);
  if (clients_.empty()) waited_for_.clear();
}

void Awaiting::Settled(TaskId task) {
  const auto waiting = waited_for_.find(task.value);
  if (waiting == waited_for_.end()) return;
  for (const uint64_t number : waiting->second) {
    if (const auto client = clients_.find(number); client != clients_.end())
      client->second.due.emplace_back(sources_.added(), task);
  }
  waited_for_.erase(waiting);
}

void Awaiting::Committed(uint64_t sequence) {
  committed_ = std::max(committed_, sequence);
  for (auto& [number, client] : clients_) Tell(&client);
}

bool Awaiting::all_sent() const {
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const auto& client) { return client.second.channel->unsent_bytes() == 0; });
}

void Awaiting::Tell(Client* client) {
  size_t told = 0;
  while (told < client->due.size() && client->due[told].first <= committed_) {
    pb::ToClient message;
    for (int count = 0; told < client->due.size() && client->due[told].first <= committed_ && count < kMostInMessage; ++count)
      AddTo(client->due[told++].second, message.mutable_settled());
    client->channel->Send(message.SerializeAsString());
  }
  client->due.erase(client->due.begin(), client->due.begin() + static_cast<ptrdiff_t>(told));
}

void Awaiting::AddTo(TaskId task, pb::Settled* settled) const {
  const journal::TaskFate fate = sources_.fate(task);
  if (fate == journal::TaskFate::kDone) {
    settled->add_done(task.value);
    return;
  }
  pb::SettledTask& other = *settled->add_other();
  other.set_task(task.value);
  other.set_fate(static_cast<uint32_t>(fate));
  const std::optional<TaskEnding> ending = EndingOf(task);
  if (!ending) return;
  other.set_end(static_cast<pb::Attempt::End>(ending->end));
  other.set_code(ending->code);
}

}  // namespace harrow::server
