#include "server/best.h"

#include <algorithm>
#include <utility>

// One write at a time; of what is offered meanwhile the best is written next, and all others are answered then. So an answer
// that something better is known is never given for something that a crash could take away.

namespace harrow::server {

void Best::Offer(run::BestValue best, Told told) {
  offers_.push_back({std::move(best), std::move(told)});
  GoOn();
}

void Best::Learn(run::BestValue best) {
  if (known_ && known_->value <= best.value) return;
  known_ = std::move(best);
  unsaved_ = true;
  hooks_.learned(*known_, false);
  GoOn();
}

void Best::GoOn() {
  if (writing_) return;
  std::deque<Offered> worse;
  const auto is_worse = [this](const Offered& offer) { return known_ && known_->value <= offer.best.value; };
  const auto first_worse = std::stable_partition(offers_.begin(), offers_.end(), [&](const Offered& offer) { return !is_worse(offer); });
  std::move(first_worse, offers_.end(), std::back_inserter(worse));
  offers_.erase(first_worse, offers_.end());
  if (!offers_.empty()) {
    std::iter_swap(offers_.begin(), std::min_element(offers_.begin(), offers_.end(), [](const Offered& a, const Offered& b) {
      return a.best.value < b.best.value;
    }));
    writing_ = true;
    hooks_.write(offers_.front().best, [this](const Status& status) { Written(status); });
  } else if (std::exchange(unsaved_, false)) {
    writing_ = true;
    saving_ = *known_;
    hooks_.write(*saving_, [this](const Status&) {
      writing_ = false;
      GoOn();
    });
  }
  for (const Offered& offer : worse) offer.told(false);
}

void Best::Written(const Status& status) {
  writing_ = false;
  Offered offer = std::move(offers_.front());
  offers_.pop_front();
  if (!status.ok()) {
    offer.told(status);
  } else if (known_ && known_->value <= offer.best.value) {  // another server has told a better one meanwhile
    unsaved_ = true;
    offer.told(false);
  } else {
    known_ = std::move(offer.best);
    unsaved_ = false;
    hooks_.learned(*known_, true);
    offer.told(true);
  }
  GoOn();
}

}  // namespace harrow::server
