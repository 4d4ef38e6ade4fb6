// Tasks of one program have much in common: tables, meshes, what an interpreter has read. When several of a node are kept at once, as when
// its allocation ends, each content should go to the shared file system once (after S. Yamasaki, T. Endo and S. Matsuoka, migration
// optimization accounting for similarity of process images: a base, and of the others what they differ by. There one base is chosen and
// sent alone; here each image is a base for those after it).
//
// So alike images take turns: the first is written as a whole, and others wait for it that have a quarter of their contents in common with
// it. Those that are written after it differ from it by little, and need not wait for one another: what is being written is waited for
// only where it has a quarter more than what is there. Images that have nothing in common never wait.
//
// How much two images have in common is told by samples. Which images there are is known by node: of others' nothing is asked.
#include "migrate/alike.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace harrow::migrate {
namespace {

constexpr auto kLookForStop = std::chrono::milliseconds(50);

size_t InCommon(const Sample& a, const Sample& b) {
  size_t common = 0;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (*i < *j) {
      ++i;
    } else {
      common += *i == *j;
      ++j;
    }
  }
  return common;
}

}  // namespace

AlikeImages::Turn::~Turn() {
  if (of_ == nullptr) return;
  {
    const std::lock_guard lock(of_->mutex_);
    of_->in_turn_.erase(image_);
  }
  of_->ended_.notify_all();
}

void AlikeImages::Turn::Done(std::string directory) {
  const std::lock_guard lock(of_->mutex_);
  if (of_->kept_.size() >= kKept) of_->kept_.pop_front();
  of_->kept_.push_back({image_->sample, std::move(directory)});
}

bool AlikeImages::IsWorthWaiting(const Sample& sample) const {
  size_t there = 0, to_come = 0;
  for (const Image& image : kept_) there = std::max(there, InCommon(sample, image.sample));
  for (const Image& image : in_turn_) to_come = std::max(to_come, InCommon(sample, image.sample));
  return to_come > 0 && to_come >= there + (sample.size() + 3) / 4;
}

AlikeImages::Turn AlikeImages::Take(Sample sample, const std::function<bool()>& stop) {
  std::unique_lock lock(mutex_);
  const auto stopped = [&] { return stop && stop(); };
  while (IsWorthWaiting(sample) && !stopped()) {
    // Nothing else has changed before one ends.
    while (ended_.wait_for(lock, kLookForStop) == std::cv_status::timeout && !stopped()) {}
  }
  std::vector<std::pair<size_t, const Image*>> closest;
  for (const Image& image : kept_) {
    if (const size_t common = InCommon(sample, image.sample); common > 0) closest.emplace_back(common, &image);
  }
  // Of equals the newest: older ones are sooner gone.
  std::reverse(closest.begin(), closest.end());
  std::stable_sort(closest.begin(), closest.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  Turn turn(this, in_turn_.insert(in_turn_.end(), {.sample = std::move(sample)}));
  for (const auto& [common, image] : closest) {
    if (turn.earlier_.size() < kEarlier) turn.earlier_.push_back(image->directory);
  }
  return turn;
}

}  // namespace harrow::migrate
