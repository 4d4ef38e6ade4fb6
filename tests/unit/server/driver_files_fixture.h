// A server whose run has its files on the nodes' own disks, and agents as far as files go.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "unit/server/driver_fixture.h"

namespace harrow::server {

inline std::string ObjectOf(char letter) {
  return std::string(17, letter);
}

struct FileAgent : Agent {
  std::vector<pb::CopyFile> copies;
  std::vector<uint32_t> refused{};
  std::vector<uint32_t> drops;
  std::vector<uint32_t> damaged{};
  std::vector<uint32_t> saves{};
  std::map<uint32_t, std::vector<std::string>> peers;
};

class DriverFilesTest : public DriverTest {
 protected:
  void Come(FileAgent* agent, const std::string& name, uint64_t incarnation) {
    ComeWith(agent, name, incarnation, {});
  }
  /// With what its store holds: of an agent of this run before it, of earlier runs.
  void ComeWith(FileAgent* agent, const std::string& name, uint64_t incarnation,
                const std::vector<std::pair<const char*, char>>& held,
                const std::vector<std::pair<const char*, char>>& staged = {}) {
    pb::FromAgent hello = Hello(name, incarnation, 1);
    for (const auto& [path, object] : held) {
      pb::HeldFile* file = hello.mutable_hello()->add_held();
      file->set_file(File(path));
      file->set_object(ObjectOf(object));
      file->set_bytes(10);
    }
    for (const auto& [path, object] : staged) {
      pb::StagedFile* file = hello.mutable_hello()->add_staged();
      file->set_path(path);
      file->set_object(ObjectOf(object));
      file->set_bytes(10);
    }
    ASSERT_NO_FATAL_FAILURE(Connect(agent, hello));
    pb::FromAgent where;
    where.add_peer_address(name + ":1");
    Tell(agent, where);
  }
  /// An agent is gone with what task 0 has made; another comes to its node, and gets the task again.
  void LoseWhatWasMade(FileAgent* first, FileAgent* again, const char* made) {
    Come(first, "n1", 1);
    Tell(first, Made(first, 0, {{File(made), 'm'}}));
    driver_->Disconnected(Now(), first->node, first->channel.get());
    Come(again, "n1", 2);
    Watch(std::chrono::seconds(40), {again});
    Look(again);
    ASSERT_EQ(again->tasks.count(0), 1u) << "made again";
  }
  void Tell(FileAgent* agent, const pb::FromAgent& message) {
    driver_->Handle(Now(), agent->node, message);
    Look(agent);
  }
  /// What it has been sent.
  void Look(FileAgent* agent) {
    driver_->Flush(Now());
    for (const std::string& bytes : agent->channel->TakeSent()) {
      pb::ToAgent message;
      ASSERT_TRUE(message.ParseFromString(bytes));
      for (const pb::Peer& peer : message.peer())
        agent->peers[peer.node()] = {peer.address().begin(), peer.address().end()};
      for (const pb::SaveFile& save : message.save()) agent->saves.push_back(save.file());
      for (const uint32_t drop : message.drop()) agent->drops.push_back(drop);
      for (const uint32_t drop : message.drop_damaged()) agent->damaged.push_back(drop);
      for (const uint32_t refuse : message.refuse()) agent->refused.push_back(refuse);
      for (const pb::CopyFile& copy : message.copy()) agent->copies.push_back(copy);
      for (const pb::Task& task : message.start()) agent->tasks[task.id()] = task;
      for (const pb::AttemptId& attempt : message.take_back()) agent->taken_back.push_back(attempt.task());
    }
  }
  pb::FromAgent Note(uint32_t file, pb::FileNote::What what, char object, NodeId from = {}) {
    pb::FromAgent message;
    pb::FileNote* note = message.add_file();
    note->set_file(file);
    note->set_what(what);
    if (what == pb::FileNote::STORED) {
      note->set_object(ObjectOf(object));
      note->set_bytes(10);
      note->set_moved(10);
    }
    if (from) note->set_from(from.value + 1);
    return message;
  }
  pb::FromAgent Made(FileAgent* agent, uint32_t task, std::vector<std::pair<uint32_t, char>> files) {
    pb::FromAgent message = Ended(agent, {task});
    for (const auto& [file, object] : files) {
      pb::MadeFile* made = message.mutable_ended(0)->mutable_attempt(0)->add_made_file();
      made->set_file(file);
      if (object == 0) continue;
      made->set_object(ObjectOf(object));
      made->set_bytes(10);
    }
    return message;
  }
  uint32_t File(const char* name) { return flow_.graph.FindFile(name)->value; }
};

}  // namespace harrow::server
