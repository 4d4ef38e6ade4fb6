// What servers and their supervisor say to each other arrives as it was said, whatever it is; and what cannot be is not believed.
#include "server/supervisor_messages.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace harrow::server {
namespace {

using supervisor::PartId;
using supervisor::Report;

const Shape kShape = {.cores = 2, .devices = 3, .nodes = 4, .whole_node = true, .memory = 5};

Report Full() {
  Report report;
  report.number = 11;
  report.obeys = 12;
  report.handled = 13;
  for (const uint32_t n : {1u, 2u}) {
    supervisor::QueueState queue;
    queue.shape = kShape;
    queue.shape.cores = n;
    queue.ready = 20 + n;
    queue.in_flight = 30 + n;
    queue.workers = 40 + n;
    queue.capacity = 50.5 + n;
    queue.mean = Duration(60 + n);
    queue.mean_at_least = Duration(70 + n);
    queue.dear = Duration(80 + n);
    queue.leavers = {{.left = Duration(90 + n), .stands = Duration(100 + n)}, {.left = Duration(110 + n), .stands = Duration(120 + n)}};
    report.queues.push_back(queue);
  }
  report.paces = {{.kind = 1, .count = 2.5, .seconds = 3.5}, {.kind = 4, .count = 5.5, .seconds = 6.5}};
  report.waiting = 14;
  report.works = {{.kind = 7, .waiting = 8.5, .ended = 9.5, .seconds = 10.5}};
  report.power = 15.5;
  report.draining = true;
  report.ends_in = Duration(16);
  report.offers = {{{1, 2}, PartId(3), kShape, 4, true, false, true}, {{5, 6}, PartId(7), kShape, 8, false, true, false}};
  report.taken = {{9, 10}, {11, 12}};
  return report;
}

TEST(SupervisorMessages, AReportArrivesAsItWasSaid) {
  const Report said = Full();
  const Report heard = FromProto(ToProto(said));
  EXPECT_EQ(heard.number, 11u);
  EXPECT_EQ(heard.obeys, 12u);
  EXPECT_EQ(heard.handled, 13u);
  ASSERT_EQ(heard.queues.size(), 2u);
  for (size_t n = 0; n < 2; ++n) {
    const supervisor::QueueState &a = said.queues[n], &b = heard.queues[n];
    EXPECT_EQ(b.shape, a.shape);
    EXPECT_EQ(b.ready, a.ready);
    EXPECT_EQ(b.in_flight, a.in_flight);
    EXPECT_EQ(b.workers, a.workers);
    EXPECT_EQ(b.capacity, a.capacity);
    EXPECT_EQ(b.mean, a.mean);
    EXPECT_EQ(b.mean_at_least, a.mean_at_least);
    EXPECT_EQ(b.dear, a.dear);
    ASSERT_EQ(b.leavers.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(b.leavers[i].left, a.leavers[i].left);
      EXPECT_EQ(b.leavers[i].stands, a.leavers[i].stands);
    }
  }
  ASSERT_EQ(heard.paces.size(), 2u);
  EXPECT_EQ(heard.paces[1].kind, 4u);
  EXPECT_EQ(heard.paces[1].count, 5.5);
  EXPECT_EQ(heard.paces[1].seconds, 6.5);
  EXPECT_EQ(heard.waiting, 14u);
  ASSERT_TRUE(heard.works.has_value());
  ASSERT_EQ(heard.works->size(), 1u);
  EXPECT_EQ(heard.works->front().kind, 7u);
  EXPECT_EQ(heard.works->front().waiting, 8.5);
  EXPECT_EQ(heard.works->front().ended, 9.5);
  EXPECT_EQ(heard.works->front().seconds, 10.5);
  EXPECT_EQ(heard.power, 15.5);
  EXPECT_TRUE(heard.draining);
  EXPECT_EQ(heard.ends_in, Duration(16));
  ASSERT_EQ(heard.offers.size(), 2u);
  EXPECT_EQ(heard.offers[1].id, (supervisor::MoveId{5, 6}));
  EXPECT_EQ(heard.offers[1].to, PartId(7));
  EXPECT_EQ(heard.offers[1].shape, kShape);
  EXPECT_EQ(heard.offers[1].count, 8u);
  for (const size_t n : {0, 1}) {
    EXPECT_EQ(heard.offers[n].waiting, n == 0);
    EXPECT_EQ(heard.offers[n].running, n == 1);
    EXPECT_EQ(heard.offers[n].shared, n == 0);
  }
  EXPECT_EQ(heard.taken, said.taken);
}

TEST(SupervisorMessages, WhatIsNotKnownIsNotSaid) {
  Report report;
  EXPECT_FALSE(FromProto(ToProto(report)).works.has_value());
  EXPECT_FALSE(FromProto(ToProto(report)).ends_in.has_value());
  EXPECT_FALSE(FromProto(ToProto(report)).draining);
  report.works.emplace();
  EXPECT_TRUE(FromProto(ToProto(report)).works.has_value()) << "it has none, which is known";
  report.ends_in = Duration(0);
  EXPECT_EQ(FromProto(ToProto(report)).ends_in, Duration(0));
  report.ends_in = Duration(-5);
  EXPECT_EQ(FromProto(ToProto(report)).ends_in, Duration(0)) << "it has ended";
}

TEST(SupervisorMessages, NumbersThatCannotBeAreNotBelieved) {
  const double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinite = std::numeric_limits<double>::infinity();
  for (const double wrong : {kNan, kInfinite, -1.0, 1e18}) {
    Report report = Full();
    report.queues[0].capacity = wrong;
    EXPECT_EQ(FromProto(ToProto(report)).queues[0].capacity, 0) << wrong;
    report = Full();
    report.power = wrong;
    EXPECT_FALSE(FromProto(ToProto(report)).works.has_value()) << wrong;
    for (double supervisor::KindWork::*field : {&supervisor::KindWork::waiting, &supervisor::KindWork::ended, &supervisor::KindWork::seconds}) {
      report = Full();
      report.works->front().*field = wrong;
      EXPECT_TRUE(FromProto(ToProto(report)).works->empty()) << wrong;
    }
    for (double supervisor::Pace::*field : {&supervisor::Pace::count, &supervisor::Pace::seconds}) {
      report = Full();
      report.paces[0].*field = wrong;
      EXPECT_EQ(FromProto(ToProto(report)).paces.size(), 1u) << wrong;
    }
  }
  Report none = Full();
  none.queues[0].capacity = none.power = none.paces[0].count = none.paces[0].seconds = 0;
  none.works->front() = {.kind = 7, .waiting = 0, .ended = 0, .seconds = 0};
  EXPECT_EQ(FromProto(ToProto(none)).paces.size(), 2u);
  EXPECT_EQ(FromProto(ToProto(none)).works->size(), 1u);
}

TEST(SupervisorMessages, ARequestArrivesAsItWasSaid) {
  supervisor::MoveRequest request;
  request.id = {3, 4};
  request.to = PartId(5);
  request.shape = kShape;
  request.count = 6;
  request.keep = 7;
  request.waiting = true;
  request.least_left = Duration(8);
  request.share = 0.5;
  const pb::MoveAsked bare = ToProto(request);
  EXPECT_EQ(IdOf(bare.id()), request.id);
  EXPECT_EQ(bare.to(), 5u);
  EXPECT_EQ(ShapeOf(bare.shape()), kShape);
  EXPECT_EQ(bare.count(), 6u);
  EXPECT_EQ(bare.keep(), 7u);
  EXPECT_TRUE(bare.waiting());
  EXPECT_FALSE(bare.running());
  EXPECT_EQ(bare.least_left_ns(), 8);
  EXPECT_EQ(bare.share(), 0.5);
  EXPECT_FALSE(SavingOf(bare).has_value());
  request.waiting = false;
  request.running = true;
  request.saving = supervisor::Saving{.last = Duration(-9), .each = Duration(10), .late = 11};
  const pb::MoveAsked saves = ToProto(request);
  EXPECT_FALSE(saves.waiting());
  EXPECT_TRUE(saves.running());
  ASSERT_TRUE(SavingOf(saves).has_value());
  EXPECT_EQ(SavingOf(saves)->last, Duration(-9));
  EXPECT_EQ(SavingOf(saves)->each, Duration(10));
  EXPECT_EQ(SavingOf(saves)->late, 11u);
}

}  // namespace
}  // namespace harrow::server
