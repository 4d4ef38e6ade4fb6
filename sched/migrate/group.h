#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "store/object.h"

namespace harrow::migrate {

/// From where to where one process of a job goes.
struct Journey {
  NodeId source, destination;
  store::ObjectId digest;  // of its image
};

// --- what the destination's representative hears
struct ImageReady {
  uint32_t journey = 0;
  store::ObjectId digest;
};
struct ImageFailed {
  uint32_t journey = 0;
  std::string why{};
};
/// A node is gone, with what had come to it.
struct NodeGone {
  NodeId node;
};
struct TimeOver {};
using GroupEvent = std::variant<ImageReady, ImageFailed, NodeGone, TimeOver>;

// --- and says, once
/// Every image is where it is to be: all go on.
struct ResumeAll {};
/// None goes on: they start from their last checkpoints. What has come is dropped.
struct GiveUpAll {
  std::string why{};
};
using GroupAction = std::variant<ResumeAll, GiveUpAll>;

/// N images go together: all are ready before one of their processes goes on, or none does. Pure; of the destination's representative.
class Group {
 public:
  explicit Group(std::vector<Journey> journeys) : journeys_(std::move(journeys)), ready_(journeys_.size()) {}
  void Handle(const GroupEvent& event, std::vector<GroupAction>* actions);
  bool over() const { return over_; }

 private:
  void On(const ImageReady& event, std::vector<GroupAction>* actions);
  void On(const ImageFailed& event, std::vector<GroupAction>* actions);
  void On(const NodeGone& event, std::vector<GroupAction>* actions);
  void On(const TimeOver& event, std::vector<GroupAction>* actions);
  void GiveUp(std::string why, std::vector<GroupAction>* actions);

  const std::vector<Journey> journeys_;
  std::vector<bool> ready_;
  size_t count_ = 0;
  bool over_ = false;
};

}  // namespace harrow::migrate
