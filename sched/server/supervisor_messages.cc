#include "server/supervisor_messages.h"

#include <algorithm>

namespace harrow::server {

void Set(const supervisor::MoveId& id, pb::MoveNumber* out) {
  out->set_epoch(id.epoch);
  out->set_number(id.number);
}
supervisor::MoveId IdOf(const pb::MoveNumber& message) {
  return {message.epoch(), message.number()};
}
void Set(const Shape& shape, pb::QueueShape* out) {
  out->set_cores(shape.cores);
  out->set_gpus(shape.devices);
  out->set_memory(shape.memory);
  out->set_nodes(shape.nodes);
  out->set_whole_node(shape.whole_node);
}
Shape ShapeOf(const pb::QueueShape& message) {
  return {.cores = message.cores(),
          .devices = message.gpus(),
          .nodes = message.nodes(),
          .whole_node = message.whole_node(),
          .memory = message.memory()};
}

pb::MoveAsked ToProto(const supervisor::MoveRequest& request) {
  pb::MoveAsked message;
  Set(request.id, message.mutable_id());
  message.set_to(request.to.value);
  Set(request.shape, message.mutable_shape());
  message.set_count(request.count);
  message.set_keep(request.keep);
  message.set_waiting(request.waiting);
  message.set_running(request.running);
  message.set_least_left_ns(request.least_left.count());
  message.set_share(request.share);
  if (request.saving) {
    pb::Saving* const saving = message.mutable_saving();
    saving->set_last_ns(request.saving->last.count());
    saving->set_each_ns(request.saving->each.count());
    saving->set_late(request.saving->late);
  }
  return message;
}

std::optional<supervisor::Saving> SavingOf(const pb::MoveAsked& message) {
  if (!message.has_saving()) return {};
  const pb::Saving& saving = message.saving();
  constexpr int64_t kMost = 1'000'000'000'000'000'000;  // 30 years
  return supervisor::Saving{.last = Duration(std::clamp(saving.last_ns(), -kMost, kMost)),
                            .each = Duration(std::clamp<int64_t>(saving.each_ns(), 0, kMost)),
                            .late = saving.late()};
}

pb::ServerReport ToProto(const supervisor::Report& report) {
  pb::ServerReport message;
  message.set_number(report.number);
  message.set_obeys(report.obeys);
  message.set_handled(report.handled);
  for (const supervisor::QueueState& queue : report.queues) {
    pb::QueueReport* out = message.add_queue();
    Set(queue.shape, out->mutable_shape());
    out->set_ready(queue.ready);
    out->set_in_flight(queue.in_flight);
    out->set_workers(queue.workers);
    out->set_capacity(queue.capacity);
    out->set_mean_ns(queue.mean.count());
    out->set_dear_ns(queue.dear.count());
    out->set_mean_at_least_ns(queue.mean_at_least.count());
    for (const supervisor::Leaver& leaver : queue.leavers) {
      pb::Leaver* const told = out->add_leaver();
      told->set_left_ns(leaver.left.count());
      told->set_stands_ns(leaver.stands.count());
    }
  }
  for (const supervisor::Pace& pace : report.paces) {
    pb::KindPace* out = message.add_pace();
    out->set_kind(pace.kind);
    out->set_count(pace.count);
    out->set_seconds(pace.seconds);
  }
  message.set_waiting(report.waiting);
  message.set_draining(report.draining);
  message.set_has_work(report.works.has_value());
  if (report.works) {
    for (const supervisor::KindWork& work : *report.works) {
      pb::KindWork* const told = message.add_work();
      told->set_kind(work.kind);
      told->set_waiting(work.waiting);
      told->set_ended(work.ended);
      told->set_seconds(work.seconds);
    }
  }
  message.set_power(report.power);
  if (report.ends_in) message.set_ends_in_ns(std::max<int64_t>(report.ends_in->count(), 0) + 1);
  for (const supervisor::Offer& offer : report.offers) {
    pb::OfferUnderWay* out = message.add_offer();
    Set(offer.id, out->mutable_id());
    out->set_to(offer.to.value);
    Set(offer.shape, out->mutable_shape());
    out->set_count(offer.count);
    out->set_waiting(offer.waiting);
    out->set_running(offer.running);
    out->set_shared(offer.shared);
  }
  for (const supervisor::MoveId& id : report.taken) Set(id, message.add_taken());
  return message;
}

supervisor::Report FromProto(const pb::ServerReport& message) {
  supervisor::Report report;
  report.number = message.number();
  report.obeys = message.obeys();
  report.handled = message.handled();
  // What is no number, or none that can be, is not known.
  const auto can_be = [](double number) { return number >= 0 && number < 1e18; };
  for (const pb::QueueReport& queue : message.queue()) {
    report.queues.push_back({.shape = ShapeOf(queue.shape()),
                             .ready = queue.ready(),
                             .in_flight = queue.in_flight(),
                             .workers = queue.workers(),
                             .capacity = can_be(queue.capacity()) ? queue.capacity() : 0,
                             .mean = Duration(queue.mean_ns()),
                             .mean_at_least = Duration(queue.mean_at_least_ns()),
                             .dear = Duration(queue.dear_ns())});
    for (const pb::Leaver& leaver : queue.leaver())
      report.queues.back().leavers.push_back({Duration(leaver.left_ns()), Duration(leaver.stands_ns())});
  }
  for (const pb::KindPace& pace : message.pace()) {
    // What is no number, or none that can be, is no pace.
    if (pace.count() >= 0 && pace.count() < 1e15 && pace.seconds() >= 0 && pace.seconds() < 1e15)
      report.paces.push_back({.kind = pace.kind(), .count = pace.count(), .seconds = pace.seconds()});
  }
  report.waiting = message.waiting();
  report.draining = message.draining();
  if (message.has_work() && can_be(message.power())) {
    report.works.emplace();
    report.power = message.power();
    for (const pb::KindWork& work : message.work()) {
      if (can_be(work.waiting()) && can_be(work.ended()) && can_be(work.seconds()))
        report.works->push_back({work.kind(), work.waiting(), work.ended(), work.seconds()});
    }
  }
  if (message.ends_in_ns() > 0) report.ends_in = Duration(message.ends_in_ns() - 1);
  for (const pb::OfferUnderWay& offer : message.offer())
    report.offers.push_back(
        {IdOf(offer.id()), supervisor::PartId(offer.to()), ShapeOf(offer.shape()), offer.count(), offer.waiting(), offer.running(), offer.shared()});
  for (const pb::MoveNumber& id : message.taken()) report.taken.push_back(IdOf(id));
  return report;
}

}  // namespace harrow::server
