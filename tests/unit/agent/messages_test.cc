// What messages carry is what the agent's own values hold, in both directions.
#include "agent/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/attempt_id.h"

namespace harrow::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

TEST(MessagesTest, AProfileIsReadWithAllThatItSays) {
  pb::Profile message;
  message.set_cores(3);
  message.set_gpus(2);
  message.set_memory(4096);
  message.set_nodes(5);
  message.set_whole_node(true);
  message.set_ranks(6);
  message.set_mpi(2);
  message.set_cwd("dir");
  message.set_shell("/bin/dash");
  message.set_time_limit_ns(7);
  message.set_missing_ok(true);
  message.set_empty_streams(true);
  message.set_warn_signal(10);
  message.set_warn_before_ns(8);
  message.set_warn_alone(true);
  message.set_stdin_path("in");
  message.set_stdout_path("out");
  message.set_stderr_path("err");
  for (const char* name : {"B", "A"}) {
    pb::EnvVar* const variable = message.add_env();
    variable->set_name(name);
    variable->set_value(std::string("of ") + name);
  }
  const ProfileSpec spec = ProfileFromProto(message);
  EXPECT_EQ(spec.cores, 3u);
  EXPECT_EQ(spec.devices, 2u);
  EXPECT_EQ(spec.memory, 4096u);
  EXPECT_EQ(spec.nodes, 5u);
  EXPECT_TRUE(spec.whole_node);
  EXPECT_EQ(spec.ranks, 6u);
  EXPECT_EQ(spec.mpi, Mpi::kPmi1);
  EXPECT_EQ(spec.cwd, "dir");
  EXPECT_EQ(spec.shell, "/bin/dash");
  EXPECT_EQ(spec.time_limit, Duration(7));
  EXPECT_TRUE(spec.missing_ok);
  EXPECT_TRUE(spec.empty_streams);
  EXPECT_EQ(spec.warn_signal, 10);
  EXPECT_EQ(spec.warn_before, Duration(8));
  EXPECT_TRUE(spec.warn_alone);
  EXPECT_EQ(spec.stdin_path, "in");
  EXPECT_EQ(spec.stdout_path, "out");
  EXPECT_EQ(spec.stderr_path, "err");
  EXPECT_THAT(spec.env, ElementsAre(Pair("B", "of B"), Pair("A", "of A")));
  EXPECT_FALSE(spec.checkpoint.on) << "nothing is said of it";
}

TEST(MessagesTest, HowCheckpointsAreWrittenIsReadWithTheProfile) {
  pb::Profile message;
  pb::Checkpointing* const how = message.mutable_checkpoint();
  how->set_by(1);
  how->set_ask(1);
  how->set_signal(12);
  how->set_status(85);
  how->set_ask_all(true);
  for (const char* file : {"a", "b"}) how->add_file(file);
  how->set_every_ns(5);
  how->set_time_ns(6);
  how->set_restart_command("again");
  how->set_restart_form(4);
  CheckpointSpec spec = ProfileFromProto(message).checkpoint;
  EXPECT_TRUE(spec.on);
  EXPECT_FALSE(spec.criu);
  EXPECT_EQ(spec.ask, CheckpointSpec::Ask::kFile);
  EXPECT_EQ(spec.signal, 12);
  EXPECT_EQ(spec.status, 85);
  EXPECT_TRUE(spec.ask_all);
  EXPECT_THAT(spec.files, ElementsAre("a", "b"));
  EXPECT_EQ(spec.every, Duration(5));
  EXPECT_EQ(spec.time, Duration(6));
  EXPECT_EQ(spec.restart_command, "again");
  EXPECT_EQ(spec.restart_form, CommandForm::kAssigned);
  how->set_by(kByCriu);
  how->set_restart_form(5);
  spec = ProfileFromProto(message).checkpoint;
  EXPECT_TRUE(spec.criu);
  EXPECT_EQ(spec.signal, kAskHolder) << "who holds the task is asked";
  EXPECT_EQ(spec.restart_form, CommandForm::kNone) << "what is not known cannot be started";
}

