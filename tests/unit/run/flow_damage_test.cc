// Flows whose parts are whole, each for itself, and do not fit each other.

#define XXH_INLINE_ALL
#include <filesystem>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string>
#include <vector>
#include <xxhash.h>
#include <zstd.h>

#include "base/text.h"
#include "run/flow_store.h"
#include "run_dir/names.h"
#include "wire/harrow.pb.h"

namespace harrow::run {
namespace {

/// flow_format.md
std::string Little(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}
std::string Frame(const std::string& raw) {
  std::string packed(ZSTD_compressBound(raw.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), 1));
  return Little(packed.size(), 4) + Little(raw.size(), 4) +
         Little(XXH3_64bits(packed.data(), packed.size()), 8) + packed;
}

class FlowDamage : public testing::Test {
 protected:
  /// One profile, one kind, one file, and a task of each.
  FlowDamage() {
    path_ = (std::filesystem::temp_directory_path() / "harrow-flow-XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr) abort();
    part_ = run_dir::MakePart(run_dir::RunDir::Open(path_).value()).value();
    head_.mutable_settings()->set_run_id("run");
    head_.add_profile();
    head_.add_kind("kind");
    head_.add_file()->set_name("file");
    task_.set_command("true");
    task_.add_in(0);
    task_.set_source(1);  // of none
  }
  ~FlowDamage() override { std::filesystem::remove_all(path_); }
  void Write(const std::vector<std::string>& raw, uint64_t tasks) {
    std::string data = "HARROWFL" + Little(kFlowVersion, 4);
    for (const std::string& each : raw) data += Frame(each);
    data += Little(0, 4) + Little(raw.size(), 4) + Little(tasks, 8);
    ASSERT_TRUE(part_.run->WriteWhole(path_ + "/flow", data).ok());
  }
  Status Read(const pb::StoredTask& task) {
    pb::FlowChunk tasks;
    *tasks.add_task() = task;
    Write({head_.SerializeAsString(), tasks.SerializeAsString()}, 1);
    return ReadFlow(part_).status();
  }
  std::string Damaged(const std::string& what) const {
    return StrCat(path_, "/flow: the flow of the run is damaged (", what,
                  "); start a new run in another directory");
  }

  std::string path_;
  run_dir::Part part_;
  pb::FlowChunk head_;
  pb::StoredTask task_;
};

TEST_F(FlowDamage, AnIndexOfNothingIsDamage) {
  EXPECT_TRUE(Read(task_).ok()) << Read(task_).message();
  const std::string misfit = Damaged("a part does not fit the others");
  pb::StoredTask task = task_;
  task.set_profile(1);
  EXPECT_EQ(Read(task).message(), misfit);
  task = task_;
  task.set_kind(1);
  EXPECT_EQ(Read(task).message(), misfit);
  task.set_kind(KindId::kNone);
  EXPECT_TRUE(Read(task).ok()) << "of no kind";
  task = task_;
  task.set_form(static_cast<uint32_t>(graph::CommandForm::kAssigned));
  EXPECT_TRUE(Read(task).ok());
  task.set_form(task.form() + 1);
  EXPECT_EQ(Read(task).message(), misfit);
  task = task_;
  task.set_in(0, 1);
  EXPECT_EQ(Read(task).message(), misfit);
  task = task_;
  task.add_out(1);
  EXPECT_EQ(Read(task).message(), misfit);
  for (const bool any : {false, true}) {
    task = task_;
    any ? task.add_after_any(1) : task.add_after(1);
    EXPECT_EQ(Read(task).message(), Damaged("a task follows one that is not there"));
    any ? task.set_after_any(0, 0) : task.set_after(0, 0);
    EXPECT_EQ(Read(task).code(), Code::kDamaged) << "itself";
  }
}

TEST_F(FlowDamage, AStreamOrAModelOfTasksThatAreNotThereIsDamage) {
  pb::FlowChunk tasks;
  for (int i = 0; i < 2; ++i) *tasks.add_task() = task_;
  const auto with = [&](const pb::FlowChunk& chunk) {
    Write({head_.SerializeAsString(), tasks.SerializeAsString(), chunk.SerializeAsString()}, 2);
    return ReadFlow(part_).status().message();
  };
  const std::string misfit = Damaged("a part does not fit the others");
  const auto model = [&](uint32_t first, uint32_t count) {
    pb::FlowChunk chunk;
    pb::StoredModel& stored = *chunk.add_model();
    stored.set_first(first);
    stored.set_count(count);
    stored.set_text("compute(1)");
    return with(chunk);
  };
  EXPECT_EQ(model(0, 2), "");
  EXPECT_EQ(model(1, 1), "");
  for (const auto& [first, count] : {std::pair(0u, 3u), {1u, 2u}, {2u, 1u}}) EXPECT_EQ(model(first, count), misfit);
  pb::FlowChunk good;
  pb::StoredStream& stream = *good.add_stream();
  stream.set_name("s");
  stream.add_writer(0);
  stream.add_reader(1);
  stream.add_held_by(1);
  stream.add_hold()->set_task(2);  // from 1 on
  EXPECT_EQ(with(good), "");
  pb::FlowChunk bad[] = {good, good, good, good};
  bad[0].mutable_stream(0)->set_writer(0, 2);
  bad[1].mutable_stream(0)->set_reader(0, 2);
  bad[2].mutable_stream(0)->set_held_by(0, 2);
  bad[3].mutable_stream(0)->mutable_hold(0)->set_task(3);
  for (const pb::FlowChunk& chunk : bad) EXPECT_EQ(with(chunk), misfit);
}

TEST_F(FlowDamage, ATaskOfASourceThatIsNotThereHasNoPlace) {
  EXPECT_TRUE(Read(task_).ok());
  EXPECT_EQ(ReadTaskTexts(part_, {TaskId(0)})->at(0).place, "");
  head_.mutable_settings()->add_source("a.toml");
  head_.mutable_settings()->add_source("b.toml");
  task_.set_line(7);
  EXPECT_TRUE(Read(task_).ok());
  EXPECT_EQ(ReadTaskTexts(part_, {TaskId(0)})->at(0).place, "b.toml:7");
}

TEST_F(FlowDamage, NoStageIsGuessed) {
  head_.mutable_settings()->set_stage(static_cast<uint32_t>(Stage::kDrop));
  EXPECT_TRUE(Read(task_).ok());
  EXPECT_EQ(ReadFlow(part_)->settings.stage, Stage::kDrop);
  head_.mutable_settings()->set_stage(static_cast<uint32_t>(Stage::kDrop) + 1);
  EXPECT_EQ(Read(task_).code(), Code::kRefused);
  EXPECT_EQ(ReadSettings(part_).status().code(), Code::kRefused);
}

TEST_F(FlowDamage, APartThatIsNoneOfAFlow) {
  Write({head_.SerializeAsString(), "\x0f"}, 0);
  EXPECT_EQ(ReadFlow(part_).status().message(), Damaged("a part does not read"));
  EXPECT_TRUE(ReadSettings(part_).ok()) << "which come first";
  EXPECT_EQ(ReadTaskTexts(part_, {TaskId(0)}).status().message(), Damaged("a part does not read"));
  Write({"\x0f"}, 0);
  EXPECT_EQ(ReadSettings(part_).status().message(), Damaged("its settings do not read"));
  head_.clear_settings();
  Write({head_.SerializeAsString()}, 0);
  EXPECT_EQ(ReadSettings(part_).status().message(), Damaged("its settings do not read"));
  Write({}, 0);
  EXPECT_EQ(ReadSettings(part_).status().message(), Damaged("its settings do not read"));
}

TEST_F(FlowDamage, WhatCannotBeReadIsNotTakenForNone) {
  std::filesystem::create_directory(path_ + "/flow");
  for (const Status& status : {ReadFlow(part_).status(), ReadSettings(part_).status()}) {
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.code(), Code::kNotFound) << status.message();
  }
}

TEST_F(FlowDamage, WhatWasSubmittedThatIsWholeAndDoesNotRead) {
  EXPECT_TRUE(Read(task_).ok());
  pb::AddedHead of;
  of.set_tasks(1);
  const std::string begin = "HARROWAD" + Little(1, 4), head = Frame(of.SerializeAsString());
  const std::string path = run_dir::AddedPath(part_.dir->path());
  const auto with = [&](const std::string& data) {
    EXPECT_TRUE(part_.dir->WriteWhole(path, data).ok());
    return ReadFlow(part_).status().message();
  };
  const auto damaged = [&](const std::string& what) {
    return StrCat(path, ": what was submitted to the run is damaged (", what,
                  "); start a new run in another directory");
  };
  EXPECT_EQ(with(begin + head), "");
  EXPECT_EQ(with(begin), damaged("it has no head"));
  EXPECT_EQ(with(begin.substr(0, 11)), damaged("it does not begin as such a file does"));
  EXPECT_EQ(with(begin + Frame("\x0f")), damaged("its head does not read"));
  EXPECT_EQ(with(begin + head + Frame("\x0f")), damaged("a part does not read"));
  pb::AddedGroup group;
  group.mutable_chunk()->mutable_settings();
  EXPECT_EQ(with(begin + head + Frame(group.SerializeAsString())), damaged("a part is of another file"));
}

TEST_F(FlowDamage, TasksThatAreMissing) {
  Write({head_.SerializeAsString()}, 1);
  EXPECT_EQ(ReadFlow(part_).status().message(), Damaged("tasks are missing"));
  EXPECT_TRUE(ReadTaskTexts(part_, {TaskId(0)})->empty());
}

}  // namespace
}  // namespace harrow::run
