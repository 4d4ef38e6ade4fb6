// A run over several allocations. Each has its nodes and its scheduler (site.h), and does what a server does:
// it reports each period, carries out what the supervisor asks for, and takes what others offer. The
// supervisor is the very same that real servers are to have; here it stands in the middle, and a message
// between an allocation and it takes that allocation's delay, one between two allocations both delays.
//
// A move has two phases. The giver takes tasks out of its scheduler and offers them: nobody starts them. The
// taker puts them into its own scheduler and confirms; from then on they are its. Where the taker is gone the
// giver takes them back. So at every moment one scheduler has a task, or one offer, and that is checked after
// each instant. With an offer goes what its giver knows of the tasks that they need.
//
// How a task ended that others wait for is told to all other allocations, and to those that begin later when
// they do. An allocation that ends loses what runs, and gives all that it has to the largest that is there;
// where none is, to the next that begins.
//
// Supervisor and servers go on reporting for ever. Once nothing else is to happen (nothing runs, nobody is to
// begin or end) it is over when no move can be under way any more.
//
// With submit_children a task is not there before the one that it waits for has ended: it is submitted to the
// server where that ran.

#include "sim/across.h"

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>
#include <variant>

#include "base/text.h"
#include "sim/site.h"
#include "sim/transfers.h"
#include "supervisor/core/supervisor.h"

namespace harrow::sim {
namespace {

using supervisor::MoveId;
using supervisor::PartId;

constexpr double kNever = Transfers::kNever;

[[noreturn]] void Raise(const std::string& text) {
  throw std::logic_error("simulation: " + text);
}

core::TaskRestored::As AsOf(core::FinalState state) {
  using As = core::TaskRestored::As;
  switch (state) {
    case core::FinalState::kDone:
      return As::kDone;
    case core::FinalState::kFailed:
      return As::kFailed;
    case core::FinalState::kSkipped:
      return As::kSkipped;
    case core::FinalState::kPruned:
      return As::kPruned;
    case core::FinalState::kCancelled:
      break;
  }
  return As::kCancelled;
}

class Across {
 public:
  Across(const graph::Graph& graph, const std::vector<Work>& work, const Options& options)
      : graph_(graph),
        options_(options),
        supervisor_(options.moves, 1),
        owner_(graph.task_count(), kUnborn),
        fate_(graph.task_count()) {
    double longest_delay = 0;
    for (uint32_t i = 0; i < options.cluster.allocations.size(); ++i) {
      auto server = std::make_unique<Server>();
      server->model = options.cluster.allocations[i];
      server->options = options;
      server->options.cluster = options.cluster.OfAllocation(i);
      server->options.seed = options.seed + i;
      server->options.core.seed = options.core.seed + i;
      server->options.core.shared_files = true;
      server->slots = server->options.cluster.slot_count();
      server->power = server->options.cluster.power();
      server->site = MakeSite(graph, work, server->options);
      server->next_report = server->model.begin;
      longest_delay = std::max(longest_delay, server->model.delay);
      servers_.push_back(std::move(server));
    }
    due_.resize(servers_.size());
    for (uint32_t i = 0; i < servers_.size(); ++i) FindDue(i);
    patience_ = 8 * longest_delay + 20 * options.report_period +
                Seconds(options.moves.silence + options.moves.forget);
  }

  Outcome Run() {
    while (settled_count_ < graph_.task_count()) {
      const double next = Next();
      if (next == kNever || (now_ - progress_ > patience_ && !MoreToCome())) break;
      now_ = next;
      for (uint32_t i = 0; i < servers_.size(); ++i) {
        if (due_[i] <= now_ && servers_[i]->state == State::kAwaited) Begin(i);
      }
      for (uint32_t i = 0; i < servers_.size(); ++i) {
        Server& server = *servers_[i];
        if (due_[i] <= now_ && server.state == State::kThere && server.site->Next() <= now_) {
          server.site->Advance(now_);
          progress_ = now_;
          TakeSettled(i);
        }
      }
      Deliver();
      for (uint32_t i = 0; i < servers_.size(); ++i) {
        Server& server = *servers_[i];
        if (due_[i] <= now_ && server.state == State::kThere && server.model.end > 0 &&
            server.model.end <= now_)
          End(i);
      }
      for (uint32_t i = 0; i < servers_.size(); ++i) {
        if (due_[i] <= now_ && servers_[i]->state == State::kThere && servers_[i]->next_report <= now_)
          Report(i);
      }
      Deliver();
      Check();
    }
    return Finish();
  }

