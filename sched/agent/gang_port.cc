#include "agent/gang_port.h"

#include <utility>

#include "base/text.h"

namespace harrow::agent {

GangPort::GangPort(os::EventLoop* loop, Hooks hooks) : loop_(loop), hooks_(std::move(hooks)) {}

void GangPort::OnLoop(std::function<void()> work) {
  // A function object has to be copyable.
  messenger_.Do([this, work = std::make_shared<std::function<void()>>(std::move(work))] {
    loop_->Post([alive = std::weak_ptr(alive_), work] {
      if (!alive.expired()) (*work)();
    });
  });
}

void GangPort::Open() {
  if (peers_ != nullptr) return;
  Result<std::unique_ptr<Peers>> peers = hooks_.open();
  closed_ = peers.status();
  if (!peers.ok()) return;
  peers_ = *std::move(peers);
  for (auto& [node, known] : std::exchange(known_, {}))
    peers_->Know(node, std::move(known.addresses), known.incarnation);
  exchange_.emplace(
      loop_, peers_.get(),
      RankExchange::Hooks{
          .asked =
              [this](AttemptId attempt, uint32_t node, uint64_t number, std::string question) {
                hooks_.asked(attempt, std::move(question), [this, attempt, node, number](std::string answer) {
                  OnLoop([this, attempt, node, number, answer = std::move(answer)] {
                    exchange_->Answer(attempt, node, number, answer);
                  });
                });
              },
          .problem = hooks_.problem});
  TellAddresses();
}

Peers* GangPort::OpenForAll() {
  Open();
  return peers_.get();
}

void GangPort::TellAddresses() {
  if (peers_ != nullptr) hooks_.addresses(peers_->addresses());
}

void GangPort::Know(NodeId node, std::vector<std::string> addresses, uint64_t incarnation) {
  if (peers_ != nullptr) return peers_->Know(node, std::move(addresses), incarnation);
  known_[node] = {std::move(addresses), incarnation};
}

void GangPort::Forget(NodeId node) {
  known_.erase(node);
  if (peers_ != nullptr) peers_->Forget(node);
}

void GangPort::SetCredentials(const wire::Credentials& credentials) {
  if (peers_ != nullptr) (void)peers_->SetCredentials(credentials);
}

void GangPort::Join(AttemptId attempt, std::shared_ptr<const Gang> gang) {
  OnLoop([this, attempt, gang = std::move(gang)] {
    Open();
    if (exchange_) exchange_->Join(attempt, gang);
  });
}

void GangPort::Leave(AttemptId attempt) {
  OnLoop([this, attempt] {
    if (exchange_) exchange_->Leave(attempt);
  });
}

void GangPort::Meet(AttemptId attempt, Meeting meeting, std::vector<uint32_t> ranks, std::string data,
                    Met met) {
  OnLoop([this, attempt, meeting, ranks = std::move(ranks), data = std::move(data),
          met = std::move(met)]() mutable {
    if (exchange_)
      return exchange_->Meet(attempt, meeting, std::move(ranks), std::move(data), std::move(met));
    met(Status(closed_.code(),
               StrCat("cannot be reached by the other nodes of the task: ", closed_.message())));
  });
}

void GangPort::Ask(AttemptId attempt, uint32_t node, std::string question,
                   std::function<void(std::string answer)> answered) {
  OnLoop([this, attempt, node, question = std::move(question), answered = std::move(answered)] {
    if (exchange_) exchange_->Ask(attempt, node, question, answered);
  });
}

}  // namespace harrow::agent
