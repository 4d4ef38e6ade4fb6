#include "wire/decode.h"

#include <cmath>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "wire/attempt_id.h"

namespace harrow::wire {
namespace {

pb::FromAgent Ended() {
  pb::FromAgent m;
  auto* ended = m.add_ended();
  ended->set_sequence(1);
  auto* a = ended->add_attempt();
  a->set_task(7);
  a->set_attempt(1);
  a->set_end(pb::Attempt::EXITED);
  return m;
}

TEST(Decode, TakesWhatWasSent) {
  pb::FromAgent in = Ended(), out;
  in.mutable_hello()->mutable_node()->set_name("node1");
  SetId({TaskId(3), 1}, in.mutable_started()->add_attempt());
  in.mutable_started()->add_start_ns(4);
  ASSERT_TRUE(Decode(in.SerializeAsString(), &out).ok());
  EXPECT_EQ(out.SerializeAsString(), in.SerializeAsString());
  EXPECT_TRUE(Decode("", &out).ok());
}

TEST(AttemptIds, AreTheSameOnBothSides) {
  pb::AttemptId message;
  SetId({TaskId(7), 3}, &message);
  EXPECT_EQ(IdOf(message), (AttemptId{TaskId(7), 3}));
  pb::Attempt attempt;
  attempt.set_task(8);
  attempt.set_attempt(4);
  EXPECT_EQ(IdOf(attempt), (AttemptId{TaskId(8), 4}));
}

TEST(Decode, TextsNeedNotBeUtf8) {
  pb::FromAgent in = Ended(), out;
  in.mutable_ended(0)->mutable_attempt(0)->set_message("no such file: \xff\xfe");
  ASSERT_TRUE(Decode(in.SerializeAsString(), &out).ok());
  EXPECT_EQ(out.ended(0).attempt(0).message(), "no such file: \xff\xfe");
  pb::ToAgent welcome, got;
  auto* variable = welcome.mutable_welcome()->add_env();
  variable->set_name("LATIN1");
  variable->set_value("\xe4\xf6\xfc");
  ASSERT_TRUE(Decode(welcome.SerializeAsString(), &got).ok());
  EXPECT_EQ(got.welcome().env(0).value(), "\xe4\xf6\xfc");
}

TEST(Decode, RanksLieOnAllNodesOfATaskOrItHasNone) {
  const auto code = [](const std::vector<uint32_t>& ranks) {
    pb::FromAgent m = Ended(), out;
    pb::Gang* const gang = m.mutable_ended(0)->mutable_attempt(0)->mutable_gang();
    gang->set_space("space");
    for (uint32_t i = 0; i < ranks.size(); ++i) {
      pb::GangNode* const node = gang->add_node();
      node->set_node(i);
      node->set_name("n" + std::to_string(i));
      node->set_ranks(ranks[i]);
    }
    return Decode(m.SerializeAsString(), &out).code();
  };
  EXPECT_EQ(code({2, 2, 1}), Code::kOk);
  EXPECT_EQ(code({0, 0, 0}), Code::kOk);
  EXPECT_EQ(code({1, 0, 0}), Code::kDamaged);
  EXPECT_EQ(code({2, 2, 0}), Code::kDamaged);
  EXPECT_EQ(code({2, 0, 0}), Code::kDamaged);
  EXPECT_EQ(code({1, 1, 0}), Code::kDamaged);
  EXPECT_EQ(code({0, 1, 0}), Code::kDamaged);
}

TEST(Decode, FromAgentIsChecked) {
  auto code = [](const pb::FromAgent& m) {
    pb::FromAgent out;
    return Decode(m.SerializeAsString(), &out).code();
  };
  auto changed = [&](auto change) {
    pb::FromAgent m = Ended();
    change(m, *m.mutable_ended(0)->mutable_attempt(0));
    return code(m);
  };
  EXPECT_EQ(code(Ended()), Code::kOk);
  EXPECT_EQ(changed([](auto&, auto& a) { a.set_attempt(0); }), Code::kDamaged);
  EXPECT_EQ(changed([](auto&, auto& a) { a.set_task(UINT32_MAX); }), Code::kDamaged);
  EXPECT_EQ(changed([](auto&, auto& a) { a.set_end(static_cast<pb::Attempt::End>(99)); }), Code::kDamaged);
  EXPECT_EQ(changed([](auto&, auto& a) { a.set_end(pb::Attempt::RUNNING); }), Code::kDamaged);
  EXPECT_EQ(changed([](auto&, auto& a) { a.add_output_sizes(-2); }), Code::kDamaged);
  EXPECT_EQ(changed([](auto&, auto& a) { a.add_made_file()->set_bytes(-1); }), Code::kDamaged);
  EXPECT_EQ(changed([](auto& m, auto&) {
              SetId({TaskId(1), 1}, m.mutable_started()->add_attempt());
            }),
            Code::kDamaged);
  EXPECT_EQ(changed([](auto& m, auto&) {
              SetId({TaskId(), 1}, m.mutable_returned()->add_attempt());
            }),
            Code::kDamaged);
  EXPECT_EQ(changed([](auto& m, auto&) { m.mutable_hello(); }), Code::kDamaged) << "a node without a name";
}

TEST(Decode, WhatIsJustAllowedAndWhatIsNot) {
  constexpr uint32_t kLastId = UINT32_MAX - 1;
  auto code = [](auto change) {
    pb::FromAgent m = Ended(), out;
    m.mutable_hello()->mutable_node()->set_name("node1");
    change(m);
    return Decode(m.SerializeAsString(), &out).code();
  };
  auto running = [](pb::FromAgent& m, pb::Attempt::End end) {
    pb::Attempt* a = m.mutable_hello()->add_running();
    a->set_task(1);
    a->set_attempt(1);
    a->set_end(end);
  };
  using M = pb::FromAgent;
  EXPECT_EQ(code([](M& m) { m.mutable_hello()->mutable_node()->set_name(std::string(4096, 'n')); }),
            Code::kOk);
  EXPECT_EQ(code([](M& m) { m.mutable_hello()->mutable_node()->set_name(std::string(4097, 'n')); }),
            Code::kDamaged);
  EXPECT_EQ(code([](M& m) { SetId({TaskId(kLastId), 1}, m.mutable_hello()->add_queued()); }), Code::kOk);
  EXPECT_EQ(code([](M& m) { SetId({TaskId(), 1}, m.mutable_hello()->add_queued()); }), Code::kDamaged);
  EXPECT_EQ(code([&](M& m) { running(m, pb::Attempt::RUNNING); }), Code::kOk);
  EXPECT_EQ(code([&](M& m) { running(m, pb::Attempt::EXITED); }), Code::kDamaged) << "running, and ended";
  EXPECT_EQ(code([](M& m) { m.mutable_ended(0)->mutable_attempt(0)->set_task(kLastId); }), Code::kOk);
  EXPECT_EQ(code([](M& m) { m.mutable_ended(0)->mutable_attempt(0)->add_output_sizes(-1); }), Code::kOk);
  EXPECT_EQ(code([](M& m) { SetId({TaskId(kLastId), 1}, m.mutable_returned()->add_attempt()); }), Code::kOk);
  auto started = [&](uint32_t task) {
    return code([&](M& m) {
      SetId({TaskId(task), 1}, m.mutable_started()->add_attempt());
      m.mutable_started()->add_start_ns(1);
    });
  };
  EXPECT_EQ(started(kLastId), Code::kOk);
  EXPECT_EQ(started(UINT32_MAX), Code::kDamaged);
  EXPECT_EQ(code([](M& m) { m.mutable_started()->add_start_ns(1); }), Code::kDamaged) << "a time of no start";
  pb::FromAgent out;
  EXPECT_NE(Decode("\xff", &out).message().find("it cannot be read"), std::string::npos);
}

TEST(Decode, ToAgentIsChecked) {
  constexpr uint32_t kLastId = UINT32_MAX - 1;
  auto code = [](auto change) {
    pb::ToAgent m, out;
    pb::Task* t = m.add_start();
    t->set_id(1);
    t->set_attempt(1);
    change(m, *t);
    return Decode(m.SerializeAsString(), &out).code();
  };
  EXPECT_EQ(code([](auto&, auto&) {}), Code::kOk);
  EXPECT_EQ(code([](auto&, auto& t) { t.set_form(3); }), Code::kOk);
  EXPECT_EQ(code([](auto&, auto& t) { t.set_form(5); }), Code::kDamaged);
  EXPECT_EQ(code([](auto&, auto& t) { t.set_attempt(0); }), Code::kDamaged);
  EXPECT_EQ(code([](auto&, auto& t) { t.set_id(kLastId); }), Code::kOk);
  EXPECT_EQ(code([](auto&, auto& t) { t.set_id(UINT32_MAX); }), Code::kDamaged);
  EXPECT_EQ(code([](auto&, auto& t) { t.set_profile(kLastId); }), Code::kOk);
  EXPECT_EQ(code([](auto&, auto& t) { t.set_profile(UINT32_MAX); }), Code::kDamaged);
  EXPECT_EQ(code([](auto& m, auto&) { m.add_profile()->set_id(kLastId); }), Code::kOk);
  EXPECT_EQ(code([](auto& m, auto&) { m.add_profile()->set_id(UINT32_MAX); }), Code::kDamaged);
  EXPECT_EQ(code([](auto& m, auto&) { m.add_drop_damaged(kLastId); }), Code::kOk);
  EXPECT_EQ(code([](auto& m, auto&) { m.add_drop_damaged(UINT32_MAX); }), Code::kDamaged);
  EXPECT_EQ(code([](auto& m, auto&) { SetId({TaskId(kLastId), 1}, m.add_take_back()); }), Code::kOk);
  EXPECT_EQ(code([](auto& m, auto&) { SetId({TaskId(), 1}, m.add_take_back()); }), Code::kDamaged);
  EXPECT_EQ(code([](auto& m, auto&) {
              SetId({TaskId(1), 0}, m.add_take_back());
            }),
            Code::kDamaged)
      << "which attempt?";
  EXPECT_EQ(code([](auto& m, auto&) {
              SetId({TaskId(kLastId), 1}, m.mutable_cancel()->add_attempt());
            }),
            Code::kOk);
  EXPECT_EQ(code([](auto& m, auto&) {
              SetId({TaskId(), 1}, m.mutable_cancel()->add_attempt());
            }),
            Code::kDamaged);
  const auto source = [](pb::ToAgent& m, pb::Task& t) {
    pb::StreamSource* const read = t.add_source();
    SetId({TaskId(4), 2}, read->mutable_writer());
    pb::SourceChanged* const changed = m.add_source();
    SetId({TaskId(1), 1}, changed->mutable_reader());
    *changed->mutable_source() = *read;
    SetId({TaskId(4), 1}, m.add_unread());
    SetId({TaskId(4), 1}, m.add_drop_written());
  };
  const auto with_source = [&](auto change) {
    return code([&](auto& m, auto& t) {
      source(m, t);
      change(m, t);
    });
  };
  EXPECT_EQ(with_source([](auto&, auto&) {}), Code::kOk);
  EXPECT_EQ(with_source([](auto&, auto& t) { t.mutable_source(0)->clear_writer(); }), Code::kDamaged);
  EXPECT_EQ(with_source([](auto&, auto& t) { t.mutable_source(0)->set_stream(UINT32_MAX); }), Code::kDamaged);
  EXPECT_EQ(with_source([](auto&, auto& t) { t.mutable_source(0)->set_open(true); }), Code::kDamaged);
  EXPECT_EQ(with_source([](auto&, auto& t) { t.mutable_source(0)->set_over(true); }), Code::kDamaged);
  const auto open = [](auto&, auto& t) {
    t.mutable_source(0)->clear_writer();
    t.mutable_source(0)->set_open(true);
  };
  EXPECT_EQ(with_source(open), Code::kOk);
  EXPECT_EQ(with_source([](auto& m, auto&) { m.mutable_source(0)->clear_reader(); }), Code::kDamaged);
  EXPECT_EQ(with_source([](auto& m, auto&) { m.mutable_source(0)->clear_source(); }), Code::kDamaged);
  EXPECT_EQ(with_source([](auto& m, auto&) { m.mutable_unread(0)->set_number(0); }), Code::kDamaged);
  EXPECT_EQ(with_source([](auto& m, auto&) { m.mutable_drop_written(0)->set_number(0); }), Code::kDamaged);
  pb::ToAgent out;
  EXPECT_EQ(Decode("\xff", &out).code(), Code::kDamaged);
}

TEST(Decode, WhatClientsSayAndHearIsChecked) {
  pb::FromClient from;
  EXPECT_EQ(Decode("", &from).code(), Code::kOk);
  EXPECT_EQ(Decode("\xff", &from).code(), Code::kDamaged);
  pb::ToClient m, to;
  EXPECT_EQ(Decode("\xff", &to).code(), Code::kDamaged);
  pb::SettledTask& settled = *m.mutable_settled()->add_other();
  EXPECT_EQ(Decode(m.SerializeAsString(), &to).code(), Code::kDamaged);
  for (const uint32_t fate : {1, 5}) {
    settled.set_fate(fate);
    EXPECT_EQ(Decode(m.SerializeAsString(), &to).code(), Code::kOk);
  }
  settled.set_end(static_cast<pb::Attempt::End>(12));
  EXPECT_EQ(Decode(m.SerializeAsString(), &to).code(), Code::kDamaged);
  settled.set_end(pb::Attempt::LOST);
  settled.set_fate(6);
  EXPECT_EQ(Decode(m.SerializeAsString(), &to).code(), Code::kDamaged);
}

TEST(Decode, WhatServersSayToEachOtherIsChecked) {
  const auto code = [](const std::function<void(pb::BetweenServers&)>& change) {
    pb::BetweenServers m, out;
    for (const uint32_t task : {1, 4}) {
      m.mutable_ended()->add_done(task);
      m.add_cancel(task);
    }
    pb::TasksOffered* offer = m.add_offered();
    offer->mutable_id()->set_number(1);
    offer->add_task(2);
    offer->add_task(7);
    offer->add_tried()->set_task(7);
    pb::QueueReport* queue = m.mutable_report()->add_queue();
    queue->mutable_shape()->set_nodes(1);
    queue->set_capacity(4);
    m.mutable_report()->add_offer()->mutable_shape()->set_nodes(1);
    m.add_asked()->mutable_shape()->set_nodes(1);
    m.add_asked()->set_waiting(true);
    pb::FilesAsked* const files = m.add_files_asked();
    files->add_file(0), files->add_file(5);
    pb::MadeFiles* const made = m.add_files_made();
    made->add_file()->set_file(2);
    made->add_file()->set_file(3);
    made->mutable_file(1)->set_object(std::string(17, 'o'));
    m.add_files_not_had(8);
    change(m);
    return Decode(m.SerializeAsString(), &out).code();
  };
  EXPECT_EQ(code([](auto&) {}), Code::kOk);
  using Change = std::function<void(pb::BetweenServers&)>;
  const Change kWrong[] = {
      [](auto& m) { m.mutable_ended()->add_done(4); },
      [](auto& m) { m.mutable_ended()->add_failed(UINT32_MAX); },
      [](auto& m) { m.mutable_ended()->add_skipped(3), m.mutable_ended()->add_skipped(2); },
      [](auto& m) { m.mutable_ended()->add_cancelled(3), m.mutable_ended()->add_cancelled(3); },
      [](auto& m) { m.add_cancel(2); },
      [](auto& m) { m.mutable_offered(0)->clear_task(), m.mutable_offered(0)->clear_tried(); },
      [](auto& m) { m.mutable_offered(0)->add_task(5); },
      [](auto& m) { m.mutable_offered(0)->mutable_id()->set_number(0); },
      [](auto& m) { m.mutable_offered(0)->mutable_tried(0)->set_task(3); },
      [](auto& m) { m.mutable_report()->mutable_queue(0)->mutable_shape()->set_nodes(0); },
      [](auto& m) { m.mutable_report()->mutable_queue(0)->set_capacity(-1); },
      [](auto& m) { m.mutable_report()->mutable_queue(0)->set_capacity(std::nan("")); },
      [](auto& m) { m.mutable_report()->mutable_queue(0)->set_mean_ns(-1); },
      [](auto& m) { m.mutable_report()->mutable_offer(0)->mutable_shape()->set_nodes(0); },
      [](auto& m) { m.mutable_asked(0)->mutable_shape()->set_nodes(0); },
      [](auto& m) { m.mutable_files_asked(0)->set_task(UINT32_MAX); },
      [](auto& m) { m.mutable_files_asked(0)->add_file(5); },
      [](auto& m) { m.mutable_files_made(0)->set_task(UINT32_MAX); },
      [](auto& m) { m.mutable_files_made(0)->mutable_file(1)->set_file(2); },
      [](auto& m) { m.mutable_files_made(0)->mutable_file(1)->set_file(UINT32_MAX); },
      [](auto& m) { m.mutable_files_made(0)->mutable_file(0)->set_bytes(-1); },
      [](auto& m) { m.mutable_files_made(0)->mutable_file(0)->set_object("short"); },
      [](auto& m) { m.add_files_not_had(UINT32_MAX); },
  };
  for (size_t i = 0; i < std::size(kWrong); ++i) EXPECT_EQ(code(kWrong[i]), Code::kDamaged) << "change " << i;
  pb::BetweenServers out;
  EXPECT_EQ(Decode("\xff", &out).code(), Code::kDamaged);
}

TEST(Decode, WhatAgentsSayToEachOtherIsChecked) {
  pb::PeerHello hello, heard;
  hello.set_node(0);
  hello.set_to(3);
  EXPECT_EQ(Decode(hello.SerializeAsString(), &heard).code(), Code::kOk);
  hello.set_token(std::string(32, 't'));
  EXPECT_EQ(Decode(hello.SerializeAsString(), &heard).code(), Code::kOk);
  hello.set_token(std::string(31, 't'));
  EXPECT_EQ(Decode(hello.SerializeAsString(), &heard).code(), Code::kDamaged);
  hello.clear_token();
  hello.set_to(NodeId().value);
  EXPECT_EQ(Decode(hello.SerializeAsString(), &heard).code(), Code::kDamaged);
  hello.set_to(3);
  hello.set_node(NodeId().value);
  EXPECT_EQ(Decode(hello.SerializeAsString(), &heard).code(), Code::kDamaged);
  EXPECT_EQ(Decode("\xff", &heard).code(), Code::kDamaged);

  const auto code = [](size_t data, const std::function<void(pb::PeerTransfer&, pb::Piece&)>& change) {
    pb::PeerTransfer m, out;
    m.add_wanted()->set_length(10);
    pb::Piece* piece = m.add_piece();
    piece->set_object_bytes(100);
    piece->set_offset(60);
    piece->set_length(40);
    m.add_piece()->set_error(static_cast<uint32_t>(Code::kNotFound));
    change(m, *piece);
    return Decode(m.SerializeAsString(), data, &out).code();
  };
  const auto as_it_is = [](auto&, auto&) {};
  EXPECT_EQ(code(40, as_it_is), Code::kOk);
  EXPECT_EQ(code(39, as_it_is), Code::kDamaged);
  EXPECT_EQ(code(41, as_it_is), Code::kDamaged);
  EXPECT_EQ(code(40, [](auto&, auto& p) { p.set_offset(61); }), Code::kDamaged) << "beyond its end";
  EXPECT_EQ(code(40, [](auto&, auto& p) { p.set_offset(-1); }), Code::kDamaged);
  EXPECT_EQ(code(40, [](auto&, auto& p) { p.set_offset(101); }), Code::kDamaged);
  EXPECT_EQ(code(40, [](auto&, auto& p) { p.set_object_bytes(-1); }), Code::kDamaged);
  EXPECT_EQ(code(40, [](auto&, auto& p) { p.set_error(1); }), Code::kDamaged) << "bytes of an error";
  EXPECT_EQ(code(40, [](auto& m, auto&) { m.mutable_piece(1)->set_error(10); }), Code::kDamaged);
  EXPECT_EQ(code(40, [](auto& m, auto&) { m.mutable_wanted(0)->set_offset(-1); }), Code::kDamaged);
  EXPECT_EQ(code(40, [](auto& m, auto&) { m.mutable_wanted(0)->set_length(-1); }), Code::kDamaged);
  EXPECT_EQ(code(40, [](auto& m, auto&) { m.mutable_wanted(0)->set_length(0); }), Code::kOk)
      << "all of a listing, however long that is";
  EXPECT_EQ(
      code(40, [](auto& m, auto&) { m.mutable_wanted(0)->set_offset(std::numeric_limits<int64_t>::max()); }),
      Code::kDamaged);
  EXPECT_EQ(
      code(40,
           [](auto& m, auto&) { m.mutable_wanted(0)->set_offset(std::numeric_limits<int64_t>::max() - 10); }),
      Code::kOk)
      << "its end is one";
  pb::PeerTransfer out;
  EXPECT_EQ(Decode("\xff", 0, &out).code(), Code::kDamaged);
}

TEST(Decode, WhatAgentsSayOfStreamsIsChecked) {
  const auto code = [](size_t data, const std::function<void(pb::PeerStreams&)>& change) {
    pb::PeerStreams m, out;
    pb::WrittenWanted* const wanted = m.add_wanted();
    wanted->set_request(1);
    SetId({TaskId(4), 2}, wanted->mutable_writer());
    SetId({TaskId(5), 1}, wanted->mutable_reader());
    wanted->set_offset(10);
    wanted->set_room(10);
    m.add_room()->set_room(20);
    m.add_written()->set_length(30);
    m.add_written()->set_length(12);
    m.mutable_written(1)->set_over(true);
    m.mutable_written(1)->set_whole(true);
    change(m);
    return Decode(m.SerializeAsString(), data, &out).code();
  };
  EXPECT_EQ(code(42, [](auto&) {}), Code::kOk);
  EXPECT_EQ(code(41, [](auto&) {}), Code::kDamaged);
  EXPECT_EQ(code(43, [](auto&) {}), Code::kDamaged);
  EXPECT_EQ(code(42, [](auto& m) { m.mutable_wanted(0)->set_room(9); }), Code::kDamaged);
  EXPECT_EQ(code(42, [](auto& m) { m.mutable_wanted(0)->set_offset(-1); }), Code::kDamaged);
  EXPECT_EQ(code(42, [](auto& m) { m.mutable_wanted(0)->set_request(0); }), Code::kDamaged);
  EXPECT_EQ(code(42, [](auto& m) { m.mutable_wanted(0)->clear_writer(); }), Code::kDamaged);
  EXPECT_EQ(code(42, [](auto& m) { m.mutable_wanted(0)->clear_reader(); }), Code::kDamaged);
  EXPECT_EQ(code(42, [](auto& m) { m.mutable_room(0)->set_room(-1); }), Code::kDamaged);
  EXPECT_EQ(code(42, [](auto& m) { m.mutable_written(0)->set_whole(true); }), Code::kDamaged) << "and goes on";
  EXPECT_EQ(code(42, [](auto& m) { m.mutable_written(0)->set_absent(true); }), Code::kDamaged);
  pb::PeerStreams out;
  EXPECT_EQ(Decode("\xff", 0, &out).code(), Code::kDamaged);
}

TEST(Decode, EveryCutOfAMessageIsReadOrDamaged) {
  pb::FromAgent in = Ended(), out;
  in.mutable_ended(0)->mutable_attempt(0)->set_message(std::string(100, 'm'));
  std::string bytes = in.SerializeAsString();
  int damaged = 0;
  for (size_t n = 1; n < bytes.size(); ++n) {
    Status status = Decode(std::string_view(bytes).substr(0, n), &out);
    EXPECT_TRUE(status.ok() || status.code() == Code::kDamaged);
    damaged += status.ok() ? 0 : 1;
  }
  EXPECT_GT(damaged, 100);
}

}  // namespace
}  // namespace harrow::wire
