// What is read of CRIU's log, and what is done with files before an image is restored.
#include <algorithm>
#include <atomic>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

#include "base/text.h"
#include "criu/numbers.h"
#include "criu/open_files.h"
#include "criu/rpc.h"

namespace harrow::criu {
namespace {

namespace fs = std::filesystem;

TEST(FirstFreeTest, ARowOfFreeNumbers) {
  EXPECT_EQ(FirstFree({}, 10, 100), 10);
  EXPECT_EQ(FirstFree({10'000, 1}, 10, 100), 10);
  EXPECT_EQ(FirstFree({10'001, 10'000, 10}, 10, 100), 11);
  EXPECT_EQ(FirstFree({110}, 10, 100), 10);
  EXPECT_EQ(FirstFree({109}, 10, 100), 110);
  EXPECT_EQ(FirstFree({109, 150, 300, 251, 250}, 10, 100), 301) << "151 to 249 are one too few";
  EXPECT_EQ(FirstFree({109, 150, 300, 251}, 10, 100), 151);
}

TEST(NumbersOfTest, ThoseOfThreadsGroupAndSession) {
  std::atomic<int> thread{0};
  std::atomic<bool> may_end{false};
  std::thread other([&] {
    thread = static_cast<int>(gettid());
    thread.notify_one();
    may_end.wait(false);
  });
  thread.wait(0);
  const std::vector<int> numbers = NumbersOf(getpid());
  may_end = true;
  may_end.notify_one();
  other.join();
  for (const int each : {static_cast<int>(getpid()), thread.load(), static_cast<int>(getpgid(0)), static_cast<int>(getsid(0))})
    EXPECT_TRUE(std::find(numbers.begin(), numbers.end(), each) != numbers.end()) << each;
}

TEST(ReasonInTest, IsTheFirstErrorThatIsNotSaidEachTime) {
  EXPECT_EQ(ReasonIn(""), "");
  EXPECT_EQ(ReasonIn("(00.1) Warn  (criu/a.c:1): $XDG not set\n"), "");
  EXPECT_EQ(ReasonIn("(00.008474) Error (criu/net.c:1253): net: Unexpected error: -1(Operation not permitted)\n"
                     "(00.009) Error (criu/util.c:1533): rlimit: Can't setup RLIMIT_NOFILE for self: Operation not permitted\n"
                     "(00.01) Error (criu/kerndat.c:7): no cache\n"
                     "(00.02)  10000: Error (criu/files-reg.c:2175): File tmp/out has bad size 24 (expect 10)\n"
                     "(00.03) Error (criu/cr-dump.c:2111): Dumping FAILED."),
            "File tmp/out has bad size 24 (expect 10)");
  EXPECT_EQ(ReasonIn("Error (criu/x.c:1): \x1b[31mred\n"), "\\x1b[31mred");
}

class OpenFilesTest : public testing::Test {
 protected:
  OpenFilesTest() {
    std::string path = (fs::temp_directory_path() / "harrow-open-files-XXXXXX").string();
    top_ = mkdtemp(path.data());
  }
  ~OpenFilesTest() override {
    for (const int fd : fds_) close(fd);
    for (void* const at : mapped_) munmap(at, 5);
    fs::remove_all(top_);
  }

  std::string Path(const std::string& name) const { return top_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) const { std::ofstream(Path(name)) << text; }
  std::string Read(const std::string& name) const {
    std::ifstream in(Path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  int Open(const std::string& name, int flags) {
    fds_.push_back(open(Path(name).c_str(), flags | O_CLOEXEC, 0600));
    return fds_.back();
  }
  /// Of this process, of those below the test's directory: "name size flags".
  std::vector<std::string> Found(const std::vector<Outside>& standard = {}) {
    held_.Clear();
    AddOpenFiles(getpid(), standard, &held_);
    std::vector<std::string> found;
    for (const pb::OpenFile& file : held_.file()) {
      if (file.path().starts_with(top_ + "/"))
        found.push_back(StrCat(file.path().substr(top_.size() + 1), " ", file.size()));
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  pb::Held Held(const std::string& name, int64_t size) const {
    pb::Held held;
    pb::OpenFile* const file = held.add_file();
    struct stat st {};
    stat(Path(name).c_str(), &st);
    file->set_path(Path(name));
    file->set_size(size);
    file->set_inode(st.st_ino);
    return held;
  }
  /// An image of open files, as CRIU writes it: of these names, and a pipe between them.
  void WriteImage(const std::vector<std::pair<std::string, uint64_t>>& files) const {
    std::string text("\x19\x43\x56\x54\x38\x31\x30\x56", 8);
    const auto add = [&](const pb::FileEntry& entry) {
      const std::string bytes = entry.SerializeAsString();
      const auto size = static_cast<uint32_t>(bytes.size());
      text.append(reinterpret_cast<const char*>(&size), sizeof size).append(bytes);
    };
    uint32_t id = 0;
    for (const auto& [name, size] : files) {
      pb::FileEntry entry;
      entry.set_type(1);
      entry.set_id(++id);
      entry.mutable_reg()->set_name(name);
      if (size > 0) entry.mutable_reg()->set_size(size);
      // What is not looked at: its flags (2), of a file; and the pipe (13) of another entry.
      entry.mutable_reg()->mutable_unknown_fields()->append("\x10\x07");
      add(entry);
      pb::FileEntry pipe;
      pipe.set_type(2);
      pipe.set_id(++id);
      pipe.mutable_unknown_fields()->append("\x6a\x01x");
      add(pipe);
    }
    std::ofstream(Path("files.img"), std::ios::binary) << text;
  }

  std::string top_;
  std::vector<int> fds_;
  std::vector<void*> mapped_;
  pb::Held held_;
};

TEST_F(OpenFilesTest, ThoseOpenForWritingAreFoundOnce) {
  using Names = std::vector<std::string>;
  const std::string strange = "line\nfeed", deleted = "not (deleted)";
  for (const std::string& name : {std::string("read"), std::string("written"), std::string("mapped"), std::string("gone"), strange, deleted}) Write(name, "12345");
  Open("read", O_RDONLY);
  Open("written", O_WRONLY);
  Open("written", O_RDWR);
  Open(deleted, O_WRONLY | O_APPEND);
  Open("gone", O_WRONLY);
  fs::remove(Path("gone"));
  EXPECT_EQ(Found(), (Names{deleted + " 5", "written 5"}));
  for (const std::string& name : {std::string("mapped"), strange}) {
    const int fd = open(Path(name).c_str(), O_RDWR | O_CLOEXEC);
    mapped_.push_back(mmap(nullptr, 5, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
  }
  EXPECT_EQ(Found(), (Names{strange + " 5", "mapped 5", deleted + " 5", "written 5"}));
}

TEST_F(OpenFilesTest, SizesAreForgottenAndNoFileIsTouched) {
  Write("a", "0123456789");
  Write("b", "01");
  const std::vector<std::pair<std::string, uint64_t>> before = {{Path("a"), 4}, {Path("b"), 2}, {"/x" + Path("a"), 4}};
  WriteImage(before);
  const std::string image = Read("files.img");
  EXPECT_TRUE(TakeAsTheyAre(pb::Held(), top_).ok());
  EXPECT_EQ(Read("files.img"), image);
  ASSERT_TRUE(TakeAsTheyAre(Held("a", 4), top_).ok());
  EXPECT_EQ(Read("a"), "0123456789");
  auto after = before;
  after[0].second = 0;
  const std::string without = Read("files.img");
  WriteImage(after);
  EXPECT_EQ(without, Read("files.img"));
  // What is no such image stays as it is.
  for (const std::string& text : {std::string(), image.substr(0, 7), "\x1a" + image.substr(1), image.substr(0, image.size() - 1), image + "\xff\xff\xff\xff"}) {
    std::ofstream(Path("files.img"), std::ios::binary | std::ios::trunc) << text;
    EXPECT_EQ(TakeAsTheyAre(Held("a", 4), top_).code(), Code::kDamaged);
    EXPECT_EQ(Read("files.img"), text);
  }
}

TEST_F(OpenFilesTest, AnotherFileOfThatNameIsNotTakenForIt) {
  Write("a", "0123");
  Write("others", "0123456789");
  WriteImage({{Path("real/a"), 4}});
  const auto why = [&](const pb::Held& held) { return TakeAsTheyAre(held, top_).message(); };
  EXPECT_NE(why(Held("a", 5)).find("has 4 bytes instead of 5"), std::string::npos);
  const pb::Held held = Held("a", 4);
  fs::rename(Path("a"), Path("b"));
  EXPECT_NE(why(held).find("No such file"), std::string::npos);
  Write("a", "0123");
  EXPECT_NE(why(held).find("is another file by now"), std::string::npos);
  fs::remove(Path("a"));
  fs::create_symlink(Path("b"), Path("a"));
  EXPECT_NE(why(held).find("symbolic links"), std::string::npos) << why(held);
  fs::remove(Path("a"));
  fs::create_directory(Path("real"));
  fs::rename(Path("b"), Path("real/a"));
  const pb::Held below = Held("real/a", 4);
  EXPECT_EQ(why(below), "");
  fs::rename(Path("real"), Path("elsewhere"));
  fs::create_symlink(Path("elsewhere"), Path("real"));
  EXPECT_NE(why(below), "") << "nor through a directory";
  EXPECT_EQ(Read("others"), "0123456789");
}

TEST_F(OpenFilesTest, WhatIsOpenBelowADirectoryIsTold) {
  fs::create_directory(Path("tmp"));
  Write("tmp/f", "x");
  held_.Clear();
  EXPECT_EQ(OpenBelow(getpid(), held_, Path("tmp")), "");
  EXPECT_EQ(OpenBelow(getpid(), held_, ""), "");
  const int fd = Open("tmp/f", O_RDONLY);
  EXPECT_EQ(OpenBelow(getpid(), held_, Path("tmp")), Path("tmp/f"));
  EXPECT_EQ(OpenBelow(getpid(), held_, Path("tm")), "");
  fs::remove(Path("tmp/f"));
  EXPECT_EQ(OpenBelow(getpid(), held_, Path("tmp")), "") << "what has been removed goes along";
  (void)fd;
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  fds_.push_back(listener);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  Path("tmp/s").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(OpenBelow(getpid(), held_, Path("tmp")), Path("tmp/s"));
}

TEST_F(OpenFilesTest, NotesAreReadAsTheyWereWritten) {
  pb::Held held = Held("with\nline", 1LL << 40);
  held.add_standard("pipe:[7]");
  held.add_standard("");
  ASSERT_TRUE(WriteHeld(top_, held).ok());
  const auto back = ReadHeld(top_);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->file(0).path(), Path("with\nline"));
  EXPECT_EQ(back->file(0).size(), 1LL << 40);
  EXPECT_EQ(back->standard_size(), 2);
  EXPECT_FALSE(WriteHeld(top_, held).ok()) << "one image has one note";
  const fs::path note = fs::directory_iterator(top_)->path();
  std::ofstream(note) << "text";
  EXPECT_EQ(ReadHeld(top_).status().code(), Code::kDamaged);
  held.set_format(1);
  std::string later = held.SerializeAsString();
  held.set_format(2);
  std::ofstream(note, std::ios::binary) << held.SerializeAsString();
  EXPECT_EQ(ReadHeld(top_).status().code(), Code::kDamaged);
  fs::remove(note);
  EXPECT_EQ(ReadHeld(top_).status().code(), Code::kDamaged);
}

TEST_F(OpenFilesTest, DescriptorsAreCalledAsCriuCallsThem) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  fds_.insert(fds_.end(), ends, ends + 2);
  const int kept = dup(1);
  dup2(ends[1], 1);
  const std::vector<Outside> of_pipe = StandardDescriptors();
  Write("out", "abc");
  dup2(Open("out", O_WRONLY), 1);
  const std::vector<Outside> of_file = StandardDescriptors();
  const std::vector<std::string> without = Found(of_file), with = Found();
  dup2(kept, 1);
  close(kept);
  ASSERT_EQ(of_pipe.size(), 3u);
  EXPECT_TRUE(of_pipe[1].key.starts_with("pipe:[")) << of_pipe[1].key;
  EXPECT_EQ(of_pipe[1].key, fs::read_symlink(StrCat("/proc/self/fd/", ends[1])).string());
  EXPECT_TRUE(of_file[1].key.starts_with("file[")) << of_file[1].key;
  EXPECT_TRUE(without.empty());
  EXPECT_EQ(with, std::vector<std::string>{"out 3"});
}

TEST(VersionOfTest, WhatIsNoCriuIsSaid) {
  EXPECT_NE(VersionOf({.program = "/nowhere/criu"}).status().message().find("--criu"), std::string::npos);
  EXPECT_NE(VersionOf({.program = "/"}).status().message().find("cannot execute"), std::string::npos);
  EXPECT_FALSE(VersionOf({.program = "true"}).ok());
}

}  // namespace
}  // namespace harrow::criu