 private:
  enum class State : uint8_t { kAwaited, kThere, kOver };
  // Of a task that no scheduler has: it is offered to one, not there yet, or settled.
  static constexpr uint32_t kOffered = UINT32_MAX, kUnborn = UINT32_MAX - 1, kSettled = UINT32_MAX - 2;
  static constexpr uint32_t kSupervisor = UINT32_MAX;

  struct Offered {
    uint32_t to = 0;
    Shape shape;
    std::vector<TaskId> tasks;
    bool confirmed = false, told = false, shared = false;
  };
  struct Server {
    formats::ClusterModel::Allocation model;
    Options options;
    std::unique_ptr<Site> site;
    State state = State::kAwaited;
    uint64_t slots = 0;
    double power = 0;
    double next_report = 0;
    uint64_t number = 0;
    supervisor::Obedience obedience;
    std::map<MoveId, Offered> offers;
    std::vector<std::pair<double, MoveId>> taken;
    uint64_t done = 0, moved_in = 0, moved_out = 0, messages = 0;
  };
  struct Offer {
    MoveId id;
    uint32_t from = 0;
    std::vector<TaskId> tasks;
    std::vector<core::Event> known;  // of them, and of those they need
  };
  struct Answer {
    MoveId id;
    bool taken = false;
  };
  struct Ends {
    std::vector<core::Event> events;
  };
  using Body = std::variant<supervisor::Event, supervisor::MoveRequest, Offer, Answer, Ends>;
  struct Message {
    uint32_t to;
    Body body;
  };

  double Next() const {
    double next = messages_.empty() ? kNever : messages_.begin()->first.first;
    for (const double due : due_) next = std::min(next, due);
    return next;
  }
  /// To be called where anything of the server has changed that its next happening hangs on.
  void FindDue(uint32_t i) {
    const Server& server = *servers_[i];
    switch (server.state) {
      case State::kAwaited: due_[i] = server.model.begin; break;
      case State::kThere:
        due_[i] = std::min({server.site->Next(), server.next_report,
                            server.model.end > 0 ? server.model.end : kNever});
        break;
      case State::kOver: due_[i] = kNever; break;
    }
  }
  /// Beside reports, and what comes of them.
  bool MoreToCome() const {
    return std::any_of(servers_.begin(), servers_.end(), [](const auto& server) {
      return server->state == State::kAwaited ||
             (server->state == State::kThere && (server->model.end > 0 || server->site->Next() < kNever));
    });
  }
  double DelayOf(uint32_t who) const { return who == kSupervisor ? 0 : servers_[who]->model.delay; }
  void Send(uint32_t from, uint32_t to, Body body) {
    for (const uint32_t who : {from, to}) {
      if (who != kSupervisor) ++servers_[who]->messages;
    }
    ++sent_;
    const double arrives = now_ + DelayOf(from) + DelayOf(to);
    messages_.emplace(std::pair(arrives, sent_), Message{to, std::move(body)});
  }
  void Deliver() {
    while (!messages_.empty() && messages_.begin()->first.first <= now_) {
      const auto first = messages_.extract(messages_.begin());
      const uint32_t to = first.mapped().to;
      std::visit([&](auto& body) { Take(to, body); }, first.mapped().body);
    }
  }

  void Begin(uint32_t i) {
    Server& server = *servers_[i];
    server.state = State::kThere;
    server.site->Open(now_, true);
    std::vector<core::Event> events = ended_;
    std::vector<TaskId> here;
    if (!submitted_) {
      submitted_ = true;
      for (uint32_t n = 0; n < graph_.task_count(); ++n) {
        if (!options_.submit_children || graph_.predecessors(TaskId(n)).empty()) here.emplace_back(n);
      }
    }
    here.insert(here.end(), parked_.begin(), parked_.end());
    events.insert(events.end(), parked_known_.begin(), parked_known_.end());
    parked_.clear();
    parked_known_.clear();
    GiveTo(i, std::move(events), here);
    FindDue(i);
  }
  /// The tasks are those of the server from now on.
  void GiveTo(uint32_t i, std::vector<core::Event> events, const std::vector<TaskId>& tasks) {
    for (const TaskId id : tasks) owner_[id.value] = i;
    if (!tasks.empty()) events.push_back(core::TasksGiven{tasks});
    if (events.empty()) return;
    progress_ = now_;
    servers_[i]->site->Tell(now_, events);
    TakeSettled(i);
  }

