// Servers with queues that run, report, give and take, and supervisors that follow one another: messages come
// late, twice, out of order, or never. After each event the supervisor's invariants are checked, and that no
// task is at two servers or at none. When messages come again, what is believed is what is so, and all tasks
// are run.
//
// HARROW_SEED runs one again; HARROW_EVENTS makes it longer.

#include <cstdlib>
#include <gtest/gtest.h>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "supervisor/core/supervisor.h"

namespace harrow::supervisor {
namespace {

using std::chrono::milliseconds;

class Chaos {
 public:
  explicit Chaos(uint32_t seed) : random_(seed) {
    options_.trigger = static_cast<Trigger>(Below(3));
    options_.amount = static_cast<Amount>(Below(2));
    options_.worth_only = Below(2) == 0;
    supervisor_.emplace(options_, epoch_);
    for (uint32_t n = 0; n < 2 + Below(5); ++n) Join();
    servers_[0].ready = total_ = 200 + Below(2000);
  }

  void Run(int events) {
    for (int i = 0; i < events && !::testing::Test::HasFailure(); ++i) {
      Step();
      now_ += milliseconds(Below(20));
    }
    Settle();
  }
  uint64_t moved() const { return moved_; }
  uint64_t returned() const { return returned_; }
  uint64_t superseded() const { return superseded_; }

 private:
  struct Given {
    MoveId id;
    PartId from, to;
    uint64_t count;
    bool recorded = false;   // by the taker
    bool confirmed = false;  // the giver knows
    bool told = false;       // in a report
    bool running = false;    // a task that ran
  };
  struct Server {
    uint64_t ready = 0, done = 0;
    uint32_t workers = 1;
    double speed = 1;
    bool ended = false, draining = false;
    uint64_t number = 0;
    Obedience obedience;
    std::vector<std::pair<Time, MoveId>> taken;
  };

  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  void Join() {
    Server server;
    server.workers = 1 + Below(8);
    server.speed = 0.5 + 0.25 * Below(5);
    servers_.push_back(server);
  }
  /// The supervisor is told, or the message lies about for some time, or is lost.
  void Send(const Report& report) {
    if (Below(10) == 0 && !settling_) return;
    if (Below(4) == 0 && !settling_) {
      late_.push_back(report);
      return;
    }
    Tell(report);
    if (Below(10) == 0) Tell(report);
  }
  void Tell(const Report& report) {
    std::vector<Action> actions;
    supervisor_->Handle(now_, Reported{report}, &actions);
    supervisor_->SanityCheck();
    EXPECT_TRUE(actions.empty() || !supervisor_->superseded());
    for (const Action& action : actions) {
      const auto* move = std::get_if<MoveRequest>(&action);
      if (move == nullptr) continue;
      EXPECT_NE(move->from, move->to);
      EXPECT_GT(move->count, 0u);
      EXPECT_EQ(move->id.epoch, supervisor_->epoch());
      EXPECT_FALSE(servers_[move->to.value].ended && known_ended_.contains(move->to));
      requests_.push_back(*move);
    }
  }
  Report ReportOf(uint32_t n) {
    Server& server = servers_[n];
    std::erase_if(server.taken, [&](const auto& t) { return now_ - t.first > std::chrono::seconds(8); });
    Report report = {.part = PartId(n), .server_epoch = 1, .number = ++server.number};
    report.obeys = server.obedience.epoch();
    report.handled = server.obedience.handled();
    report.draining = server.draining;
    report.delay = milliseconds(Below(3) * 10);
    report.queues.push_back({.ready = server.ready,
                             .workers = server.workers,
                             .capacity = server.workers * server.speed,
                             .mean = milliseconds(server.done > 0 ? 20 : 0)});
    for (uint32_t left = settling_ ? 0 : Below(3) * 400; left > 0 && report.queues[0].leavers.size() < 5; left /= 2)
      report.queues[0].leavers.push_back({std::chrono::seconds(left), milliseconds(Below(3000))});
    for (Given& given : given_) {
      if (given.from != PartId(n) || (given.confirmed && given.told)) continue;
      report.offers.push_back({given.id, given.to, {}, given.count, false, given.running});
      given.told = true;
    }
    for (const auto& [when, id] : server.taken) report.taken.push_back(id);
    return report;
  }
  void Carry(const MoveRequest& move) {
    Server& giver = servers_[move.from.value];
    if (giver.ended || !giver.obedience.Take(move.id)) return;
    if (move.running) {
      EXPECT_EQ(move.count, 1u);
      if (Below(2) == 0) return;  // it has ended, or left no checkpoint
      ++total_;                   // of those that run none are counted before
      given_.push_back({.id = move.id, .from = move.from, .to = move.to, .count = 1, .running = true});
      return;
    }
    const uint64_t has = giver.ready > move.keep ? giver.ready - move.keep : 0;
    const uint64_t count = std::min(has, move.count);
    if (count == 0) return;
    giver.ready -= count;
    given_.push_back({move.id, move.from, move.to, count});
  }
  void Record(Given* given) {
    Server& taker = servers_[given->to.value];
    if (given->recorded) {
      given->confirmed = true;
    } else if (taker.ended) {
      servers_[given->from.value].ready += given->count;  // nobody takes them: they are the giver's
      given->recorded = given->confirmed = given->told = true;
      ++returned_;
    } else {
      taker.ready += given->count;
      taker.taken.emplace_back(now_, given->id);
      given->recorded = true;
      moved_ += given->count;
    }
  }
  void End(uint32_t n) {
    if (n == 0 || servers_[n].ended) return;
    for (const Given& given : given_) {
      if (given.from == PartId(n) && !given.confirmed) return;
    }
    servers_[n].ended = true;
    for (Given& given : given_) given.told |= given.from == PartId(n);  // nobody tells of them any more
    servers_[0].ready += std::exchange(servers_[n].ready, 0);
    std::vector<Action> actions;
    supervisor_->Handle(now_, PartEnded{PartId(n), 1}, &actions);
    known_ended_.insert(PartId(n));
    supervisor_->SanityCheck();
  }
  void Replace() {
    ++superseded_;
    supervisor_.emplace(options_, ++epoch_);
    for (Server& server : servers_) {
      if (Below(2) == 0) server.obedience.Hear(epoch_);
    }
    for (PartId part : known_ended_) {
      std::vector<Action> actions;
      supervisor_->Handle(now_, PartEnded{part, 1}, &actions);
    }
  }
  template <class T>
  std::optional<T> TakeSome(std::vector<T>* from) {
    if (from->empty()) return std::nullopt;
    const size_t which = Below(static_cast<uint32_t>(from->size()));
    T taken = (*from)[which];
    from->erase(from->begin() + static_cast<std::ptrdiff_t>(which));
    return taken;
  }
  void Step() {
    const uint32_t n = Below(static_cast<uint32_t>(servers_.size()));
    Server& server = servers_[n];
    switch (Below(100)) {
      case 0:
        if (servers_.size() < 10) Join();
        break;
      case 1:
        if (Below(20) == 0) End(n);
        break;
      case 2:
        if (Below(4) == 0) Replace();
        break;
      case 3:
        server.draining = n > 0 && Below(3) == 0;
        break;
      case 4:
        total_ += 10;
        server.ended ? servers_[0].ready += 10 : server.ready += 10;
        break;
      default:
        switch (Below(5)) {
          case 0:
          case 1:
            if (!server.ended) Send(ReportOf(n));
            break;
          case 2:
            if (const auto move = TakeSome(&requests_)) {
              if (Below(10) != 0) Carry(*move);
              if (Below(10) == 0) requests_.push_back(*move);  // comes again
            }
            break;
          case 3:
            if (!given_.empty()) Record(&given_[Below(static_cast<uint32_t>(given_.size()))]);
            if (Below(3) == 0) {
              if (const auto report = TakeSome(&late_)) Tell(*report);
            }
            break;
          default: {
            const uint64_t ran = std::min<uint64_t>(server.ready, Below(2));
            server.ready -= ran;
            server.done += ran;
          }
        }
    }
    Check();
  }
  void Check() {
    uint64_t sum = 0;
    for (const Server& server : servers_) sum += server.ready + server.done;
    for (const Given& given : given_) sum += given.recorded ? 0 : given.count;
    EXPECT_EQ(sum, total_);
    std::erase_if(given_, [](const Given& given) { return given.confirmed && given.told; });
  }
  /// Every message comes from now on.
  void Settle() {
    settling_ = true;
    for (Server& server : servers_) server.draining = false;
    for (int round = 0; round < 40; ++round) {
      now_ += milliseconds(500);
      for (uint32_t n = 0; n < servers_.size(); ++n) {
        if (!servers_[n].ended) {
          servers_[n].obedience.Hear(supervisor_->epoch());
          Tell(ReportOf(n));
        }
      }
      if (round == 38) requests_.clear();
      while (!requests_.empty()) {
        Carry(requests_.front());
        requests_.erase(requests_.begin());
      }
      for (int twice = 0; twice < 2; ++twice) {
        for (Given& given : given_) Record(&given);
      }
      Check();
    }
    // Nothing is under way: what is expected is nothing, but for what was asked in the last rounds.
    EXPECT_TRUE(given_.empty());
    std::vector<Side> sides;
    std::vector<uint64_t> ready;
    for (const Server& server : servers_) {
      if (server.ended) continue;
      sides.push_back({server.ready, server.workers * server.speed, server.workers});
    }
    if (options_.trigger != Trigger::kAlways || options_.worth_only || ::testing::Test::HasFailure()) return;
    for (const int64_t amount : Amounts(sides, options_.amount)) EXPECT_LE(std::abs(amount), 1);
  }

