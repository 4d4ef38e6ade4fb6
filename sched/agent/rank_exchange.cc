// Words between two parts are numbered, cut into pieces that a channel takes, and kept until the other end
// has acknowledged them: with the next word that it says, or after a moment by itself. When a channel ends,
// what is not acknowledged is said again over the next one; what comes twice, or before its turn, is dropped.
// What is said to a part that is not here yet is dropped, too: as soon as it is here it asks those below it,
// the only ones that can have spoken, to say all again. What a part has said as it leaves is kept for a while
// for those who have not heard it.
//
// Where parts meet they stand in a tree, in the order of their nodes, with up to kFanOut below each. A part
// tells the one above it when it is there and all below it are, with what they have brought; the highest
// tells all below it that all are, with what all have brought, and so on down. All parts are in the tree of
// Meeting::kReady, in the others those that have the ranks in question, so that every part knows from what is
// asked of it who stands where. Those that are at one meeting go to the next of the same only when it is
// over, so meetings need no numbers.
//
// Nothing limits how long a task takes that has not begun. So who has waited for kReadyPatience for all to be
// ready gives up: nodes that cannot reach each other would keep their slots for ever.
//
// A part believes another what only that one can know, and nothing that does not come from a node of the
// attempt, over TLS, naming attempt and space.
#include "agent/rank_exchange.h"

#include <algorithm>

#include "base/text.h"
#include "os/log.h"
#include "wire/attempt_id.h"
#include "wire/decode.h"