  /// What was decided at the server, once for an instant; after each call to its site.
  void TakeSettled(uint32_t i) {
    for (bool again = true; again;) {
      again = false;
      std::vector<core::Event> told;
      std::vector<TaskId> born;
      for (const core::TaskSettled& settled : servers_[i]->site->TakeSettled()) {
        const TaskId id = settled.task;
        if (owner_[id.value] == kSettled) Raise(StrCat("task ", id.value, " is settled twice"));
        if (owner_[id.value] != i) Raise(StrCat("task ", id.value, " is settled where it is not"));
        Settle(id, settled.state);
        servers_[i]->done += settled.state == core::FinalState::kDone ? 1 : 0;
        if (graph_.successors(id).empty()) continue;
        if (!options_.submit_children) {
          told.push_back(core::TaskRestored{id, AsOf(settled.state)});
        } else if (settled.state == core::FinalState::kDone) {
          for (const TaskId after : graph_.successors(id)) born.push_back(after);
        } else {
          LeaveOut(id);
        }
      }
      if (!told.empty()) {
        ended_.insert(ended_.end(), told.begin(), told.end());
        for (uint32_t other = 0; other < servers_.size(); ++other) {
          if (other != i && servers_[other]->state == State::kThere) Send(i, other, Ends{told});
        }
      }
      if (born.empty()) continue;
      for (const TaskId id : born) owner_[id.value] = i;
      servers_[i]->site->Tell(now_, {core::TasksGiven{born}});
      again = true;
    }
    FindDue(i);
  }
  void Settle(TaskId id, core::FinalState state) {
    owner_[id.value] = kSettled;
    fate_[id.value] = state;
    ++settled_count_;
    ++finals_[static_cast<size_t>(state)];
    progress_ = now_;
  }
  /// What it would have submitted never comes.
  void LeaveOut(TaskId id) {
    std::vector<TaskId> stack = {id};
    while (!stack.empty()) {
      const TaskId each = stack.back();
      stack.pop_back();
      for (const TaskId after : graph_.successors(each)) {
        Settle(after, core::FinalState::kSkipped);
        stack.push_back(after);
      }
    }
  }

