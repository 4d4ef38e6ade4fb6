// The files of two nodes as the server speaks of them, with real stores and channels between.
#include "agent/file_port.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

#include "live/transfer_nodes.h"
#include "wire/harrow.pb.h"

namespace harrow::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string TextAt(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class FilePortTest : public testing::Test {
 protected:
  /// The files of a node of the run, and what it says of them.
  class Node {
   public:
    Node(const FilePortTest& test, uint32_t id, bool encrypt = true, const std::string& base = {}, char key = 'k') {
      auto home = StoreHome::Open({.base = base,
                                   .of_job = true,
                                   .tmp = own_.path(),
                                   .node = "n" + std::to_string(id),
                                   .session = "session",
                                   .limit = 64 << 20});
      if (!home.ok()) ADD_FAILURE() << home.status().message();
      home_ = *std::move(home);
      pb::Welcome welcome;
      welcome.set_node(id);
      welcome.set_submit_dir(test.submit_.path());
      welcome.set_exchange(test.exchange_.path());
      welcome.set_plain_transfers(!encrypt);
      auto port = FilePort::Open({.home = home_.get(), .incarnation = 1000 + id}, welcome, "127.0.0.1:1",
                                 {.run_id = "run-1", .key = std::string(32, key)},
                                 {.arrived = [this](AttemptId) { Note([this] { ++arrived_; }); },
                                  .failed =
                                      [this](AttemptId, const std::string& why) {
                                        Note([&] { failed_.push_back(why); });
                                      },
                                  .tell = [this](const FileNews& news) { Note([&] { news_.push_back(news); }); }});
      if (!port.ok()) ADD_FAILURE() << port.status().message();
      port_ = *std::move(port);
    }
    ~Node() { port_.reset(); }
    /// What the message makes it say.
    FileNews Take(const pb::ToAgent& message) {
      port_->Take(message);
      std::unique_lock lock(mutex_);
      EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [this] { return !news_.empty(); }));
      FileNews first = news_.empty() ? FileNews() : news_.front();
      if (!news_.empty()) news_.erase(news_.begin());
      return first;
    }
    void Know(uint32_t id, const std::vector<std::string>& addresses) {
      pb::ToAgent message;
      pb::Peer* const peer = message.add_peer();
      peer->set_node(id);
      peer->set_incarnation(1000 + id);
      for (const std::string& address : addresses) peer->add_address(address);
      port_->Take(message);
    }
    FilePort& port() { return *port_; }
    /// One slot works: what was asked of it before is done.
    void Done() {
      port_->files()->Outside([] {});
    }
    std::vector<uint32_t> HeldNow() {
      pb::AgentHello hello;
      port_->NameHeld(&hello);
      std::vector<uint32_t> files;
      for (const pb::HeldFile& held : hello.held()) files.push_back(held.file());
      return files;
    }
    std::vector<std::string> failed() {
      const std::lock_guard lock(mutex_);
      return failed_;
    }

   private:
    void Note(const std::function<void()>& note) {
      const std::lock_guard lock(mutex_);
      note();
      changed_.notify_all();
    }
    test::OwnDirectory own_;
    std::unique_ptr<StoreHome> home_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<FileNews> news_;
    std::vector<std::string> failed_;
    int arrived_ = 0;
    std::unique_ptr<FilePort> port_;
  };

  void Submit(const std::string& name, const std::string& text) { std::ofstream(submit_.path() + "/" + name) << text; }
  /// From the submit directory.
  static pb::ToAgent Copy(uint32_t file, const std::string& path) {
    pb::ToAgent message;
    message.add_copy()->set_file(file);
    message.mutable_copy(0)->set_path(path);
    return message;
  }
  static void Name(const store::Object& object, pb::CopyFile* copy) {
    copy->set_object(object.id.Bytes());
    copy->set_bytes(object.bytes);
  }

  test::OwnDirectory submit_, exchange_;
};

