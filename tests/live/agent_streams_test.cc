// Streams between the tasks of a node: real processes on its slots.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/resource.h>
#include <utility>

#include "agent/stream_port.h"
#include "live/agent_fixture.h"
#include "support/soft_limit.h"
#include "wire/attempt_id.h"
#include "wire/harrow.pb.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr NodeId kHere{4};

class AgentStreams : public SlotPoolTest {
 protected:
  AgentStreams() { Renew(4); }
  ~AgentStreams() override {
    Stop();
    port_.reset();
  }
  void Renew(size_t slots) {
    Stop();
    port_.reset();
    port_ = std::make_unique<StreamPort>(
        scratch_.path() + "/tmp",
        StreamPort::Hooks{.rewind = [this](AttemptId attempt,
                                           const std::string&) { pool_->EndTasks({attempt}, End::kRewound); },
                          .wake = [this](AttemptId attempt) { pool_->WakeSlotsOf(attempt); }});
    port_->SetSelf(kHere);
    node_.streams = port_.get();
    SetSlots(slots);
  }

  LocalTask Writer(const std::string& text) {
    LocalTask task = Shell(text);
    task.writes_streams = true;
    return task;
  }
  LocalTask Reader(const std::string& text, const std::vector<LocalTask*>& writers, bool split = false) {
    LocalTask task = Shell(text);
    for (const LocalTask* writer : writers) {
      task.sources.push_back(
          {.stream = StreamId(1), .writer = writer->attempt_id(), .node = kHere, .split = split});
    }
    return task;
  }
  static bool Succeeded(const TaskResult& result) { return result.end == End::kExited && result.code == 0; }
  void Tell(const pb::ToAgent& message) { port_->Take(message); }
  void Change(uint32_t reader, AttemptId writer, bool here, bool gone = false) {
    pb::ToAgent message;
    pb::SourceChanged* const changed = message.add_source();
    wire::SetId(First(reader), changed->mutable_reader());
    changed->mutable_source()->set_stream(1);
    changed->mutable_source()->set_node(here ? kHere.value + 1 : 0);
    changed->mutable_source()->set_gone(gone);
    wire::SetId(writer, changed->mutable_source()->mutable_writer());
    Tell(message);
  }
  std::vector<AttemptId> Written() {
    pb::AgentHello hello;
    port_->NameWritten(&hello);
    std::vector<AttemptId> all;
    for (const pb::AttemptId& id : hello.written()) all.push_back(wire::IdOf(id));
    return all;
  }
  size_t Files() const {
    const std::filesystem::directory_iterator files(scratch_.path() + "/tmp/streams");
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }
  std::string Lines(std::string text) {
    std::istringstream in(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    std::sort(lines.begin(), lines.end());
    std::string out;
    for (const std::string& line : lines) out += line + "\n";
    return out;
  }

  std::unique_ptr<StreamPort> port_;
};

TEST_F(AgentStreams, WhatOneWritesAnotherReads) {
  LocalTask writer = Writer("echo out; echo err >&2; seq 100000"),
            reader = Reader("tee copy | tail -n 1", {&writer});
  const uint32_t w = Push(std::move(writer)), r = Push(std::move(reader));
  const TaskResult wrote = Wait(w), read = Wait(r);
  EXPECT_TRUE(Succeeded(wrote)) << wrote.message;
  EXPECT_TRUE(Succeeded(read)) << read.message;
  EXPECT_EQ(Output(wrote), "") << "it went to its readers";
  EXPECT_EQ(Output(wrote, output::Stream::kStderr), "err\n");
  EXPECT_EQ(Output(read), "100000\n");
  EXPECT_TRUE(File("copy").starts_with("out\n1\n2\n"));
  ASSERT_THAT(read.read, SizeIs(1));
  EXPECT_EQ(read.read[0].writer, First(w));
  EXPECT_THAT(Written(), testing::ElementsAre(First(w)));
}

TEST_F(AgentStreams, ALogIsReadLaterAndByMany) {
  LocalTask writer = Writer("seq 1000");
  LocalTask copy = writer;
  EXPECT_TRUE(Succeeded(Run(std::move(writer))));
  EXPECT_EQ(Files(), 1u);
  std::vector<uint32_t> readers;
  for (int i = 0; i < 10; ++i) readers.push_back(Push(Reader("wc -l", {&copy})));
  for (const uint32_t reader : readers) EXPECT_EQ(Output(Wait(reader)), "1000\n");
  pb::ToAgent drop;
  wire::SetId(copy.attempt_id(), drop.add_drop_written());
  Tell(drop);
  EXPECT_TRUE(Eventually([&] { return Files() == 0; }));
  EXPECT_THAT(Written(), IsEmpty());
}

TEST_F(AgentStreams, WritersAreMergedByLine) {
  std::vector<LocalTask> writers;
  std::vector<LocalTask*> all;
  for (int i = 0; i < 3; ++i)
    writers.push_back(Writer("for i in $(seq 300); do printf %s 'part of a line, '; echo and $i of " +
                             std::to_string(i) + "; done; printf last"));
  for (LocalTask& writer : writers) all.push_back(&writer);
  const uint32_t reader = Push(Reader("cat", all));
  std::string expected;
  for (int w = 0; w < 3; ++w) {
    for (int i = 1; i <= 300; ++i)
      expected += "part of a line, and " + std::to_string(i) + " of " + std::to_string(w) + "\n";
    expected += "last\n";
  }
  for (LocalTask& writer : writers) Push(std::move(writer));
  const std::string got = Output(Wait(reader));
  EXPECT_EQ(Lines(got), Lines(expected));
  EXPECT_EQ(got.back(), 't') << "nothing follows the last line";
}

TEST_F(AgentStreams, SplitLinesGoToWhoWorks) {
  LocalTask writer = Writer("seq 20000");
  const uint32_t a = Push(Reader("cat", {&writer}, true)), b = Push(Reader("cat", {&writer}, true));
  const uint32_t slow = Push(Reader("sleep 0.5; cat", {&writer}, true));
  const uint32_t w = Push(std::move(writer));
  EXPECT_TRUE(Succeeded(Wait(w)));
  std::string all;
  for (const uint32_t reader : {a, b, slow}) all += Output(Wait(reader));
  std::string expected;
  for (int i = 1; i <= 20000; ++i) expected += std::to_string(i) + "\n";
  EXPECT_EQ(Lines(all), Lines(expected));
  EXPECT_LT(Output(Wait(slow)).size(), 20000u);
}

TEST_F(AgentStreams, WhoReadsLittleHasSucceeded) {
  LocalTask writer = Writer("yes | head -c 50000000");
  const uint32_t r = Push(Reader("head -n 1", {&writer})),
                 never = Push(Reader("sleep 0.1; exit 0", {&writer}));
  const uint32_t closes = Push(Reader("exec <&-; sleep 0.1", {&writer}));
  const uint32_t w = Push(std::move(writer));
  EXPECT_TRUE(Succeeded(Wait(w)));
  EXPECT_EQ(Output(Wait(r)), "y\n");
  EXPECT_TRUE(Succeeded(Wait(never)));
  EXPECT_TRUE(Succeeded(Wait(closes)));
}

TEST_F(AgentStreams, AWriterNeverWaits) {
  LocalTask writer = Writer("head -c 100000000 /dev/zero");
  LocalTask reader = Reader("wc -c", {&writer});
  EXPECT_TRUE(Succeeded(Run(std::move(writer)))) << "nobody reads yet";
  EXPECT_EQ(Output(Run(std::move(reader))), "100000000\n");
}

TEST_F(AgentStreams, WhatNobodyReadsAnyMoreEndsBySigpipe) {
  LocalTask writer = Writer("exec yes");
  const uint32_t r = Push(Reader("head -n 5", {&writer}));
  const uint32_t w = Push(std::move(writer));
  EXPECT_TRUE(Succeeded(Wait(r)));
  pb::ToAgent message;
  wire::SetId(First(w), message.add_unread());
  Tell(message);
  const TaskResult result = Wait(w);
  EXPECT_EQ(result.end, End::kSignaled);
  EXPECT_EQ(result.code, SIGPIPE);
  EXPECT_THAT(Written(), IsEmpty()) << "it is not whole";
  EXPECT_EQ(Files(), 1u) << "and kept until it is dropped";
}

TEST_F(AgentStreams, AFailedWritersReadersEndRewound) {
  LocalTask writer = Writer("echo some; sleep 0.3; exit 1");
  LocalTask again = writer;
  again.attempt = 2;
  again.command = "echo other";
  const uint32_t seen = Push(Reader("cat > seen; cat", {&writer}));
  const uint32_t w = Push(std::move(writer));
  EXPECT_TRUE(Eventually([&] { return File("seen") == "some\n"; }));
  EXPECT_EQ(Wait(w).code, 1);
  EXPECT_EQ(Files(), 0u);
  LocalTask late = Reader("cat", {&again});
  late.sources[0].node = NodeId();
  const uint32_t unseen = Push(std::move(late));
  WaitStarted(unseen);
  Change(seen, again.attempt_id(), true);
  Change(unseen, again.attempt_id(), true);
  const TaskResult rewound = Wait(seen);
  EXPECT_EQ(rewound.end, End::kRewound);
  EXPECT_THAT(rewound.message, HasSubstr("did not succeed"));
  EXPECT_THAT(rewound.read, IsEmpty());
  {
    std::lock_guard lock(mutex_);
    results_.erase(w);
  }
  Push(std::move(again));
  EXPECT_EQ(Output(Wait(unseen)), "other\n");
}

TEST_F(AgentStreams, WhoIsQueuedAndToldThatAllIsGoneDoesNotBegin) {
  Renew(1);
  const uint32_t holds = Push(Shell("sleep 0.3"));
  LocalTask writer = Writer("true");
  const uint32_t r = Push(Reader("touch began", {&writer}));
  Change(r, writer.attempt_id(), false, true);
  EXPECT_EQ(Wait(r).end, End::kRewound);
  EXPECT_TRUE(Succeeded(Wait(holds)));
  EXPECT_EQ(access((scratch_.path() + "/began").c_str(), F_OK), -1);
}

TEST_F(AgentStreams, AFullDiskFailsTheWriterInClearWords) {
  Renew(2);
  TaskResult result;
  {
    const test::SoftLimit small(RLIMIT_FSIZE, 1 << 20);
    result = Run(Writer("trap '' PIPE; head -c 5000000 /dev/zero; exit 0"));
  }
  EXPECT_FALSE(Succeeded(result));
  EXPECT_THAT(result.message, HasSubstr("does not fit on the node's disk"));
  EXPECT_EQ(Files(), 0u);
}

TEST_F(AgentStreams, BytesOfAnyKindGoThroughAChain) {
  std::vector<LocalTask> chain;
  chain.push_back(Writer("head -c 20000000 /dev/urandom | tee first"));
  for (int i = 0; i < 2; ++i) {
    LocalTask next = Reader("cat", {&chain.back()});
    next.writes_streams = true;
    chain.push_back(std::move(next));
  }
  LocalTask last = Reader("cat > last; cmp last first && echo same", {&chain.back()});
  for (LocalTask& task : chain) Push(std::move(task));
  EXPECT_EQ(Output(Run(std::move(last))), "same\n");
}

TEST_F(AgentStreams, WithoutADirectoryTheyCannotBegin) {
  Stop();
  port_.reset();
  port_ = std::make_unique<StreamPort>("", StreamPort::Hooks{});
  node_.streams = port_.get();
  SetSlots(2);
  LocalTask writer = Writer("true");
  const TaskResult result = Run(std::move(writer));
  EXPECT_EQ(result.end, End::kNotStarted);
  EXPECT_THAT(result.message, HasSubstr("no private directory"));
}

TEST_F(AgentStreams, ManyShortOnes) {
  std::vector<uint32_t> readers;
  for (int i = 0; i < 200; ++i) {
    LocalTask writer = Writer("echo " + std::to_string(i)), reader = Reader("cat", {&writer});
    Push(std::move(writer));
    readers.push_back(Push(std::move(reader)));
  }
  for (size_t i = 0; i < readers.size(); ++i) EXPECT_EQ(Output(Wait(readers[i])), std::to_string(i) + "\n");
}

}  // namespace
}  // namespace harrow::agent
