// What is read of CRIU's log, and what is done with files before an image is restored.
#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sys/mman.h>
#include <unistd.h>

#include "base/text.h"
#include "criu/open_files.h"
#include "criu/rpc.h"

namespace harrow::criu {
namespace {

namespace fs = std::filesystem;

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
        found.push_back(StrCat(file.path().substr(top_.size() + 1), " ", file.size(), (file.flags() & O_APPEND) != 0 ? " append" : ""));
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  pb::Held Held(const std::string& name, int64_t size, int flags) const {
    pb::Held held;
    pb::OpenFile* const file = held.add_file();
    file->set_path(Path(name));
    file->set_size(size);
    file->set_flags(flags);
    return held;
  }

  std::string top_;
  std::vector<int> fds_;
  pb::Held held_;
};

TEST_F(OpenFilesTest, ThoseOpenForWritingAreFoundOnce) {
  using Names = std::vector<std::string>;
  for (const char* name : {"read", "written", "appended", "mapped", "gone"}) Write(name, "12345");
  Open("read", O_RDONLY);
  Open("written", O_WRONLY);
  Open("written", O_RDWR);
  Open("appended", O_WRONLY | O_APPEND);
  Open("gone", O_WRONLY);
  fs::remove(Path("gone"));
  EXPECT_EQ(Found(), (Names{"appended 5 append", "written 5"}));
  // Who also writes elsewhere than at the end is no mere appender.
  Open("appended", O_WRONLY);
  EXPECT_EQ(Found(), (Names{"appended 5", "written 5"}));
  const int fd = open(Path("mapped").c_str(), O_RDWR | O_CLOEXEC);
  void* const shared = mmap(nullptr, 5, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  EXPECT_EQ(Found(), (Names{"appended 5", "mapped 5", "written 5"}));
  munmap(shared, 5);
}

TEST_F(OpenFilesTest, FilesAreCutBackButNotThoseOfSeveralWriters) {
  std::vector<Outside> outside;
  Write("a", "0123456789");
  EXPECT_TRUE(PutBack(Held("a", 10, O_WRONLY), &outside).ok());
  EXPECT_EQ(Read("a"), "0123456789");
  EXPECT_TRUE(PutBack(Held("a", 4, O_WRONLY), &outside).ok());
  EXPECT_EQ(Read("a"), "0123");
  EXPECT_TRUE(outside.empty());
  EXPECT_TRUE(PutBack(Held("a", 2, O_WRONLY | O_APPEND), &outside).ok());
  EXPECT_EQ(Read("a"), "0123");
  ASSERT_EQ(outside.size(), 1u);
  EXPECT_EQ("/" + outside[0].key, Path("a"));
  EXPECT_EQ(fcntl(outside[0].fd, F_GETFL) & (O_ACCMODE | O_APPEND), O_WRONLY | O_APPEND);
  ASSERT_EQ(write(outside[0].fd, "x", 1), 1);
  EXPECT_EQ(Read("a"), "0123x");
  close(outside[0].fd);
}

TEST_F(OpenFilesTest, WhatIsGoneOrShorterIsSaid) {
  std::vector<Outside> outside;
  Write("a", "01");
  EXPECT_NE(PutBack(Held("a", 3, O_WRONLY), &outside).message().find("has 2 bytes instead of 3"), std::string::npos);
  const Status gone = PutBack(Held("b", 3, O_WRONLY), &outside);
  EXPECT_EQ(gone.code(), Code::kNotFound);
  EXPECT_NE(gone.message().find("No such file"), std::string::npos);
  EXPECT_EQ(Read("a"), "01");
}

TEST_F(OpenFilesTest, NotesAreReadAsTheyWereWritten) {
  pb::Held held = Held("with\nline", 1LL << 40, O_RDWR);
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
