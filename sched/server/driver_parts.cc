// Attempts of several nodes. Each node has a part, of which its agent tells as of an attempt of its own; the
// scheduler knows the attempt by its lead node. It ends once, when all its parts are over: with one record,
// and one word to the scheduler.
//
// A part that has ended goes to the journal at once, to a table of its own, and is acknowledged as any other
// result. Were it left to its agent until the attempt ends, all that this agent tells later would have to
// wait with it (an acknowledgement names a number, up to which all is safe), for as long as other parts run;
// and would be gone with the agent. A server that follows reads what is over in the journal, and hears of the
// rest from the agents.
//
// The first part that does not end well, and the loss of a node, whether its part is over or not, end the
// attempt: the other parts are told to end, as lost. Parts without processes, which only keep their cores,
// are told so when the others are over. Parts keep nothing up: who has ended well is told nothing more.
//
// Nothing is started beside an attempt that goes on. The scheduler gives up what it had sent to a node that
// is lost, and may begin the task's next attempt at once; where the lead node was lost, other parts may run
// still. The next attempt waits here until they are over. So an attempt that has lost a part is not taken in
// again where it is heard of later: it is told to end, and what it tells of its end is dropped.
//
// While a server that follows another gathers what agents run, a row is made by the first that tells of a
// part: with all its nodes, so that a part which has not begun is told of as one that runs. When the
// gathering is over, what has not been told of is lost.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "journal/parts.h"
#include "os/log.h"
#include "server/driver.h"
#include "server/messages.h"
#include "server/part_ends.h"
#include "wire/attempt_id.h"

