// Tasks of one program have much in common: tables, meshes, what an interpreter has read. When several of a node are kept at once, as when
// its allocation ends, each content should go to the shared file system once (after S. Yamasaki, T. Endo and S. Matsuoka, migration
// optimization accounting for similarity of process images: a base, and of the others what they differ by. There one base is chosen and
// sent alone; here each image is a base for those after it).
//
// So alike images take turns: the first is written as a whole, and others wait for it that have a quarter of their contents in common with
// it. Those that are written after it differ from it by little, and need not wait for one another: what is being written is waited for
// only where it has a quarter more than what is there. Images that have nothing in common never wait.
//
// How much two images have in common is told by samples. Which images there are a node knows of its own, and of others' what they tell it
// on the shared file system (alike_files.cc): an image that another node keeps is waited for like one of this node.
#include "migrate/alike.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <unistd.h>
#include <utility>

namespace harrow::migrate {
namespace {

constexpr auto kLookForStop = std::chrono::milliseconds(50), kLookAtFiles = std::chrono::milliseconds(200);

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
  if (files_) files_->Done(std::filesystem::path(directory).filename());
  const std::lock_guard lock(of_->mutex_);
  if (of_->kept_.size() >= kKept) of_->kept_.pop_front();
  of_->kept_.push_back({image_->sample, std::move(directory)});
}

bool AlikeImages::IsWorthWaiting(const Sample& sample, const Others& others) const {
  size_t there = 0, to_come = 0;
  for (const Image& image : kept_) there = std::max(there, InCommon(sample, image.sample));
  for (const Image& image : in_turn_) to_come = std::max(to_come, InCommon(sample, image.sample));
  for (const AlikeFiles::Sampled& other : others) {
    size_t& of = other.comes ? to_come : there;
    of = std::max(of, other.InCommon(sample));
  }
  return to_come > 0 && to_come >= there + (sample.size() + 3) / 4;
}

std::vector<std::string> AlikeImages::Closest(const Sample& sample, const Others& others) const {
  std::vector<std::pair<size_t, const std::string*>> closest;
  for (const Image& image : kept_) closest.emplace_back(InCommon(sample, image.sample), &image.directory);
  // Of equals the newest: older ones are sooner gone. Others' come as the newest first.
  std::reverse(closest.begin(), closest.end());
  for (const AlikeFiles::Sampled& other : others) {
    const bool is_own = std::any_of(kept_.begin(), kept_.end(), [&](const Image& image) { return image.directory == other.directory; });
    if (!other.comes && !is_own && access((other.directory + "/index").c_str(), F_OK) == 0) closest.emplace_back(other.InCommon(sample), &other.directory);
  }
  std::erase_if(closest, [](const auto& each) { return each.first == 0; });
  std::stable_sort(closest.begin(), closest.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> directories;
  for (const auto& [common, directory] : closest) {
    if (directories.size() < kEarlier) directories.push_back(*directory);
  }
  return directories;
}

AlikeImages::Turn AlikeImages::Take(Sample sample, const std::function<bool()>& stop, const AlikeFiles::Place& place) {
  std::unique_ptr<AlikeFiles> files;
  Others others;
  if (!place.directory.empty()) {
    files = std::make_unique<AlikeFiles>(place, sample, &known_);
    others = files->Others();
  }
  std::unique_lock lock(mutex_);
  while (IsWorthWaiting(sample, others) && !(stop && stop())) {
    // Nothing else has changed on this node before one ends.
    (void)ended_.wait_for(lock, files ? kLookAtFiles : kLookForStop);
    if (!files) continue;
    lock.unlock();
    files->Beat();
    others = files->Others();
    lock.lock();
  }
  std::vector<std::string> earlier = Closest(sample, others);
  Turn turn(this, in_turn_.insert(in_turn_.end(), {.sample = std::move(sample), .directory = {}}), std::move(files));
  turn.earlier_ = std::move(earlier);
  return turn;
}

}  // namespace harrow::migrate