  std::mt19937 random_;
  Options options_;
  uint32_t epoch_ = 1;
  std::optional<Supervisor> supervisor_;
  std::vector<Server> servers_;
  std::vector<Report> late_;
  std::vector<MoveRequest> requests_;
  std::vector<Given> given_;
  std::set<PartId> known_ended_;
  Time now_{};
  uint64_t total_ = 0, moved_ = 0, returned_ = 0, superseded_ = 0;
  bool settling_ = false;
};

TEST(SupervisorTest, RandomEvents) {
  const char* only = std::getenv("HARROW_SEED");
  const char* events = std::getenv("HARROW_EVENTS");
  const int count = events != nullptr ? std::atoi(events) : 10000;
  uint64_t moved = 0, returned = 0, superseded = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    if (only != nullptr && std::atoi(only) != static_cast<int>(seed)) continue;
    SCOPED_TRACE("HARROW_SEED=" + std::to_string(seed));
    Chaos chaos(seed);
    chaos.Run(count);
    moved += chaos.moved();
    returned += chaos.returned();
    superseded += chaos.superseded();
    if (HasFailure()) return;
  }
  if (only != nullptr) return;
  EXPECT_GT(moved, 1000u);
  EXPECT_GT(returned, 0u);
  EXPECT_GT(superseded, 10u);
}

}  // namespace
}  // namespace harrow::supervisor
