#include "server/passed_on.h"

#include <utility>

namespace harrow::server {

void PassedOn::Submit(pb::SubmitRequest request, bool for_taker, Submissions::Told told) {
  if (request.id().empty()) request.set_id(hooks_.new_id());
  const auto [known, is_new] = by_id_.try_emplace(request.id(), count_);
  Pending& pending = pending_[known->second];
  pending.told.push_back(std::move(told));
  if (!is_new) return;
  ++count_;
  *pending.passed.mutable_request() = std::move(request);
  pending.passed.set_for_you(for_taker);
  if (willing_) Ask(&pending);
}

void PassedOn::SetTaker(std::optional<uint32_t> part) {
  if (part == taker_) return;
  taker_ = part;
  willing_ = true;
  for (auto& [number, pending] : pending_) pending.asked = false;
  AskAgain();
}

void PassedOn::AskAgain() {
  for (auto& [number, pending] : pending_) {
    Ask(&pending);
    if (!willing_) return;
  }
}

void PassedOn::Ask(Pending* pending) {
  if (!taker_ || pending->asked) return;
  pending->asked = true;
  hooks_.send(*taker_, pending->passed);
}

void PassedOn::Answered(const pb::SubmissionAnswered& answer) {
  const auto known = by_id_.find(answer.id());
  if (known == by_id_.end()) return;
  const auto found = pending_.find(known->second);
  Result<pb::Submitted> how = Status(Code::kUnavailable, "it is not known whether the tasks were taken");
  switch (answer.how_case()) {
    case pb::SubmissionAnswered::kNotHere:
      found->second.asked = false;
      willing_ = false;
      return;
    case pb::SubmissionAnswered::kTaken:
      how = answer.taken();
      break;
    case pb::SubmissionAnswered::kWrong:
      how = Status(Code::kInvalid, answer.wrong());
      break;
    case pb::SubmissionAnswered::kRefused:
      how = Status(Code::kRefused, answer.refused());
      break;
    case pb::SubmissionAnswered::kCannot:
      how = Status(Code::kUnavailable, answer.cannot());
      break;
    case pb::SubmissionAnswered::HOW_NOT_SET:
      break;
  }
  const std::vector<Submissions::Told> told = std::move(found->second.told);
  pending_.erase(found);
  by_id_.erase(known);
  if (!std::exchange(willing_, true)) AskAgain();
  for (const Submissions::Told& each : told) each(how);
}

std::vector<std::pair<pb::SubmitRequest, Submissions::Told>> PassedOn::Release() {
  std::vector<std::pair<pb::SubmitRequest, Submissions::Told>> all;
  for (auto& [number, pending] : std::exchange(pending_, {})) {
    all.emplace_back(std::move(*pending.passed.mutable_request()),
                     [told = std::move(pending.told)](const Result<pb::Submitted>& how) {
                       for (const Submissions::Told& each : told) each(how);
                     });
  }
  by_id_.clear();
  taker_.reset();
  return all;
}

}  // namespace harrow::server
