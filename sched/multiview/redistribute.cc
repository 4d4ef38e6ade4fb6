#include <cstring>

#include "multiview/scatter.h"
#include "multiview/store.h"
#include "multiview/transfer.h"

namespace harrow::multiview::internal {

Status Store::Redistribute() {
  if (content_.state == Content::State::kEmpty) return {};
  std::shared_ptr<const Layout> target = declared_;
  if (placement_ == Placement::kLeastMoved && content_.layout) {
    // A layout with this grid is already one that moves nothing.
    const bool fits = content_.layout->grid() == declared_->grid();
    target = fits ? content_.layout : team_->LeastMoved(content_.layout, declared_->grid());
  }
  if (content_.layout && *content_.layout == *target) return {};
  ++team_->statistics().redistributions;
  return content_.state == Content::State::kComplete ? RedistributeComplete(target) : RedistributeLoose(target);
}

Status Store::RedistributeComplete(const std::shared_ptr<const Layout>& target) {
  const auto plan = team_->PlanOf(content_.layout, target);
  auto to = AllocateBoxes(plan->to());
  if (Status s = team_->AgreeOn(to.status()); !s.ok()) return s;
  const Index largest = std::max(content_.layout->LargestVolume(), target->LargestVolume());
  const bool bounded = target_ == Target::kFile || (target_ == Target::kAutomatic && team_->options().memory_limit != SIZE_MAX);
  const Move move{.plan = *plan,
                  .from_layout = *content_.layout,
                  .to_layout = *target,
                  .element_bytes = element_bytes_,
                  .largest_bytes = static_cast<std::size_t>(largest) * element_bytes_,
                  .bounded = bounded,
                  .from = content_.dense.get(),
                  .to = to->get()};
  BoxList boxes = plan->to();
  if (Status s = Execute(*team_, move); !s.ok()) return s;
  content_.dense = std::move(*to);
  content_.boxes = std::move(boxes);
  content_.layout = target;
  return {};
}

// Where elements lie is found out here, once: from then on the layout is known.
Status Store::RedistributeLoose(const std::shared_ptr<const Layout>& target) {
  constexpr std::uint64_t kMisplaced = 1;
  const std::vector<Entry>& entries = content_.loose.entries();
  const BoxList boxes(target->Boxes(team_->rank()));
  const Vote vote = team_->Agree({Inside(entries, shape_, boxes) ? 0 : kMisplaced, content_.loose.count()});
  const bool full = element_bytes_ > 0 && vote.sum == volume_;
  if (!(vote.flags & kMisplaced)) {
    if (full) {
      auto dense = Densified(target, entries);
      if (Status s = team_->AgreeOn(dense.status()); !s.ok()) return s;
      content_ = std::move(*dense);
    } else {
      content_.layout = target;
      content_.distinct = true;
    }
    return {};
  }
  Content result;
  if (full) {
    auto placed = ScatterIntoPlace(target, &result);
    if (!placed) return placed.status();
    if (*placed) {
      content_ = std::move(result);
      return {};
    }
  }
  if (Status s = ScatterLoosely(target, &result); !s.ok()) return s;
  content_ = std::move(result);
  return {};
}

// As many elements as the store has room for: if none is there twice, all are there, and can be received into place. False if
// one is there twice.
Result<bool> Store::ScatterIntoPlace(const std::shared_ptr<const Layout>& target, Content* result) {
  constexpr std::uint64_t kTwice = 1, kFailed = 2;
  auto empty = Densified(target, {});
  if (Status s = team_->AgreeOn(empty.status()); !s.ok()) return s;
  std::vector<bool> taken(static_cast<std::size_t>(empty->boxes.volume));
  bool twice = false;
  Status status = Scatter(*team_, *target, content_.loose.entries(), element_bytes_, [&](const Entry& e) {
    ForEachPart(e, shape_, empty->boxes, element_bytes_, [&](Index offset, Index count, const std::byte* data) {
      for (Index i = offset; i < offset + count; ++i) {
        twice = twice || taken[static_cast<std::size_t>(i)];
        taken[static_cast<std::size_t>(i)] = true;
      }
      std::memcpy(empty->dense->data() + static_cast<std::size_t>(offset) * element_bytes_, data,
                  static_cast<std::size_t>(count) * element_bytes_);
    });
    return Status();
  });
  const Vote vote = team_->Agree({(twice ? kTwice : 0) | (status.ok() ? 0 : kFailed), 0});
  if (vote.flags & kFailed) return team_->FirstError(status);
  *result = std::move(*empty);
  return !(vote.flags & kTwice);
}

Status Store::ScatterLoosely(const std::shared_ptr<const Layout>& target, Content* result) {
  constexpr std::uint64_t kFailed = 1;
  *result = {};
  Arena arena(&team_->memory(), target_);
  std::vector<Entry> entries;
  Status status = Scatter(*team_, *target, content_.loose.entries(), element_bytes_, [&](const Entry& e) {
    return Append(&arena, &entries, e.index, e.count, e.order, e.data, e.bytes, element_bytes_ > 0);
  });
  Settle(&entries, element_bytes_);
  LooseElements& loose = result->loose;
  loose.Own(arena.TakeChunks());
  loose.Add(std::move(entries));
  const Vote vote = team_->Agree({status.ok() ? 0 : kFailed, loose.count()});
  if (vote.flags & kFailed) return team_->FirstError(status);
  if (element_bytes_ > 0 && vote.sum == volume_) {
    auto dense = Densified(target, loose.entries());
    if (Status s = team_->AgreeOn(dense.status()); !s.ok()) return s;
    *result = std::move(*dense);
    return {};
  }
  result->state = Content::State::kLoose;
  result->layout = target;
  return {};
}

}  // namespace harrow::multiview::internal