TEST(MessagesTest, ATaskIsReadWithAllThatItSays) {
  pb::Task message;
  message.set_id(5);
  message.set_attempt(2);
  message.set_form(4);
  message.set_command("a=b c");
  message.set_name("n");
  for (const char* path : {"o1", "o2", "o3"}) message.add_outputs(path);
  message.set_sizes_wanted(true);
  message.set_checkpoints("kept");
  message.set_sandbox(true);
  pb::TaskInput* const input = message.add_input();
  input->set_file(7);
  input->set_path("in");
  input->set_inside("below");
  message.add_output_file(8);
  message.add_output_file(9);
  message.add_output_result(true);
  message.mutable_earlier()->set_begin_ns(10);
  message.mutable_earlier()->set_end_ns(11);
  for (const uint32_t found : {0u, 2u}) message.mutable_earlier()->add_found(found);
  message.set_writes_streams(true);
  const LocalTask task = TaskFromProto(message);
  EXPECT_EQ(task.attempt_id(), (AttemptId{TaskId(5), 2}));
  EXPECT_EQ(task.form, CommandForm::kAssigned);
  EXPECT_EQ(task.command, "a=b c");
  EXPECT_EQ(task.name, "n");
  EXPECT_THAT(task.outputs, ElementsAre("o1", "o2", "o3"));
  EXPECT_TRUE(task.sizes_wanted);
  EXPECT_EQ(task.checkpoints, "kept");
  EXPECT_TRUE(task.sandbox);
  ASSERT_THAT(task.inputs, SizeIs(1));
  EXPECT_EQ(task.inputs[0].file, FileId(7));
  EXPECT_EQ(task.inputs[0].path, "in");
  EXPECT_EQ(task.inputs[0].inside, "below");
  EXPECT_THAT(task.output_files, ElementsAre(FileId(8), FileId(9), FileId())) << "each output has an entry";
  EXPECT_THAT(task.output_results, ElementsAre(true, false, false));
  ASSERT_TRUE(task.earlier);
  EXPECT_EQ(task.earlier->begin_ns, 10);
  EXPECT_EQ(task.earlier->end_ns, 11);
  EXPECT_THAT(task.earlier->found, ElementsAre(0u, 2u));
  EXPECT_TRUE(task.writes_streams);
  EXPECT_EQ(task.gang, nullptr);
  EXPECT_EQ(message.command(), "") << "texts are moved";
  pb::Task other;
  other.set_form(5);
  const LocalTask unknown = TaskFromProto(other);
  EXPECT_EQ(unknown.form, CommandForm::kNone) << "what is not known cannot be started";
  EXPECT_FALSE(unknown.earlier);
}

TEST(MessagesTest, APartOfATaskOfSeveralNodesKnowsThemAll) {
  pb::Task message;
  pb::Gang* const gang = message.mutable_gang();
  gang->set_here(1);
  gang->set_space("space");
  gang->set_ends_together(true);
  for (const uint32_t node : {4u, 6u}) {
    pb::GangNode* const one = gang->add_node();
    one->set_node(node);
    one->set_name("n" + std::to_string(node));
    one->set_ranks(node + 1);
  }
  const LocalTask task = TaskFromProto(message);
  ASSERT_NE(task.gang, nullptr);
  EXPECT_EQ(task.gang->here, 1u);
  EXPECT_EQ(task.gang->space, "space");
  EXPECT_TRUE(task.gang->ends_together);
  ASSERT_THAT(task.gang->nodes, SizeIs(2));
  EXPECT_EQ(task.gang->nodes[1].id, NodeId(6));
  EXPECT_EQ(task.gang->nodes[1].name, "n6");
  EXPECT_EQ(task.gang->nodes[1].ranks, 7u);
  pb::Gang back;
  GangToProto(*task.gang, &back);
  back.set_ends_together(true);  // that it does the server knows
  EXPECT_EQ(back.SerializeAsString(), gang->SerializeAsString());
}

TEST(MessagesTest, WhatIsOpenHasNoWriter) {
  pb::StreamSource message;
  message.set_stream(3);
  wire::SetId({TaskId(6), 2}, message.mutable_writer());
  message.set_gone(true);
  StreamSource source = SourceFromProto(message);
  EXPECT_EQ(source.writer, (AttemptId{TaskId(6), 2}));
  EXPECT_TRUE(source.gone);
  EXPECT_FALSE(source.open || source.over);
  message.set_gone(false);
  message.set_open(true);
  message.set_over(true);
  source = SourceFromProto(message);
  EXPECT_EQ(source.writer, AttemptId());
  EXPECT_TRUE(source.open && source.over && !source.gone);
}