  void Report(uint32_t i) {
    Server& server = *servers_[i];
    server.next_report += options_.report_period;
    FindDue(i);
    supervisor::Report report = {.part = PartId(i), .server_epoch = 1, .number = ++server.number};
    report.obeys = server.obedience.epoch();
    report.handled = server.obedience.handled();
    report.delay = FromSeconds(server.model.delay);
    if (server.model.end > 0) report.ends_in = FromSeconds(server.model.end - now_);
    for (const core::ShapeQueue& queue : server.site->scheduler().QueuesByShape()) {
      const Site::RunTimes times = server.site->TimesOf(queue.shape);
      const double share = server.power / static_cast<double>(server.slots);
      report.queues.push_back(
          {.shape = queue.shape,
           .ready = queue.ready,
           .in_flight = queue.in_flight,
           .workers = queue.workers,
           .capacity = queue.workers * share,
           .mean = FromSeconds(times.count > 0 ? times.seconds / static_cast<double>(times.count) : 0)});
    }
    report.waiting = server.site->scheduler().counts().waiting;
    if (const auto works = server.site->scheduler().WorkByKind()) {
      report.works.emplace();
      for (uint32_t kind = 0; kind < works->size(); ++kind)
        report.works->push_back({kind, (*works)[kind].waiting, (*works)[kind].ended, (*works)[kind].seconds});
    }
    report.power = server.power;
    for (auto& [id, offered] : server.offers) {
      if (id.epoch == 0) continue;
      report.offers.push_back({.id = id,
                               .to = PartId(offered.to),
                               .shape = offered.shape,
                               .count = offered.tasks.size(),
                               .shared = offered.shared});
      offered.told = true;
    }
    std::erase_if(server.offers, [](const auto& each) { return each.second.confirmed; });
    constexpr double kRemembered = 5;
    const double since = now_ - std::max(kRemembered, 3 * options_.report_period);
    std::erase_if(server.taken, [&](const auto& each) { return each.first < since; });
    for (const auto& [when, id] : server.taken) report.taken.push_back(id);
    Send(i, kSupervisor, supervisor::Event(supervisor::Reported{std::move(report)}));
  }
  void Take(uint32_t, const supervisor::Event& event) {
    std::vector<supervisor::Action> actions;
    supervisor_.Handle(Time(FromSeconds(now_)), event, &actions);
    for (const supervisor::Action& action : actions) {
      if (const auto* request = std::get_if<supervisor::MoveRequest>(&action))
        Send(kSupervisor, request->from.value, *request);
    }
  }
  void Take(uint32_t to, const supervisor::MoveRequest& request) {
    Server& server = *servers_[to];
    if (server.state != State::kThere || !server.obedience.Take(request.id)) return;
    const std::vector<TaskId> wanted =
        request.share > 0 ? server.site->ShareOf(request.share)
                          : server.site->scheduler().LastInOrder(request.shape, request.count, request.keep);
    if (!wanted.empty()) GiveAway(to, request.to.value, request.id, request.shape, wanted, request.share > 0);
  }
  /// The server offers the tasks to another one.
  void GiveAway(uint32_t from, uint32_t to, const MoveId& id, const Shape& shape,
                const std::vector<TaskId>& tasks, bool shared) {
    Server& server = *servers_[from];
    Offer offer = {id, from, tasks, KnownOf(from, tasks)};
    TakeOut(from, tasks);
    server.offers[id] = {to, shape, tasks, false, false, shared};
    server.moved_out += tasks.size();
    ++moves_;
    Send(from, to, std::move(offer));
  }
  void TakeOut(uint32_t from, const std::vector<TaskId>& tasks) {
    servers_[from]->site->Tell(now_, {core::TasksTaken{tasks}});
    TakeSettled(from);
    for (const TaskId id : tasks) {
      if (servers_[from]->site->scheduler().state(id) != core::TaskState::kElsewhere)
        Raise(StrCat("task ", id.value, " did not go"));
      owner_[id.value] = kOffered;
    }
    offered_ += tasks.size();
    of_others_ = std::max(of_others_, servers_[from]->site->scheduler().ModelledOfOthers());
  }
  /// What the next owner has to know of the tasks.
  std::vector<core::Event> KnownOf(uint32_t from, const std::vector<TaskId>& tasks) const {
    const core::Scheduler& scheduler = servers_[from]->site->scheduler();
    std::vector<core::Event> known;
    std::vector<TaskId> needed;
    for (const TaskId id : tasks) {
      if (scheduler.attempts(id) > 0)
        known.push_back(core::TaskRestored{id, core::TaskRestored::As::kOpen, scheduler.attempts(id),
                                           scheduler.losses(id), scheduler.attempts(id)});
      const auto before = graph_.predecessors(id);
      needed.insert(needed.end(), before.begin(), before.end());
    }
    std::sort(needed.begin(), needed.end());
    needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
    for (const TaskId id : needed) {
      if (core::IsSettled(scheduler.state(id)))
        known.push_back(core::TaskRestored{id, AsOf(fate_[id.value])});
    }
    return known;
  }
  void Take(uint32_t to, Offer& offer) {
    Server& server = *servers_[to];
    const bool taken = server.state == State::kThere;
    if (taken) {
      offered_ -= offer.tasks.size();
      server.moved_in += offer.tasks.size();
      moved_tasks_ += offer.tasks.size();
      server.taken.emplace_back(now_, offer.id);
      GiveTo(to, std::move(offer.known), offer.tasks);
      of_others_ = std::max(of_others_, server.site->scheduler().ModelledOfOthers());
    }
    Send(to, offer.from, Answer{offer.id, taken});
  }
  void Take(uint32_t to, const Answer& answer) {
    Server& server = *servers_[to];
    const auto found = server.offers.find(answer.id);
    if (found == server.offers.end()) return;
    if (answer.taken) {
      found->second.confirmed = true;
      // The supervisor hears of each offer once.
      if (found->second.told || answer.id.epoch == 0) server.offers.erase(found);
      return;
    }
    const std::vector<TaskId> tasks = std::move(found->second.tasks);
    server.offers.erase(found);
    server.moved_out -= tasks.size();
    if (server.state == State::kThere) {
      offered_ -= tasks.size();
      GiveTo(to, {}, tasks);
    } else {
      GiveToLargest(to, tasks, KnownOf(to, tasks));
    }
  }
  void Take(uint32_t to, const Ends& ends) {
    if (servers_[to]->state != State::kThere) return;
    servers_[to]->site->Tell(now_, ends.events);
    TakeSettled(to);
  }