TEST_F(FilePortTest, WhatIsBroughtIsHeldSavedPutAndDropped) {
  Submit("f", "content");
  Node node(*this, 1);
  const FileNews stored = node.Take(Copy(5, "f"));
  ASSERT_EQ(stored.what, FileNews::What::kStored) << stored.text;
  EXPECT_EQ(stored.file, FileId(5));
  ASSERT_TRUE(stored.object);
  EXPECT_EQ(stored.object->bytes, 7);
  EXPECT_FALSE(stored.from);
  EXPECT_EQ(stored.moved, 7);
  pb::AgentHello hello;
  node.port().NameHeld(&hello);
  ASSERT_EQ(hello.held_size(), 1);
  EXPECT_EQ(hello.held(0).file(), 5u);
  EXPECT_EQ(hello.held(0).object(), stored.object->id.Bytes());
  EXPECT_EQ(hello.held(0).bytes(), 7);

  pb::ToAgent message;
  message.add_save()->set_file(5);
  message.mutable_save(0)->set_path("saved");
  EXPECT_EQ(node.Take(message).what, FileNews::What::kSaved);
  EXPECT_EQ(TextAt(submit_.path() + "/saved"), "content");

  message.Clear();
  pb::PutFile* put = message.add_put();
  put->set_file(5);
  put->set_object(stored.object->id.Bytes());
  put->set_name("5-x");
  put->set_number(77);
  const FileNews lies = node.Take(message);
  EXPECT_EQ(lies.what, FileNews::What::kPut) << lies.text;
  EXPECT_EQ(lies.put, 77u);
  EXPECT_EQ(TextAt(exchange_.path() + "/5-x"), "content");
  put->clear_object();
  put->set_content("a list");
  put->set_name("list");
  EXPECT_EQ(node.Take(message).what, FileNews::What::kPut);
  EXPECT_EQ(TextAt(exchange_.path() + "/list"), "a list");

  message.Clear();
  message.add_unput("5-x");
  node.port().Take(message);
  node.Done();
  EXPECT_FALSE(std::filesystem::exists(exchange_.path() + "/5-x"));
  EXPECT_TRUE(std::filesystem::exists(exchange_.path() + "/list"));

  message.Clear();
  message.add_drop(5);
  node.port().Take(message);
  EXPECT_THAT(node.HeldNow(), IsEmpty());
}

TEST_F(FilePortTest, WhatIsDamagedTakesAlongWhatIsTheSame) {
  Submit("f", "content");
  Submit("g", "content");
  Node node(*this, 1);
  for (const auto& [file, path] : {std::pair(5, "f"), {6, "g"}})
    EXPECT_EQ(node.Take(Copy(static_cast<uint32_t>(file), path)).what, FileNews::What::kStored);
  EXPECT_THAT(node.HeldNow(), testing::UnorderedElementsAre(5u, 6u));
  pb::ToAgent message;
  message.add_drop_damaged(5);
  const FileNews gone = node.Take(message);
  EXPECT_EQ(gone.what, FileNews::What::kGone);
  EXPECT_EQ(gone.file, FileId(6));
  EXPECT_THAT(node.HeldNow(), IsEmpty());
}

TEST_F(FilePortTest, WhoWaitsForWhatThereIsNoRoomForFails) {
  Node node(*this, 1);
  LocalTask task;
  task.id = 9;
  task.inputs.push_back({FileId(5), "f"});
  EXPECT_EQ(node.port().files()->Await(task).inputs, 1u);
  pb::ToAgent message;
  message.add_refuse(5);
  node.port().Take(message);
  EXPECT_THAT(node.failed(), ElementsAre(HasSubstr("no room on its node")));
}