TEST(MessagesTest, AResultIsToldWithAllThatItHolds) {
  TaskResult result;
  result.id = 5;
  result.attempt = 2;
  result.end = End::kMissingOutput;
  result.code = 3;
  result.start = WallTime(Duration(100));
  result.finish = WallTime(Duration(200));
  result.user_time = std::chrono::microseconds(7);
  result.system_time = std::chrono::microseconds(8);
  result.max_rss_kib = -9;
  result.output_offset = 16;
  result.stdout_bytes = 10;
  result.stderr_bytes = 11;
  result.truncated = true;
  result.message = "which";
  result.output_sizes = {12, -1};
  result.made = {.begin_ns = 13, .end_ns = 14, .found = {0, 2}};
  result.made_files = {{.file = FileId(15), .object = store::Object{.id = {.high = 1, .low = 2}, .bytes = 16}, .shared = true},
                       {.file = FileId(17)}};
  result.no_room = 18;
  result.undeclared = 19;
  result.undeclared_paths = {"left"};
  result.read = {{.stream = StreamId(20), .writer = {TaskId(21), 22}, .split = true, .records = OfBytes(23)}};
  result.written = 24;
  result.read_to_end = true;
  result.pus = {1, 3};
  result.devices = "0,1";
  const store::ObjectId object = result.made_files[0].object->id;
  pb::Attempt told;
  ResultToProto(std::move(result), &told);
  EXPECT_EQ(told.task(), 5u);
  EXPECT_EQ(told.attempt(), 2u);
  EXPECT_EQ(told.end(), pb::Attempt::MISSING_OUTPUT);
  EXPECT_EQ(told.code(), 3);
  EXPECT_EQ(told.start_ns(), 100);
  EXPECT_EQ(told.end_ns(), 200);
  EXPECT_EQ(told.usage().user_us(), 7);
  EXPECT_EQ(told.usage().system_us(), 8);
  EXPECT_EQ(told.usage().max_rss_kib(), -9);
  EXPECT_EQ(told.output().offset(), 16u);
  EXPECT_EQ(told.output().stdout_bytes(), 10u);
  EXPECT_EQ(told.output().stderr_bytes(), 11u);
  EXPECT_TRUE(told.output().truncated());
  EXPECT_EQ(told.message(), "which");
  EXPECT_THAT(told.output_sizes(), ElementsAre(12, -1));
  EXPECT_THAT(told.cores(), ElementsAre(1u, 3u));
  EXPECT_EQ(told.gpus(), "0,1");
  EXPECT_EQ(told.made().begin_ns(), 13);
  EXPECT_EQ(told.made().end_ns(), 14);
  EXPECT_THAT(told.made().found(), ElementsAre(0u, 2u));
  ASSERT_EQ(told.made_file_size(), 2);
  EXPECT_EQ(told.made_file(0).file(), 15u);
  EXPECT_EQ(told.made_file(0).object(), object.Bytes());
  EXPECT_EQ(told.made_file(0).bytes(), 16);
  EXPECT_TRUE(told.made_file(0).shared());
  EXPECT_EQ(told.made_file(1).file(), 17u);
  EXPECT_EQ(told.made_file(1).object(), "") << "it was not written";
  EXPECT_FALSE(told.made_file(1).shared());
  EXPECT_EQ(told.no_room(), 18u);
  EXPECT_EQ(told.undeclared(), 19u);
  EXPECT_THAT(told.undeclared_path(), ElementsAre("left"));
  ASSERT_EQ(told.read_size(), 1);
  EXPECT_EQ(told.read(0).stream(), 20u);
  EXPECT_EQ(wire::IdOf(told.read(0).writer()), (AttemptId{TaskId(21), 22}));
  EXPECT_TRUE(told.read(0).split());
  EXPECT_EQ(told.read(0).records(), OfBytes(23));
  EXPECT_EQ(told.written(), 25) << "0 says that it is not known";
  EXPECT_TRUE(told.read_to_end());
  EXPECT_FALSE(told.has_checkpoint());
  EXPECT_FALSE(told.has_gang());
}

TEST(MessagesTest, WhatAResultHasNotIsNotSaid) {
  TaskResult result;
  pb::Attempt told;
  ResultToProto(result, &told);
  EXPECT_FALSE(told.has_output());
  EXPECT_FALSE(told.has_made());
  EXPECT_EQ(told.written(), 0);
  EXPECT_THAT(told.message(), IsEmpty());
  told.Clear();
  result.truncated = true;
  ResultToProto(result, &told);
  EXPECT_TRUE(told.output().truncated()) << "all of it was cut off";
}

TEST(MessagesTest, ACheckpointIsToldWithItsSize) {
  TaskResult result;
  result.end = End::kCheckpointed;
  result.checkpoint_bytes = 5;
  result.checkpoint_took = Duration(6);
  pb::Attempt told;
  ResultToProto(result, &told);
  EXPECT_EQ(told.checkpoint().bytes(), 5);
  EXPECT_EQ(told.checkpoint().took_ns(), 6);
}

TEST(MessagesTest, APartTellsWhenTheFirstOfItsProcessesFailed) {
  TaskResult result;
  result.failed = WallTime(Duration(7));
  pb::Attempt told;
  ResultToProto(result, &told);
  EXPECT_EQ(told.failed_ns(), 0) << "it is no part";
  result.gang = std::make_shared<Gang>(Gang{.nodes = {{.id = NodeId(3), .name = "n3", .ranks = 1}}, .here = 0});
  told.Clear();
  ResultToProto(result, &told);
  EXPECT_EQ(told.failed_ns(), 7);
  ASSERT_EQ(told.gang().node_size(), 1);
  EXPECT_EQ(told.gang().node(0).node(), 3u);
  result.failed.reset();
  told.Clear();
  ResultToProto(result, &told);
  EXPECT_EQ(told.failed_ns(), 0);
}

}  // namespace
}  // namespace harrow::agent
