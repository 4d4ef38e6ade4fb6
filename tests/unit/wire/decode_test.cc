#include "wire/decode.h"

#include <gtest/gtest.h>

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
  in.mutable_started()->add_task(3);
  in.mutable_started()->add_start_ns(4);
  ASSERT_TRUE(Decode(in.SerializeAsString(), &out).ok());
  EXPECT_EQ(out.SerializeAsString(), in.SerializeAsString());
  EXPECT_TRUE(Decode("", &out).ok());
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
  EXPECT_EQ(changed([](auto& m, auto&) { m.mutable_started()->add_task(1); }), Code::kDamaged);
  EXPECT_EQ(changed([](auto& m, auto&) { m.mutable_returned()->add_task(UINT32_MAX); }), Code::kDamaged);
  EXPECT_EQ(changed([](auto& m, auto&) { m.mutable_hello(); }), Code::kDamaged) << "a node without a name";
}

TEST(Decode, ToAgentIsChecked) {
  auto code = [](auto change) {
    pb::ToAgent m, out;
    pb::Task* t = m.add_start();
    t->set_id(1);
    t->set_attempt(1);
    change(m, *t);
    return Decode(m.SerializeAsString(), &out).code();
  };
  EXPECT_EQ(code([](auto&, auto&) {}), Code::kOk);
  EXPECT_EQ(code([](auto&, auto& t) { t.set_form(4); }), Code::kDamaged);
  EXPECT_EQ(code([](auto&, auto& t) { t.set_attempt(0); }), Code::kDamaged);
  EXPECT_EQ(code([](auto& m, auto&) { m.add_take_back(UINT32_MAX); }), Code::kDamaged);
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
