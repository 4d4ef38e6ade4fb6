#include <map>
#include <random>
#include <set>
#include <thread>

#include "unit/store/store_fixture.h"

namespace harrow::store {
namespace {

using RandomTest = StoreTest;

std::string Content(uint64_t n) {
  return StrCat("content ", n, std::string(static_cast<size_t>(n * 911 % 9000), static_cast<char>('a' + n)));
}

/// What is done to a store, and a model of it that only knows contents: names, and directories as sets.
TEST_F(RandomTest, SequencesAgreeWithAModel) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  constexpr uint64_t kContents = 6;
  std::set<uint64_t> named;
  std::map<ObjectId, std::set<uint64_t>> directories;
  std::map<uint64_t, std::unique_ptr<Arrival>> arrivals;
  const auto held = [&](uint64_t n) {
    bool is = named.contains(n);
    for (const auto& [id, files] : directories) is = is || files.contains(n);
    return is;
  };
  int sandbox = 0;
  for (int step = 0; step < 600; ++step) {
    const uint64_t n = random() % kContents;
    const Object object = FileObject(Content(n));
    switch (random() % 9) {
      case 0:
        EXPECT_EQ(Take(Content(n)), object);
        named.insert(n);
        break;
      case 1: {
        const std::string path = Sandbox(StrCat(++sandbox));
        WriteAt(path + "/out", Content(n));
        EXPECT_EQ(Checked(store_->MoveIn(path + "/out")), object);
        store_->RemoveSandbox(path);
        named.insert(n);
        break;
      }
      case 2: {
        const std::string path = Sandbox(StrCat(++sandbox)) + "/d";
        std::set<uint64_t> files;
        for (uint64_t i = 0; i < kContents; ++i) {
          if (random() % 3 == 0) files.insert(i);
        }
        fs::create_directories(path);
        for (const uint64_t file : files) WriteAt(StrCat(path, "/", file), Content(file));
        const Object directory = random() % 2 == 0 ? CopyIn(path) : Checked(store_->MoveIn(path));
        directories[directory.id] = files;
        store_->RemoveSandbox(StrCat(Root(), "/sandboxes/", sandbox));
        break;
      }
      case 3:
        store_->Drop(object.id);
        named.erase(n);
        arrivals.erase(n);
        break;
      case 4:
        if (directories.empty()) break;
        store_->Drop(directories.begin()->first);
        directories.erase(directories.begin());
        break;
      case 5: {
        Result<std::unique_ptr<Arrival>> begun = store_->Begin(object);
        if (held(n)) {
          EXPECT_EQ(begun.status().code(), Code::kExists);
          named.insert(n);
        } else if (arrivals.contains(n)) {
          EXPECT_EQ(begun.status().code(), Code::kNotFound);
        } else {
          arrivals[n] = Checked(std::move(begun));
        }
        break;
      }
      case 6:
        if (arrivals.contains(n)) {
          const std::string text = Content(n);
          const size_t at = random() % text.size();
          Ok(arrivals[n]->Write(static_cast<int64_t>(at), text.substr(at, random() % text.size())));
          if (random() % 2 == 0) Ok(arrivals[n]->Write(0, text));
          if (arrivals[n]->Missing().empty()) {
            Ok(arrivals[n]->Finish());
            named.insert(n);
            arrivals.erase(n);
          } else if (random() % 4 == 0) {
            arrivals.erase(n);
          }
        }
        break;
      case 7:
        if (random() % 8 == 0) {
          arrivals.clear();
          Open();
        }
        break;
      case 8: {
        if (!held(n)) break;
        const std::string path = Sandbox(StrCat(++sandbox));
        Ok(store_->Place(object.id, "", path + "/in"));
        EXPECT_EQ(TextOf(path + "/in"), Content(n));
        if (random() % 2 == 0) {
          chmod((path + "/in").c_str(), 0600);
          std::ofstream(path + "/in", std::ios::app) << "!";
          if (Linked(path + "/in")) {
            EXPECT_FALSE(store_->Unchanged(object.id));
            named.erase(n);
            std::erase_if(directories, [&](const auto& d) { return d.second.contains(n); });
          }
        }
        store_->RemoveSandbox(path);
        break;
      }
    }
    uint64_t objects = directories.size();
    for (uint64_t i = 0; i < kContents; ++i) {
      ASSERT_EQ(store_->Has(FileObject(Content(i)).id), held(i)) << step;
      objects += held(i);
    }
    ASSERT_EQ(store_->room().objects, objects) << step;
    ASSERT_EQ(store_->All().size(), directories.size() + named.size()) << step;
    ASSERT_EQ(Files("objects"), directories.size() + named.size()) << step;
    ASSERT_EQ(Files("parts"), objects - directories.size() - named.size()) << step;
    for (const auto& [id, files] : directories) ASSERT_TRUE(store_->Has(id)) << step;
  }
  arrivals.clear();
  for (const auto& [id, files] : directories) store_->Drop(id);
  for (uint64_t i = 0; i < kContents; ++i) store_->Drop(FileObject(Content(i)).id);
  EXPECT_EQ(store_->room().used, 0u);
  EXPECT_EQ(Files("objects") + Files("parts") + Files("arriving"), 0u);
}

/// Threads that take, place, read and drop the same few contents: whatever one gets is right, and nothing
/// stays.
TEST_F(RandomTest, SeveralThreadsAtOnce) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  Write("d/1", Content(1));
  Write("d/2", Content(2));
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + static_cast<uint64_t>(t));
      const std::string own = StrCat("t", t);
      for (int step = 0; step < 150; ++step) {
        const uint64_t n = random() % 4;
        const std::string text = Content(n);
        const Object object = FileObject(text);
        switch (random() % 6) {
          case 0:
            EXPECT_EQ(CopyIn(Write(own, text)), object);
            break;
          case 1: {
            const Object directory = CopyIn(At("d"));
            if (random() % 2 == 0) store_->Drop(directory.id);
            break;
          }
          case 2: {
            const std::string sandbox = Sandbox(own);
            if (store_->Place(object.id, "", sandbox + "/x/in").ok()) {
              EXPECT_EQ(TextOf(sandbox + "/x/in"), text);
            }
            WriteAt(sandbox + "/out", text);
            EXPECT_EQ(Checked(store_->MoveIn(sandbox + "/out")), object);
            store_->RemoveSandbox(sandbox);
            break;
          }
          case 3: {
            Result<std::unique_ptr<Arrival>> arrival = store_->Begin(object, random() % 4 == 0);
            if (!arrival.ok()) break;
            Result<std::unique_ptr<Reader>> reader = store_->Read(object.id);
            if (reader.ok()) (*reader)->WhenBeyond(3, [](bool) {});
            (void)(*arrival)->Write(5, std::string_view(text).substr(5));
            if (random() % 4 == 0) break;
            (void)(*arrival)->Write(0, std::string_view(text).substr(0, 5));
            const Status status = (*arrival)->Finish();
            EXPECT_TRUE(status.ok() || status.code() == Code::kNotFound || status.code() == Code::kInvalid)
                << status.message();
            break;
          }
          case 4:
            store_->Drop(object.id);
            break;
          case 5: {
            const Result<std::unique_ptr<Reader>> reader = store_->Read(object.id);
            if (reader.ok() && (*reader)->here() == (*reader)->bytes()) {
              std::string read(text.size(), '\0');
              EXPECT_EQ(pread((*reader)->fd(), read.data(), read.size(), 0),
                        static_cast<ssize_t>(read.size()));
              EXPECT_EQ(read, text);
            }
            if (store_->Has(object.id)) (void)store_->Unchanged(object.id);
            (void)store_->room();
            (void)store_->All();
            break;
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t n = 0; n < 4; ++n) store_->Drop(FileObject(Content(n)).id);
  store_->Drop(CopyIn(At("d")).id);
  EXPECT_EQ(store_->room().used, 0u);
  EXPECT_EQ(store_->room().objects, 0u);
  EXPECT_EQ(Files("objects") + Files("parts") + Files("arriving"), 0u);
}

}  // namespace
}  // namespace harrow::store