  void End(uint32_t i) {
    Server& server = *servers_[i];
    server.site->Close(now_);
    TakeSettled(i);
    server.state = State::kOver;
    FindDue(i);
    std::vector<TaskId> left;
    for (uint32_t n = 0; n < graph_.task_count(); ++n) {
      if (owner_[n] == i) left.emplace_back(n);
    }
    Send(i, kSupervisor, supervisor::Event(supervisor::PartEnded{PartId(i), 1}));
    if (left.empty()) return;
    const std::vector<core::Event> known = KnownOf(i, left);
    TakeOut(i, left);
    GiveToLargest(i, left, known);
  }
  /// Tasks that are out of the schedulers already, of an allocation that is over.
  void GiveToLargest(uint32_t from, const std::vector<TaskId>& tasks, const std::vector<core::Event>& known) {
    uint32_t to = kSupervisor;
    for (uint32_t i = 0; i < servers_.size(); ++i) {
      if (servers_[i]->state == State::kThere &&
          (to == kSupervisor || servers_[i]->power > servers_[to]->power))
        to = i;
    }
    if (to == kSupervisor) {
      offered_ -= tasks.size();
      parked_.insert(parked_.end(), tasks.begin(), tasks.end());
      parked_known_.insert(parked_known_.end(), known.begin(), known.end());
      return;
    }
    const MoveId id{0, ++given_up_};
    servers_[from]->offers[id] = {to, {}, tasks, false, true, false};
    servers_[from]->moved_out += tasks.size();
    ++moves_;
    Send(from, to, Offer{id, from, tasks, known});
  }

  /// Each task is one scheduler's, offered, not there yet, or settled.
  void Check() const {
    if (!submitted_ || (options_.submit_children && !options_.check_owners)) return;
    uint64_t found = settled_count_ + offered_ + parked_.size();
    for (const auto& server : servers_) {
      const core::Counts& counts = server->site->scheduler().counts();
      found += counts.waiting + counts.ready + counts.sent + counts.running;
    }
    if (!options_.submit_children && found != graph_.task_count())
      Raise(StrCat("of ", graph_.task_count(), " tasks ", found, " are somewhere"));
    if (!options_.check_owners) return;
    uint64_t unborn = 0;
    for (uint32_t n = 0; n < graph_.task_count(); ++n) {
      uint32_t owners = 0;
      for (uint32_t i = 0; i < servers_.size(); ++i) {
        if (servers_[i]->state == State::kAwaited) continue;
        const core::TaskState state = servers_[i]->site->scheduler().state(TaskId(n));
        if (state == core::TaskState::kElsewhere || core::IsSettled(state)) continue;
        ++owners;
        if (owner_[n] != i) Raise(StrCat("task ", n, " is at a server that is not its owner"));
      }
      unborn += owner_[n] == kUnborn ? 1 : 0;
      if (owners != (owner_[n] < servers_.size() ? 1u : 0u))
        Raise(StrCat("task ", n, " has ", owners, " owners"));
    }
    if (found + unborn != graph_.task_count()) Raise("tasks are lost");
  }

