#include "agent/pmix/published.h"

#include <algorithm>

namespace harrow::agent::pmix {

void Published::Take(const pb::PmixQuestion& question, Answered answered) {
  pb::PmixAnswer answer;
  switch (question.what()) {
    case pb::PmixQuestion::PUBLISH: {
      Publish(question, &answer);
      answered(std::move(answer));
      for (Waiting& waiting : std::exchange(waiting_, {})) {
        pb::PmixAnswer late;
        if (LookUp(waiting.first, &late)) {
          waiting.second(std::move(late));
        } else {
          waiting_.push_back(std::move(waiting));
        }
      }
      return;
    }
    case pb::PmixQuestion::LOOK_UP:
      if (LookUp(question, &answer)) return answered(std::move(answer));
      waiting_.emplace_back(question, std::move(answered));
      return;
    default:
      Unpublish(question);
      return answered(std::move(answer));
  }
}

/// All of it, or nothing.
void Published::Publish(const pb::PmixQuestion& question, pb::PmixAnswer* answer) {
  const auto& names = question.key();
  answer->set_refused(names.size() != question.value_size() ||
                      std::any_of(names.begin(), names.end(),
                                  [this](const std::string& name) { return keys_.contains(name); }));
  if (answer->refused()) return;
  for (int i = 0; i < names.size(); ++i)
    keys_[names[i]] = {.value = question.value(i), .rank = question.rank(), .once = question.once()};
}

bool Published::LookUp(const pb::PmixQuestion& question, pb::PmixAnswer* answer) {
  uint32_t there = 0;
  for (const std::string& name : question.key()) there += keys_.contains(name) ? 1 : 0;
  if (there < question.wait()) return false;
  for (const std::string& name : question.key()) {
    const auto found = keys_.find(name);
    if (found == keys_.end()) continue;
    pb::PublishedKey* const key = answer->add_found();
    key->set_key(name);
    key->set_value(found->second.value);
    key->set_rank(found->second.rank);
    if (found->second.once) keys_.erase(found);
  }
  return true;
}

void Published::Unpublish(const pb::PmixQuestion& question) {
  const auto& names = question.key();
  std::erase_if(keys_, [&](const auto& key) {
    return key.second.rank == question.rank() &&
           (names.empty() || std::find(names.begin(), names.end(), key.first) != names.end());
  });
}

}  // namespace harrow::agent::pmix