namespace harrow::server {
namespace {

using journal::PartRecord;
using Row = AttemptTable::Row;

constexpr size_t kSpaceBytes = 16;

std::string NewSpace(std::string_view secret) {
  return "harrow-" + HexDigits(secret.substr(0, kSpaceBytes));
}

/// What is known of it without its end.
PartRecord RecordOf(const Row& row, const Part& part) {
  PartRecord record;
  record.task = row.id.task;
  record.attempt = row.id.number;
  record.part = static_cast<uint32_t>(&part - row.gang->parts.data());
  record.nodes = static_cast<uint32_t>(row.gang->parts.size());
  record.node = part.node;
  record.ranks = part.ranks;
  record.start_ns = part.start_ns;
  return record;
}

}  // namespace

/// Its attempts may be of several nodes: of so many as it says, or as its ranks need.
bool RunDriver::MayBeInParts(TaskId task) const {
  const graph::Profile& profile = graph_.profile(task);
  return profile.shape.nodes > 1 || profile.ranks > 1;
}

/// It is out in parts, one of which is at that node.
bool RunDriver::HasPart(AttemptId id, const Node& node) {
  const Row* const row = attempts_.Find(id, node.id);
  return row != nullptr && row->gang;
}

/// A node tells of its part of an attempt, not of the whole.
bool RunDriver::IsPart(const pb::Attempt& attempt, const Node& node) {
  const AttemptId id = wire::IdOf(attempt);
  return attempt.has_gang() || HasPart(id, node) || graph_.profile(id.task).shape.nodes > 1;
}

std::string RunDriver::NameOf(NodeId id) const {
  const Node* const node = nodes_.Find(id);
  return node == nullptr ? "" : node->name;
}

// --- out

/// `members`: the lead node first.
void RunDriver::StartParts(const core::StartTask& start, std::vector<NodeId> members) {
  const TaskId task = start.attempt.task;
  if (const Row* before = attempts_.Find(task); before != nullptr && before->gang) {
    waiting_.insert_or_assign(task, Waiting{start, std::move(members)});
    return;
  }
  const bool all_there = std::all_of(members.begin(), members.end(), [this](NodeId id) {
    const Node* const node = nodes_.Find(id);
    return node != nullptr && node->joined;
  });
  if (!all_there) {  // one was lost while it waited
    events_.push_back(core::TaskEnded{start.attempt, start.node, core::Lost{}});
    return Wake();
  }
  const graph::Profile& profile = graph_.profile(task);
  pb::Gang gang;
  gang.set_space(NewSpace(hooks_.secret()));
  gang.set_ends_together(!graph_.outputs(task).empty() || profile.checkpoint.on());
  std::vector<Part> parts;
  const auto count = static_cast<uint32_t>(members.size());
  for (uint32_t i = 0; i < count; ++i) {
    parts.push_back({.node = members[i], .ranks = ProcessesOn(profile, count, i)});
    pb::GangNode* const node = gang.add_node();
    node->set_node(members[i].value);
    node->set_name(NameOf(members[i]));
    node->set_ranks(RanksOfPart(profile, count, i));
  }
  Row& row = attempts_.Add(start.attempt, std::move(parts));
  row.gang->space = gang.space();
  row.local_bytes = start.local_bytes;
  row.remote_bytes = start.remote_bytes;
  row.home_bytes = start.home_bytes;
  for (size_t i = 0; i < members.size(); ++i) {
    Node& node = *nodes_.Find(members[i]);
    for (size_t other = 0; other < i; ++other) BringTogether(*nodes_.Find(members[other]), node);
    pb::Task* const message = SendTask(node, start);
    gang.set_here(static_cast<uint32_t>(i));
    *message->mutable_gang() = gang;
    if (i == 0) NameOutputs(task, message);
  }
}

/// The parts of the task's attempt before are over.
void RunDriver::StartWaiting(TaskId task) {
  auto waiting = waiting_.extract(task);
  if (!waiting.empty()) StartParts(waiting.mapped().start, std::move(waiting.mapped().members));
}

/// False: it is not of several nodes.
bool RunDriver::CancelParts(const core::CancelTask& cancel) {
  const auto waiting = waiting_.find(cancel.attempt.task);
  if (waiting != waiting_.end() && waiting->second.start.attempt == cancel.attempt) {
    const core::Outcome outcome =
        cancel.as_lost ? core::Outcome(core::Lost{}) : core::Outcome(core::Cancelled{});
    events_.push_back(core::TaskEnded{cancel.attempt, cancel.node, outcome});
    waiting_.erase(waiting);
    Wake();
    return true;
  }
  Row* const row = attempts_.Find(cancel.attempt, cancel.node);
  if (row == nullptr || !row->gang) return false;
  EndParts(row, cancel.as_lost ? Gang::Ending::kLost : Gang::Ending::kCancelled);
  return true;
}

/// Those that are out are told to end. Of several reasons the first counts.
void RunDriver::EndParts(Row* row, Gang::Ending how) {
  if (row->gang->ending != Gang::Ending::kNo) return;
  row->gang->ending = how;
  for (const Part& part : row->gang->parts) {
    if (part.out()) TellToEnd(*nodes_.Find(part.node), *row);
  }
  Wake();
}

void RunDriver::TellToEnd(Node& node, const Row& row) {
  if (row.gang->ending == Gang::Ending::kInterrupted) return EndAt(node, row.id);
  pb::CancelTasks* const cancel = nodes_.Outbox(node).mutable_cancel();
  wire::SetId(row.id,
              row.gang->ending == Gang::Ending::kCancelled ? cancel->add_attempt() : cancel->add_lost());
}

// --- what agents tell

/// Can the task's attempt be out at these nodes, and does that one tell of its own part?
bool RunDriver::IsGangOf(TaskId task, const Node& node, const pb::Gang& gang) const {
  const graph::Profile& profile = graph_.profile(task);
  const auto count = static_cast<uint32_t>(gang.node_size());
  const bool may_be =
      profile.shape.nodes > 1 ? count == profile.shape.nodes : count > 1 && count <= profile.ranks;
  if (!may_be || gang.here() >= count || gang.node(static_cast<int>(gang.here())).name() != node.name)
    return false;
  std::set<std::string_view> names;
  for (uint32_t i = 0; i < count; ++i) {
    const pb::GangNode& member = gang.node(static_cast<int>(i));
    if (member.name().empty() || member.ranks() != RanksOfPart(profile, count, i)) return false;
    names.insert(member.name());
  }
  return names.size() == count;
}

/// The row of an attempt of which a node tells as one of its nodes; null: it counts no more. `gang`: as it
/// was told, if it was.
Row* RunDriver::FindOrAdoptParts(Node& node, AttemptId id, const pb::Gang* gang) {
  if (Row* row = attempts_.Find(id, node.id); row != nullptr && row->gang) {
    const bool other = gang != nullptr && !gang->space().empty() && gang->space() != row->gang->space;
    return other ? nullptr : row;
  }
  if (phase_ == Phase::kRunning || gang == nullptr || !MayAdopt(id) || !IsGangOf(id.task, node, *gang))
    return nullptr;
  if (const Row* earlier = attempts_.Find(id.task)) EndEarlier(*earlier);
  std::vector<Part> parts;
  for (const pb::GangNode& member : gang->node()) {
    parts.push_back({.node = nodes_.Named(member.name()).id,  // numbers may be others by now
                     .ranks = ProcessesOn(graph_.profile(id.task), static_cast<uint32_t>(gang->node_size()),
                                          static_cast<uint32_t>(parts.size())),
                     .state = Part::State::kUnheard});
  }
  Row& row = attempts_.Add(id, std::move(parts));
  row.gang->space = gang->space();
  // The server before may not have lived to tell them of each other.
  for (size_t i = 0; i < row.gang->parts.size(); ++i) {
    for (size_t other = 0; other < i; ++other)
      BringTogether(*nodes_.Find(row.gang->parts[other].node), *nodes_.Find(row.gang->parts[i].node));
  }
  auto known = known_parts_.extract(id);
  if (!known.empty()) {
    bool well = true;
    for (PartRecord& record : known.mapped()) {
      if (record.nodes != row.gang->parts.size()) continue;
      Part& part = row.gang->parts[record.part];
      part.start_ns = record.start_ns;
      well &= journal::EndedWell(record);
      attempts_.End(&row, &part, std::move(record));
    }
    if (!well || row.gang->processes_over()) row.gang->ending = Gang::Ending::kLost;
  }
  return &row;
}

/// A later attempt of the task is out: a server before this one knew that this one was over.
void RunDriver::EndEarlier(const Row& row) {
  if (row.gang) {
    for (const Part& part : row.gang->parts) {
      if (part.out()) EndSuperseded(*nodes_.Find(part.node), row.id);
    }
  } else if (row.state != AttemptTable::State::kLost) {
    EndSuperseded(*nodes_.Find(row.node), row.id);
  }
  std::erase_if(events_, [&](const core::Event& event) {
    const auto* started = std::get_if<core::TaskStarted>(&event);
    return started != nullptr && started->attempt == row.id;
  });
}

void RunDriver::TakePartStarted(const Moment& moment, Node& node, AttemptId id, const pb::Gang* gang,
                                int64_t start_ns) {
  Row* const row = FindOrAdoptParts(node, id, gang);
  Part* const part = row == nullptr ? nullptr : row->gang->At(node.id);
  if (part == nullptr || part->state == Part::State::kOver) return EndSuperseded(node, id);
  attempts_.Begin(row, part, start_ns > 0 ? start_ns : moment.wall_ns());
  if (row->gang->ending != Gang::Ending::kNo) TellToEnd(node, *row);
  // While agents are gathered: when that is over.
  if (phase_ == Phase::kRunning && row->node == node.id && !row->gang->given_up)
    events_.push_back(core::TaskStarted{id, node.id});
}

void RunDriver::TakePart(const Moment& moment, Node& node, const pb::Attempt& attempt) {
  const AttemptId id = wire::IdOf(attempt);
  if (attempt.end() == pb::Attempt::INTERRUPTED && !interrupted_) AgentEnds(node);
  Row* const row = FindOrAdoptParts(node, id, attempt.has_gang() ? &attempt.gang() : nullptr);
  Part* const part = row == nullptr ? nullptr : row->gang->At(node.id);
  // Told before, or given up.
  if (part == nullptr || part->state == Part::State::kOver) return;
  ++node.ended;
  row->gang->checkpoint_took = std::max(row->gang->checkpoint_took, Duration(attempt.checkpoint().took_ns()));
  if (row->node == node.id) {
    if (attempt.has_made()) {
      row->gang->made = {.task = attempt.task(),
                         .attempt = attempt.attempt(),
                         .begin_ns = attempt.made().begin_ns(),
                         .end_ns = attempt.made().end_ns(),
                         .found = {attempt.made().found().begin(), attempt.made().found().end()}};
    }
    NoteSizes(node, attempt);
  }
  PartOver(moment, row, part, PartFromProto(attempt, RecordOf(*row, *part)));
}

/// It will not begin there.
void RunDriver::TakePartBack(const Moment& moment, Node& node, AttemptId id) {
  Row* const row = attempts_.Find(id, node.id);
  if (Part* part = row->gang->At(node.id); part->out()) LosePart(moment, row, part, "it was taken back");
}

/// `there`: its agent, which has dialled again, has told of the part that is believed to be out there.
void RunDriver::ReconcilePart(const Moment& moment, Node& node, Row* row, bool there) {
  Part* const part = row->gang->At(node.id);
  if (!there) {
    LosePart(moment, row, part,
             part->state == Part::State::kRunning ? "its agent does not know it any more"
                                                  : "it did not arrive there");
  } else if (row->gang->ending != Gang::Ending::kNo) {
    TellToEnd(node, *row);  // it may not have arrived
  }
}

// --- ends

/// True: and so is the attempt.
bool RunDriver::PartOver(const Moment& moment, Row* row, Part* part, PartRecord record) {
  Gang& gang = *row->gang;
  if (part->ranks == 0 && gang.processes_over()) {  // it has kept its cores, and was told to let go of them
    record.end = journal::End::kExited;
    record.code = 0;
    record.message.clear();
  }
  const bool well = journal::EndedWell(record);
  recorder_.Part(record);
  attempts_.End(row, part, std::move(record));
  if (!well || gang.processes_over()) EndParts(row, Gang::Ending::kLost);
  return Conclude(moment, row);
}

/// Its agent will tell nothing of it.
bool RunDriver::LosePart(const Moment& moment, Row* row, Part* part, const std::string& why) {
  const Time heard = nodes_.Find(part->node)->heard;
  const int64_t heard_ns = heard == Time{} ? 0 : moment.wall_ns() - (moment.now - heard).count();
  PartRecord record = RecordOf(*row, *part);
  record.end = journal::End::kLost;
  record.end_ns = heard_ns;
  record.message = why;
  return PartOver(moment, row, part, std::move(record));
}

/// The node is lost, and with it every attempt that has a part there: so sees it the scheduler, which gives
/// up at once what it knows by this node.
void RunDriver::LosePartsAt(const Moment& moment, const Node& node, const std::string& why) {
  std::erase_if(waiting_, [&](const auto& each) { return each.second.start.node == node.id; });
  for (const TaskId task : attempts_.Gangs()) {
    Row* const row = attempts_.Find(task);
    Part* const part = row->gang->At(node.id);
    if (part == nullptr) continue;
    if (part->state != Part::State::kOver) {
      if (LosePart(moment, row, part, why)) continue;
    } else {
      if (row->gang->lost_why.empty()) row->gang->lost_why = StrCat("node ", node.name, ": ", why);
      EndParts(row, Gang::Ending::kLost);
    }
    if (phase_ == Phase::kRunning && row->node == node.id) row->gang->given_up = true;
  }
}

/// True: the attempt has ended, as all its parts are over. While agents are gathered the scheduler knows
/// nothing of it, so that this waits.
bool RunDriver::Conclude(const Moment& moment, Row* row) {
  Gang& gang = *row->gang;
  if (!gang.over() || phase_ == Phase::kGathering) return false;
  const AttemptId id = row->id;
  const NodeId lead = row->node;
  const bool given_up = gang.given_up;
  std::vector<PartRecord> ends;
  for (const size_t number : gang.heard) ends.push_back(*gang.parts[number].end);
  journal::AttemptRecord record =
      JoinParts(ends, graph_.profile(id.task), [this](NodeId node) { return NameOf(node); });
  record.node = lead;
  if (record.end_ns == 0) record.end_ns = moment.wall_ns();
  record.local_bytes = row->local_bytes;
  record.remote_bytes = row->remote_bytes;
  record.home_bytes = row->home_bytes;
  if (given_up && journal::EndedWell(record)) record.end = journal::End::kLost;  // its task runs again
  if (record.end == journal::End::kLost && record.message.empty()) record.message = gang.lost_why;
  // An agent that ends interrupts its tasks; for the scheduler they are lost.
  const bool unasked = record.end == journal::End::kInterrupted && !interrupted_;
  core::Outcome outcome = unasked ? core::Outcome(core::Lost{}) : OutcomeOf(record, 0);
  if (auto* left = std::get_if<core::Checkpointed>(&outcome)) left->took = gang.checkpoint_took;
  const Duration run_time(record.start_ns > 0 ? std::max<int64_t>(0, record.end_ns - record.start_ns) : 0);
  known_.core_seconds += CoreSeconds(record.start_ns, record.end_ns, row->cores);
  known_.losses += record.end == journal::End::kLost ? 1 : 0;
  NoteMadeBy(*row, journal::Succeeded(record));
  if (hooks_.attempt_ended) hooks_.attempt_ended(record);
  recorder_.Attempt(std::move(record));
  attempts_.Erase(id.task);
  if (!given_up)
    events_.push_back(core::TaskEnded{.attempt = id, .node = lead, .outcome = outcome, .run_time = run_time});
  StartWaiting(id.task);
  Wake();
  return true;
}

/// What the attempt made of its outputs, for the next of its task. An agent whose part has ended well tells
/// nothing of them, but has written it down.
void RunDriver::NoteMadeBy(const Row& row, bool succeeded) {
  const TaskId task = row.id.task;
  if (succeeded || std::any_of(row.gang->parts.begin(), row.gang->parts.end(), [](const Part& part) {
        return part.end && part.end->end == journal::End::kCheckpointed;
      })) {
    made_.erase(task.value);
  } else if (row.gang->made) {
    made_[task.value] = *row.gang->made;
  } else if (const Node* lead = nodes_.Find(row.node);
             lead != nullptr && hooks_.made_of && !graph_.outputs(task).empty()) {
    made::Attempts written = hooks_.made_of(lead->output_file);
    const auto own = written.find(task.value);
    if (own != written.end() && own->second.attempt == row.id.number)
      made::Note(std::move(own->second), &made_);
  }
}

// --- servers that follow one another

/// What the journal has of attempts that it has no record of. Those of which all parts are over have ended,
/// and those of an earlier session with it; both are recorded now.
std::vector<journal::AttemptRecord> RunDriver::RestoreParts(const journal::History& history) {
  std::vector<journal::AttemptRecord> ended;
  for (const PartRecord& record : history.parts) {
    if (record.task.value >= graph_.task_count() || !recorder_.IsNew(record.task, record.attempt) ||
        record.part >= record.nodes)
      continue;
    std::vector<PartRecord>& parts = known_parts_[{record.task, record.attempt}];
    const bool again = std::any_of(parts.begin(), parts.end(),
                                   [&](const PartRecord& known) { return known.part == record.part; });
    if (!again) parts.push_back(record);
  }
  for (auto known = known_parts_.begin(); known != known_parts_.end();) {
    const auto& [id, parts] = *known;
    if (parts.size() < parts.front().nodes && options_.restarted) {
      ++known;
      continue;
    }
    ended.push_back(RecordParts(parts));
    known = known_parts_.erase(known);
  }
  return ended;
}

/// Nobody tells of the parts that are not among them.
journal::AttemptRecord RunDriver::RecordParts(std::vector<PartRecord> parts) {
  const PartRecord first = parts.front();
  const graph::Profile& profile = graph_.profile(first.task);
  int64_t end_ns = 0;
  for (const PartRecord& part : parts) end_ns = std::max(end_ns, part.end_ns);
  for (uint32_t number = 0; number < first.nodes; ++number) {
    if (std::any_of(parts.begin(), parts.end(), [&](const PartRecord& part) { return part.part == number; }))
      continue;
    PartRecord lost;
    lost.task = first.task;
    lost.attempt = first.attempt;
    lost.part = number;
    lost.nodes = first.nodes;
    lost.ranks = ProcessesOn(profile, first.nodes, number);
    lost.end = journal::End::kLost;
    lost.end_ns = end_ns;
    lost.message = "nothing was heard of its end";
    recorder_.Part(lost);
    parts.push_back(std::move(lost));
  }
  const journal::AttemptRecord record =
      JoinParts(parts, profile, [this](NodeId node) { return NameOf(node); });
  recorder_.Attempt(record);
  return record;
}

/// All that is told of while agents are gathered has been.
void RunDriver::GatherParts(const Moment& moment) {
  constexpr const char* why = "it has not come back";
  for (auto& [id, parts] : std::exchange(known_parts_, {})) {
    if (!recorder_.IsNew(id.task, id.number)) continue;
    (void)RecordParts(std::move(parts));
    if (attempts_.Find(id.task) == nullptr) UseNumbers(id);
  }
  for (const TaskId task : attempts_.Gangs()) {
    Row* const row = attempts_.Find(task);
    Gang& gang = *row->gang;
    const AttemptId id = row->id;
    const size_t parts = gang.parts.size();
    if (nodes_.Find(row->node)->joined) {
      core::GangRestored restored{.attempt = id, .members = {}};
      for (const Part& part : gang.parts) restored.members.push_back(part.node);
      events_.push_back(std::move(restored));
      events_.push_back(core::TaskStarted{id, row->node});
    } else {
      gang.given_up = true;
      UseNumbers(id);
    }
    bool ended = gang.over() && Conclude(moment, row);
    for (size_t i = 0; i < parts && !ended; ++i) {
      Part& part = gang.parts[i];
      if (part.state == Part::State::kUnheard) {
        ended = LosePart(moment, row, &part, why);
      } else if (part.state == Part::State::kOver && !nodes_.Find(part.node)->joined) {
        gang.lost_why = StrCat("node ", NameOf(part.node), ": ", why);
        EndParts(row, Gang::Ending::kLost);
      }
    }
  }
}

/// The run is over, and nothing of them is waited for any more.
void RunDriver::ForgetParts(const Moment& moment) {
  waiting_.clear();
  for (const TaskId task : attempts_.Gangs()) {
    Row* const row = attempts_.Find(task);
    for (Part& part : row->gang->parts) {
      if (part.state != Part::State::kOver && LosePart(moment, row, &part, "the run ended")) break;
    }
  }
}

}  // namespace harrow::server