  Outcome Finish() {
    Outcome all;
    all.kinds.resize(graph_.kind_count());
    uint32_t first_node = 0;
    std::vector<Outcome> each;
    for (const auto& server : servers_) {
      if (server->state == State::kAwaited) {
        each.emplace_back();
      } else {
        each.push_back(server->site->Finish());
      }
      all.makespan = std::max(all.makespan, each.back().makespan);
    }
    for (uint32_t i = 0; i < servers_.size(); ++i) {
      const Server& server = *servers_[i];
      Outcome& own = each[i];
      AllocationOutcome of;
      of.name = server.model.name;
      of.nodes = server.model.nodes;
      of.slots = server.slots;
      of.end = server.model.end > 0 ? std::min(server.model.end, all.makespan) : all.makespan;
      of.begin = std::min(server.model.begin, of.end);
      of.began = server.state != State::kAwaited;
      of.done = server.done;
      of.moved_in = server.moved_in;
      of.moved_out = server.moved_out;
      of.messages = server.messages;
      of.busy_seconds = own.core_seconds;
      all.allocations.push_back(of);
      for (Attempt attempt : own.attempts) {
        attempt.node = NodeId(attempt.node.value + first_node);
        all.attempts.push_back(attempt);
      }
      first_node += server.model.nodes;
      all.core_seconds += own.core_seconds;
      all.lost_seconds += own.lost_seconds;
      all.counts.attempts += own.counts.attempts;
      all.counts.losses += own.counts.losses;
      all.counts.stolen += own.counts.stolen;
      all.counts.local_bytes += own.counts.local_bytes;
      all.counts.remote_bytes += own.counts.remote_bytes;
      all.counts.home_bytes += own.counts.home_bytes;
      all.bytes_moved += own.bytes_moved;
      all.stream_bytes += own.stream_bytes;
      if (all.kinds.size() < own.kinds.size()) all.kinds.resize(own.kinds.size());
      for (size_t k = 0; k < own.kinds.size(); ++k) {
        all.kinds[k].tasks += own.kinds[k].tasks;
        all.kinds[k].task_seconds += own.kinds[k].task_seconds;
        all.kinds[k].local_bytes += own.kinds[k].local_bytes;
        all.kinds[k].remote_bytes += own.kinds[k].remote_bytes;
        all.kinds[k].home_bytes += own.kinds[k].home_bytes;
      }
    }
    std::stable_sort(all.attempts.begin(), all.attempts.end(),
                     [](const Attempt& a, const Attempt& b) { return a.begin < b.begin; });
    all.counts.total = graph_.task_count();
    all.counts.done = finals_[static_cast<size_t>(core::FinalState::kDone)];
    all.counts.failed = finals_[static_cast<size_t>(core::FinalState::kFailed)];
    all.counts.skipped = finals_[static_cast<size_t>(core::FinalState::kSkipped)];
    all.counts.cancelled = finals_[static_cast<size_t>(core::FinalState::kCancelled)];
    all.counts.pruned = finals_[static_cast<size_t>(core::FinalState::kPruned)];
    all.moves = moves_;
    all.moved_tasks = moved_tasks_;
    all.messages = sent_;
    all.modelled_of_others = of_others_;
    all.complete = settled_count_ == graph_.task_count();
    return all;
  }

  const graph::Graph& graph_;
  const Options& options_;
  supervisor::Supervisor supervisor_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<double> due_;  // of each server, when something happens next
  std::map<std::pair<double, uint64_t>, Message> messages_;
  std::vector<uint32_t> owner_;
  std::vector<core::FinalState> fate_;
  std::vector<core::Event> ended_;  // TaskRestored of all that others wait for
  // Of allocations that have ended while no other was there, and what is known of them.
  std::vector<TaskId> parked_;
  std::vector<core::Event> parked_known_;
  bool submitted_ = false;
  uint64_t settled_count_ = 0, offered_ = 0, finals_[5] = {};
  uint64_t sent_ = 0, moves_ = 0, moved_tasks_ = 0, given_up_ = 0, of_others_ = 0;
  double now_ = 0;
  // A report, the request, the offer and its answer take that at most, and so does a move that was forgotten.
  double patience_ = 0;
  double progress_ = 0;  // when anything happened last but reports, and moves
};

}  // namespace

Outcome SimulateAcross(const graph::Graph& graph, const std::vector<Work>& work, const Options& options) {
  return Across(graph, work, options).Run();
}

}  // namespace harrow::sim
