#include "migrate/group.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace harrow::migrate {

void Group::Handle(const GroupEvent& event, std::vector<GroupAction>* actions) {
  if (over_) return;
  std::visit([&](const auto& e) { On(e, actions); }, event);
}

void Group::On(const ImageReady& event, std::vector<GroupAction>* actions) {
  if (event.journey >= journeys_.size() || ready_[event.journey]) return;
  if (event.digest != journeys_[event.journey].digest) return GiveUp(StrCat("image ", event.journey, " is not what was sent: its digest differs"), actions);
  ready_[event.journey] = true;
  if (++count_ < journeys_.size()) return;
  over_ = true;
  actions->push_back(ResumeAll{});
}

void Group::On(const ImageFailed& event, std::vector<GroupAction>* actions) {
  GiveUp(StrCat("image ", event.journey, " did not come: ", event.why), actions);
}

void Group::On(const NodeGone& event, std::vector<GroupAction>* actions) {
  for (size_t i = 0; i < journeys_.size(); ++i) {
    const bool to = journeys_[i].destination == event.node;
    // One that has come needs its source no more.
    if (to || (journeys_[i].source == event.node && !ready_[i]))
      return GiveUp(StrCat("image ", i, ": the node that it goes ", to ? "to" : "from", " is gone"), actions);
  }
}

void Group::On(const TimeOver&, std::vector<GroupAction>* actions) {
  const auto late = static_cast<size_t>(std::find(ready_.begin(), ready_.end(), false) - ready_.begin());
  GiveUp(StrCat("image ", late, " has not come in time"), actions);
}

void Group::GiveUp(std::string why, std::vector<GroupAction>* actions) {
  over_ = true;
  actions->push_back(GiveUpAll{std::move(why)});
}

}  // namespace harrow::migrate
