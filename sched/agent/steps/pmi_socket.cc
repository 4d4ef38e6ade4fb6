#include "agent/steps/pmi_socket.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"

namespace harrow::agent {
namespace {

// Together more than a socket holds: of a rank that has ended all is taken, of one that never stops only so
// much before its thread looks at other things.
constexpr size_t kPiece = 4096;
constexpr int kMostPieces = 128;

}  // namespace

Status PmiSocket::Prepare(Launch* launch, TaskResult*) {
  const LocalTask& task = launch->task;
  const ProfileSpec& spec = task.profile->spec();
  server_ = spec.served() && spec.mpi == Mpi::kPmi1 ? servers_.pmi1 : nullptr;
  unsent_.clear();
  if (server_ == nullptr) return {};
  attempt_ = task.attempt_id();
  rank_ = launch->given.process + (task.gang ? task.gang->first_rank() : 0);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Status(Code::kExhausted, StrCat("no socket for its PMI: ", strerror(errno)));
  own_ = os::Fd(ends[0]);
  ranks_ = os::Fd(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  launch->request.kept_fd = launch->variables.pmi_fd = ends[1];
  return {};
}

void PmiSocket::Settle(const LocalTask&, TaskResult*) {
  CloseRanksEnd();
  HangUp();
  server_ = nullptr;
}

pollfd PmiSocket::ToPoll() const {
  return {own_.get(), static_cast<short>(unsent_.empty() ? POLLIN : POLLOUT), 0};
}

void PmiSocket::HearLastWords() {
  unsent_.clear();
  Talk();
}

// Who does not take its answers is not heard: else they would become ever more.
void PmiSocket::Talk() {
  char buffer[kPiece];
  for (int piece = 0; own_.ok() && unsent_.empty() && piece < kMostPieces; ++piece) {
    const ssize_t n = TEMP_FAILURE_RETRY(recv(own_.get(), buffer, sizeof buffer, 0));
    if (n < 0 && errno == EAGAIN) break;
    const std::string_view said(buffer, n > 0 ? static_cast<size_t>(n) : 0);
    if (!server_->Hear(attempt_, rank_, said) || said.empty()) HangUp();
  }
  if (!own_.ok()) return;
  unsent_ += server_->TakeAnswers(attempt_, rank_);
  while (!unsent_.empty()) {
    const ssize_t n = TEMP_FAILURE_RETRY(send(own_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL));
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) return unsent_.clear();  // it is gone, and the next look tells
    unsent_.erase(0, static_cast<size_t>(n));
  }
}

}  // namespace harrow::agent
