#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <stdlib.h>
#include <string>
#include <vector>

#include "journal/journal.h"

namespace harrow::test {

/// A run directory of its own, removed at the end.
class JournalDir {
 public:
  JournalDir() {
    std::string path = (std::filesystem::temp_directory_path() / "harrow-journal-test-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) abort();
    path_ = path;
  }
  ~JournalDir() { std::filesystem::remove_all(path_); }
  JournalDir(const JournalDir&) = delete;
  JournalDir& operator=(const JournalDir&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::map<std::string, std::string> Contents() const {
    std::map<std::string, std::string> all;
    for (const std::string& name : Files()) {
      std::ifstream file(File(name), std::ios::binary);
      all[name].assign(std::istreambuf_iterator<char>(file), {});
    }
    return all;
  }
  void Put(const std::map<std::string, std::string>& contents) {
    for (const std::string& name : Files()) std::filesystem::remove(File(name));
    for (const auto& [name, bytes] : contents) {
      std::ofstream(File(name), std::ios::binary)
          .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
  }
  /// What a killed server would leave at this moment.
  void CopyFrom(const JournalDir& other) { Put(other.Contents()); }

 private:
  std::string path_;
};

inline void ExpectEqual(const journal::History& got, const journal::History& wrote) {
  EXPECT_TRUE(got.tasks == wrote.tasks) << got.tasks.size() << " and " << wrote.tasks.size() << " tasks";
  EXPECT_TRUE(got.fates == wrote.fates) << got.fates.size() << " and " << wrote.fates.size() << " fates";
  EXPECT_TRUE(got.attempts == wrote.attempts)
      << got.attempts.size() << " and " << wrote.attempts.size() << " attempts";
  EXPECT_TRUE(got.parts == wrote.parts) << got.parts.size() << " and " << wrote.parts.size() << " parts";
  EXPECT_TRUE(got.copies == wrote.copies) << got.copies.size() << " and " << wrote.copies.size() << " copies";
  EXPECT_TRUE(got.nodes == wrote.nodes) << got.nodes.size() << " and " << wrote.nodes.size() << " nodes";
  EXPECT_TRUE(got.moves == wrote.moves) << got.moves.size() << " and " << wrote.moves.size() << " moves";
}

inline bool Equal(const journal::History& a, const journal::History& b) {
  return a.tasks == b.tasks && a.fates == b.fates && a.attempts == b.attempts && a.nodes == b.nodes &&
         a.copies == b.copies && a.parts == b.parts && a.moves == b.moves;
}

/// Random records; task ids rise.
class RecordMaker {
 public:
  explicit RecordMaker(uint64_t seed) : random_(seed) {}

  journal::TaskRecord Task() {
    journal::TaskRecord t;
    t.task = TaskId(next_task_++);
    t.name = "task-" + std::to_string(t.task.value) + Text(6);
    t.kind = random_() % 2 == 0 ? "mProject" : "mAdd";
    t.identity_high = random_();
    t.identity_low = random_();
    t.level = static_cast<int32_t>(random_() % 7) - 1;
    t.cores = static_cast<uint32_t>(random_() % 64);
    return t;
  }
  journal::AttemptRecord Attempt() {
    journal::AttemptRecord a;
    a.task = SomeTask();
    a.attempt = static_cast<uint32_t>(1 + random_() % 3);
    a.node = random_() % 9 == 0 ? NodeId() : NodeId(static_cast<uint32_t>(random_() % 5));
    a.end = static_cast<journal::End>(1 + random_() % 8);
    a.code = static_cast<int32_t>(random_());
    a.start_ns = Number();
    a.end_ns = Number();
    a.user_us = Number();
    a.system_us = Number();
    a.max_rss_kib = Number();
    a.output_file = static_cast<uint32_t>(random_());
    a.output_offset = random_();
    a.stdout_bytes = random_();
    a.stderr_bytes = random_();
    a.output_truncated = random_() % 2 == 0;
    a.message = random_() % 5 == 0 ? Text(300) : "";
    a.cores = Text(8);
    a.local_bytes = Number();
    a.remote_bytes = Number();
    a.home_bytes = Number();
    if (random_() % 4 == 0) a.output_task = SomeTask();
    return a;
  }
  journal::PartRecord Part() {
    const journal::AttemptRecord a = Attempt();
    return {.task = a.task,
            .attempt = a.attempt,
            .part = static_cast<uint32_t>(random_() % 64),
            .nodes = static_cast<uint32_t>(random_() % 64),
            .node = a.node,
            .ranks = static_cast<uint32_t>(random_() % 128),
            .end = a.end,
            .code = a.code,
            .start_ns = a.start_ns,
            .end_ns = a.end_ns,
            .failed_ns = Number(),
            .user_us = a.user_us,
            .system_us = a.system_us,
            .max_rss_kib = a.max_rss_kib,
            .output_file = a.output_file,
            .output_offset = a.output_offset,
            .stdout_bytes = a.stdout_bytes,
            .stderr_bytes = a.stderr_bytes,
            .output_truncated = a.output_truncated,
            .message = a.message,
            .cores = a.cores,
            .output_task = a.output_task};
  }
  journal::FateRecord Fate() {
    return {SomeTask(), static_cast<journal::TaskFate>(random_() % 5),
            random_() % 2 == 0 ? TaskId() : SomeTask()};
  }
  journal::CopyRecord Copy() {
    const auto node = [&] {
      return random_() % 3 == 0 ? NodeId() : NodeId(static_cast<uint32_t>(random_() % 5));
    };
    return {.path = Text(20),
            .task = SomeTask(),
            .from = node(),
            .to = node(),
            .bytes = Number(),
            .end_ns = Number()};
  }
  journal::MoveRecord Move() {
    return {.what = static_cast<journal::MoveRecord::What>(1 + random_() % 4),
            .giver = static_cast<uint32_t>(random_() % 5),
            .taker = static_cast<uint32_t>(random_() % 5),
            .number = random_(),
            .tasks = Text(30),
            .tried = Text(10),
            .time_ns = Number()};
  }
  journal::NodeRecord Node() {
    journal::NodeRecord n;
    n.node = NodeId(static_cast<uint32_t>(random_() % 5));
    n.name = Text(12);
    n.slots = static_cast<uint32_t>(random_());
    n.incarnation = random_();
    n.output_file = static_cast<uint32_t>(random_());
    n.joined_ns = Number();
    n.left_ns = Number();
    n.topology = Text(60);
    return n;
  }

  void AddTasks(journal::Journal& journal, size_t count, journal::History* wrote) {
    std::vector<journal::TaskRecord> tasks;
    for (size_t i = 0; i < count; ++i) tasks.push_back(Task());
    wrote->tasks.insert(wrote->tasks.end(), tasks.begin(), tasks.end());
    journal.Add(std::move(tasks));
  }
  void AddSome(journal::Journal& journal, size_t count, journal::History* wrote) {
    for (size_t i = 0; i < count; ++i) {
      if (i % 3 == 0) journal.Add(wrote->fates.emplace_back(Fate()));
      if (i % 10 == 0) journal.Add(wrote->nodes.emplace_back(Node()));
      if (i % 7 == 0) journal.Add(wrote->copies.emplace_back(Copy()));
      if (i % 6 == 0) journal.Add(wrote->parts.emplace_back(Part()));
      if (i % 8 == 0) journal.Add(wrote->moves.emplace_back(Move()));
      journal.Add(wrote->attempts.emplace_back(Attempt()));
    }
  }
  /// A whole journal, closed.
  journal::History Write(const std::string& run_dir, const journal::Journal::Options& options, size_t tasks) {
    journal::History wrote;
    auto journal = journal::Journal::Open(run_dir, options);
    EXPECT_TRUE(journal.ok()) << journal.status().message();
    AddTasks(**journal, tasks, &wrote);
    AddSome(**journal, tasks, &wrote);
    EXPECT_TRUE((*journal)->Close().ok());
    return wrote;
  }

 private:
  TaskId SomeTask() { return TaskId(static_cast<uint32_t>(random_() % std::max(next_task_, 1u))); }
  int64_t Number() { return static_cast<int64_t>(random_() >> (random_() % 64)); }
  std::string Text(size_t longest) {
    std::string text(random_() % (longest + 1), ' ');
    for (char& c : text) c = static_cast<char>('!' + random_() % 90);
    return text;
  }

  std::mt19937_64 random_;
  uint32_t next_task_ = 0;
};

}  // namespace harrow::test