namespace harrow::agent {
namespace {

constexpr uint32_t kFanOut = 8;
constexpr size_t kWordPiece = 1u << 20;  // bytes
constexpr size_t kMostWord = 62u << 20;  // which fits into a frame for harrow-pmix (64 MiB)
constexpr Duration kPaySoon = std::chrono::milliseconds(50);
constexpr Duration kSayAgain = std::chrono::milliseconds(100);
constexpr Duration kLinger = std::chrono::seconds(30);
constexpr Duration kReadyPatience = std::chrono::minutes(5);

}  // namespace

RankExchange::RankExchange(os::EventLoop* loop, Peers* peers, Hooks hooks)
    : loop_(loop), peers_(*peers), hooks_(std::move(hooks)) {
  peers_.Serve(Service::kRanks, {.on_message = [this](NodeId from, std::string_view message,
                                                      bool sealed) { Take(from, message, sealed); },
                                 .on_gone = [this](NodeId node, const Status& why) { Gone(node, why); }});
}

RankExchange::~RankExchange() {
  peers_.Serve(Service::kRanks, {});
  loop_->CancelTimer(pay_timer_);
  loop_->CancelTimer(again_timer_);
  for (const auto& [attempt, part] : parts_) loop_->CancelTimer(part->patience);
}

RankExchange::PartPtr RankExchange::Find(AttemptId attempt) const {
  const auto found = parts_.find(attempt);
  return found == parts_.end() ? nullptr : found->second;
}

std::optional<RankExchange::Place> RankExchange::PlaceOf(const Part& part, const Key& key) {
  const Gang& gang = *part.gang;
  std::vector<uint32_t> all;
  if (key.first == Meeting::kReady) {
    for (uint32_t node = 0; node < gang.nodes.size(); ++node) all.push_back(node);
  } else {
    all = gang.NodesOf(key.second);
  }
  const auto here = std::find(all.begin(), all.end(), gang.here);
  if (here == all.end()) return std::nullopt;
  const auto at = static_cast<size_t>(here - all.begin());
  Place place;
  if (at > 0) place.above = all[(at - 1) / kFanOut];
  for (size_t i = kFanOut * at + 1; i <= kFanOut * (at + 1) && i < all.size(); ++i)
    place.below.push_back(all[i]);
  return place;
}

void RankExchange::Join(AttemptId attempt, std::shared_ptr<const Gang> gang) {
  Leave(attempt);
  const PartPtr part = std::make_shared<Part>(Part{.attempt = attempt, .gang = std::move(gang)});
  parts_[attempt] = part;
  by_space_[part->gang->space] = part;
  const std::optional<Place> place = PlaceOf(*part, {Meeting::kReady, {}});
  for (const uint32_t node : place->below) Put(*part, node, nullptr, true);
}

void RankExchange::Leave(AttemptId attempt) {
  const auto found = parts_.find(attempt);
  if (found == parts_.end()) return;
  const PartPtr part = found->second;
  parts_.erase(found);
  part->left = true;
  loop_->CancelTimer(std::exchange(part->patience, 0));
  part->gatherings.clear();
  part->questions.clear();
  // Else the others would keep for long what has come here.
  for (const auto& [node, link] : part->links) {
    if (link.owes) Put(*part, node, nullptr);
  }
  if (ForgetIfSilent(part)) return;
  (void)loop_->After(kLinger, [this, space = std::weak_ptr(part), alive = std::weak_ptr(alive_)] {
    const PartPtr late = space.lock();
    if (alive.expired() || late == nullptr) return;
    for (auto& [node, link] : late->links) link.unacknowledged.clear();
    (void)ForgetIfSilent(late);
  });
}

bool RankExchange::ForgetIfSilent(const PartPtr& part) {
  for (const auto& [node, link] : part->links) {
    if (!link.unacknowledged.empty()) return false;
  }
  if (const auto space = by_space_.find(part->gang->space); space != by_space_.end() && space->second == part)
    by_space_.erase(space);
  return true;
}

// --- meeting

void RankExchange::Meet(AttemptId attempt, Meeting meeting, std::vector<uint32_t> ranks, std::string data,
                        Gangs::Met met) {
  const PartPtr part = Find(attempt);
  if (part == nullptr) return;
  const Key key{meeting, std::move(ranks)};
  if (!PlaceOf(*part, key)) return met(Status(Code::kInvalid, "ranks of other nodes meet"));
  Gathering& gathering = part->gatherings[key];
  if (gathering.here) return met(Status(Code::kInvalid, "the ranks meet already"));
  gathering.here = true;
  gathering.met = std::move(met);
  gathering.brought[part->gang->here] = std::move(data);
  if (meeting == Meeting::kReady) {
    part->patience = loop_->After(kReadyPatience, [this, waits = std::weak_ptr(part)] {
      if (const PartPtr still = waits.lock()) GiveUp(still);
    });
  }
  Gather(part, key);
}

void RankExchange::GiveUp(const PartPtr& part) {
  const Key key{Meeting::kReady, {}};
  const auto found = part->gatherings.find(key);
  if (found == part->gatherings.end() || !found->second.here) return;
  const std::optional<Place> place = PlaceOf(*part, key);
  std::string absent;
  for (const uint32_t node : place->below) {
    if (!found->second.brought.contains(node))
      absent += StrCat(absent.empty() ? "" : ", ", part->gang->nodes[node].name);
  }
  if (absent.empty() && place->above) absent = part->gang->nodes[*place->above].name;
  const Gangs::Met met = std::move(found->second.met);
  part->gatherings.erase(found);
  met(Status(Code::kUnavailable, StrCat("nothing was heard of its other nodes (", absent, ") for ",
                                        FormatDuration(kReadyPatience))));
}

void RankExchange::Gather(const PartPtr& part, const Key& key) {
  Gathering& gathering = part->gatherings[key];
  const std::optional<Place> place = PlaceOf(*part, key);
  if (!gathering.here || gathering.brought.size() < place->below.size() + 1) return;
  std::string data;
  for (auto& [node, brought] : gathering.brought) {
    if (gathering.why.empty() && data.size() + brought.size() > kMostWord - kWordPiece)
      gathering.why = StrCat("its ranks tell each other more than ", FormatBytes(kMostWord - kWordPiece));
    if (gathering.why.empty()) data += brought;
    brought.clear();
  }
  if (!gathering.why.empty()) data.clear();
  if (!place->above) return Over(part, key, std::move(data), gathering.why);
  pb::RankWord word;
  pb::RankMeeting* const meeting = word.mutable_meeting();
  meeting->set_kind(static_cast<uint32_t>(key.first));
  meeting->mutable_rank()->Add(key.second.begin(), key.second.end());
  meeting->set_data(std::move(data));
  meeting->set_why(gathering.why);
  Say(*part, *place->above, word);
}

void RankExchange::Over(const PartPtr& part, const Key& key, std::string data, std::string why) {
  const std::vector<uint32_t> below = PlaceOf(*part, key)->below;
  if (!below.empty()) {
    pb::RankWord word;
    pb::RankMeeting* const meeting = word.mutable_meeting();
    meeting->set_kind(static_cast<uint32_t>(key.first));
    meeting->mutable_rank()->Add(key.second.begin(), key.second.end());
    meeting->set_over(true);
    meeting->set_data(data);
    meeting->set_why(why);
    for (const uint32_t node : below) Say(*part, node, word);
  }
  const Gangs::Met met = std::move(part->gatherings.at(key).met);
  part->gatherings.erase(key);  // `met` may come to the next one
  if (key.first == Meeting::kReady) loop_->CancelTimer(std::exchange(part->patience, 0));
  if (!why.empty()) return met(Status(Code::kExhausted, std::move(why)));
  met(std::move(data));
}

// --- asking

void RankExchange::Ask(AttemptId attempt, uint32_t node, std::string question, Answered answered) {
  const PartPtr part = Find(attempt);
  if (part == nullptr || node >= part->gang->nodes.size()) return;
  const uint64_t number = ++part->asked;
  part->questions.emplace(number, std::pair(node, std::move(answered)));
  if (node == part->gang->here) return hooks_.asked(attempt, node, number, std::move(question));
  pb::RankWord word;
  word.mutable_question()->set_number(number);
  word.mutable_question()->set_text(std::move(question));
  Say(*part, node, word);
}

void RankExchange::Answer(AttemptId attempt, uint32_t node, uint64_t number, std::string answer) {
  const PartPtr part = Find(attempt);
  if (part == nullptr || node >= part->gang->nodes.size()) return;
  pb::RankWord word;
  word.mutable_answer()->set_number(number);
  word.mutable_answer()->set_text(std::move(answer));
  if (node == part->gang->here) return Act(part, node, std::move(word));
  Say(*part, node, word);
}

// --- what was said

void RankExchange::Act(const PartPtr& part, uint32_t node, pb::RankWord word) {
  if (word.has_question())
    hooks_.asked(part->attempt, node, word.question().number(),
                 std::move(*word.mutable_question()->mutable_text()));
  if (word.has_answer() && !part->left) {
    const auto found = part->questions.find(word.answer().number());
    if (found != part->questions.end() && found->second.first == node) {
      const Answered answered = std::move(found->second.second);
      part->questions.erase(found);
      answered(std::move(*word.mutable_answer()->mutable_text()));
    }
  }
  if (!word.has_meeting() || part->left) return;
  pb::RankMeeting& meeting = *word.mutable_meeting();
  if (meeting.kind() > static_cast<uint32_t>(Meeting::kRanks)) return;
  const Key key{static_cast<Meeting>(meeting.kind()), {meeting.rank().begin(), meeting.rank().end()}};
  const std::optional<Place> place = PlaceOf(*part, key);
  if (!place) return;
  if (meeting.over()) {
    const auto found = part->gatherings.find(key);
    if (place->above != node || found == part->gatherings.end() || !found->second.here) return;
    return Over(part, key, meeting.data(), meeting.why());
  }
  if (std::find(place->below.begin(), place->below.end(), node) == place->below.end()) return;
  Gathering& gathering = part->gatherings[key];
  if (!meeting.why().empty()) gathering.why = meeting.why();
  if (gathering.brought.emplace(node, std::move(*meeting.mutable_data())).second) Gather(part, key);
}

void RankExchange::Take(NodeId from, std::string_view bytes, bool sealed) {
  if (!sealed) return;
  pb::PeerRanks message;
  if (const Status read = wire::Decode(bytes, &message); !read.ok()) return peers_.HangUp(from, read);
  const auto found = by_space_.find(message.space());
  if (found == by_space_.end()) return;  // not yet, or not any more
  const PartPtr part = found->second;
  const std::vector<Gang::Node>& nodes = part->gang->nodes;
  const auto node =
      std::find_if(nodes.begin(), nodes.end(), [from](const Gang::Node& n) { return n.id == from; });
  if (node == nodes.end() || part->attempt != wire::IdOf(message.attempt())) return;
  told_.erase(from);
  Hear(part, static_cast<uint32_t>(node - nodes.begin()), message);
}

void RankExchange::Hear(const PartPtr& part, uint32_t node, const pb::PeerRanks& message) {
  Link& link = part->links[node];
  while (!link.unacknowledged.empty() && link.unacknowledged.front().sequence <= message.acknowledged())
    link.unacknowledged.pop_front();
  if (message.again()) SayAgain(*part, node);
  if (part->left) return (void)ForgetIfSilent(part);
  if (message.sequence() == 0 || message.sequence() > link.heard + 1) return;
  Owe(*part, node);
  if (message.sequence() <= link.heard) return;
  ++link.heard;
  link.too_long = link.too_long || link.pieces.size() + message.said().size() > kMostWord;
  if (!link.too_long) link.pieces += message.said();
  if (message.more()) return;
  const std::string bytes = std::exchange(link.pieces, {});
  pb::RankWord word;
  const bool dropped = std::exchange(link.too_long, false);
  const Status read = dropped ? Status(Code::kDamaged, "a word without end") : wire::Decode(bytes, &word);
  if (!read.ok()) return peers_.HangUp(part->gang->nodes[node].id, read);
  Act(part, node, std::move(word));
}

// --- saying

void RankExchange::Say(Part& part, uint32_t node, const pb::RankWord& word) {
  const std::string bytes = word.SerializeAsString();
  Link& link = part.links[node];
  size_t at = 0;
  do {
    Said& said = link.unacknowledged.emplace_back();
    said.sequence = ++link.said;
    said.bytes = bytes.substr(at, kWordPiece);
    at += said.bytes.size();
    said.more = at < bytes.size();
    Put(part, node, &said);
  } while (at < bytes.size());
}

void RankExchange::Put(Part& part, uint32_t node, const Said* said, bool again) {
  Link& link = part.links[node];
  link.owes = false;
  pb::PeerRanks message;
  message.set_space(part.gang->space);
  wire::SetId(part.attempt, message.mutable_attempt());
  message.set_acknowledged(link.heard);
  message.set_again(again);
  if (said != nullptr) {
    message.set_sequence(said->sequence);
    message.set_said(said->bytes);
    message.set_more(said->more);
  }
  peers_.Send(part.gang->nodes[node].id, Service::kRanks, message.SerializeAsString());
}

void RankExchange::SayAgain(Part& part, uint32_t node) {
  const auto link = part.links.find(node);
  if (link == part.links.end()) return;
  for (const Said& said : link->second.unacknowledged) Put(part, node, &said);
}

void RankExchange::Owe(Part& part, uint32_t node) {
  part.links[node].owes = true;
  owed_.emplace(part.attempt, node);
  if (pay_timer_ != 0) return;
  pay_timer_ = loop_->After(kPaySoon, [this] {
    pay_timer_ = 0;
    PayWhatIsOwed();
  });
}

void RankExchange::PayWhatIsOwed() {
  for (const auto& [attempt, node] : std::exchange(owed_, {})) {
    const PartPtr part = Find(attempt);
    if (part != nullptr && part->links[node].owes) Put(*part, node, nullptr);
  }
}

void RankExchange::Gone(NodeId id, const Status& why) {
  for (const auto& [space, part] : by_space_) {
    for (const auto& [node, link] : part->links) {
      if (part->gang->nodes[node].id != id || link.unacknowledged.empty()) continue;
      gone_.insert(id);
      if (!part->left && told_.insert(id).second)
        hooks_.problem(StrCat("task ", part->attempt.task.value + 1, " waits for node ",
                              part->gang->nodes[node].name, ": ", why.message()));
    }
  }
  if (gone_.empty() || again_timer_ != 0) return;
  again_timer_ = loop_->After(kSayAgain, [this] {
    again_timer_ = 0;
    const std::set<NodeId> gone = std::exchange(gone_, {});
    for (const auto& [space, part] : by_space_) {
      for (const auto& [node, link] : part->links) {
        if (gone.contains(part->gang->nodes[node].id)) SayAgain(*part, node);
      }
    }
  });
}

}  // namespace harrow::agent