TEST_F(FilePortTest, WhatHasToBeOneThingAndIsAnotherIsDamaged) {
  Submit("f", "content");
  std::ofstream(exchange_.path() + "/5-x") << "content";
  Node node(*this, 1);
  pb::ToAgent message = Copy(5, "nowhere");
  pb::CopyFile* const copy = message.mutable_copy(0);
  copy->set_exchange("5-x");
  const FileNews stored = node.Take(message);
  ASSERT_EQ(stored.what, FileNews::What::kStored) << "it is in the exchange: " << stored.text;
  store::Object other = *stored.object;
  ++other.id.low;
  Name(other, copy);
  copy->set_listed(true);
  copy->set_file(6);
  const FileNews damaged = node.Take(message);
  EXPECT_EQ(damaged.what, FileNews::What::kDamaged);
  EXPECT_EQ(damaged.object, other);
  copy->set_exchange("missing");
  EXPECT_EQ(node.Take(message).what, FileNews::What::kAbsent);
  copy->clear_object();
  EXPECT_EQ(node.Take(message).what, FileNews::What::kUnreadable) << "nobody has said what it has to be";
}

TEST_F(FilePortTest, WhatAnotherNodeHasComesFromIt) {
  for (const bool encrypt : {true, false}) {
    std::string text;
    for (size_t i = 0; i < 3'000'000; ++i) text += static_cast<char>(i * 7919 >> 9);
    Submit("f", text);
    Node giver(*this, 1, encrypt), taker(*this, 2, encrypt);
    const FileNews stored = giver.Take(Copy(5, "f"));
    ASSERT_EQ(stored.what, FileNews::What::kStored) << stored.text;
    giver.Know(2, taker.port().addresses());
    taker.Know(1, giver.port().addresses());
    pb::ToAgent message = Copy(5, "f");
    Name(*stored.object, message.mutable_copy(0));
    message.mutable_copy(0)->set_from(2);  // node 1
    const FileNews came = taker.Take(message);
    ASSERT_EQ(came.what, FileNews::What::kStored) << came.text;
    EXPECT_EQ(came.from, NodeId(1));
    EXPECT_EQ(came.moved, 3'000'000);
    EXPECT_EQ(came.object, stored.object);
    message.Clear();
    message.add_save()->set_file(5);
    message.mutable_save(0)->set_path("saved");
    EXPECT_EQ(taker.Take(message).what, FileNews::What::kSaved);
    EXPECT_TRUE(TextAt(submit_.path() + "/saved") == text);
    std::filesystem::remove(submit_.path() + "/saved");

    message = Copy(6, "f");
    store::Object other = *stored.object;
    ++other.id.low;
    Name(other, message.mutable_copy(0));
    message.mutable_copy(0)->set_from(2);
    EXPECT_EQ(taker.Take(message).what, FileNews::What::kAbsent) << "it has no such content";
    message.mutable_copy(0)->set_from(3);
    EXPECT_EQ(taker.Take(message).what, FileNews::What::kAbsent) << "it is this node itself";
    taker.Know(1, {});  // it is gone
    giver.port().Stop();
    taker.port().Stop();
  }
}

TEST_F(FilePortTest, WhatAnEarlierAgentHeldIsHeldAndGoesToOneThatHasGotTheRunsKey) {
  Submit("f", "content");
  Submit("g", "another");
  const test::OwnDirectory base;
  store::Object object;
  {
    Node node(*this, 1, true, base.path());
    const FileNews stored = node.Take(Copy(5, "f"));
    ASSERT_EQ(stored.what, FileNews::What::kStored) << stored.text;
    object = *stored.object;
  }
  Node node(*this, 1, true, base.path()), other(*this, 2, true, {}, 'q');
  EXPECT_THAT(node.HeldNow(), ElementsAre(5u));
  other.port().SetCredentials({.run_id = "run-1", .key = std::string(32, 'k')});
  EXPECT_EQ(other.Take(Copy(6, "g")).what, FileNews::What::kStored) << "it has the key by then";
  node.Know(2, other.port().addresses());
  other.Know(1, node.port().addresses());
  pb::ToAgent message = Copy(5, "f");
  Name(object, message.mutable_copy(0));
  message.mutable_copy(0)->set_from(2);
  const FileNews came = other.Take(message);
  EXPECT_EQ(came.what, FileNews::What::kStored) << came.text;
}

}  // namespace
}  // namespace harrow::agent
