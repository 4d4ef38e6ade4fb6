#include "plugin/job_directory.h"

#include <csignal>
#include <errno.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "plugin/clock.h"
#include "plugin/fd.h"
#include "plugin/log.h"
#include "plugin/marker.h"
#include "plugin/note.h"
#include "plugin/remove_tree.h"

namespace harrow::plugin {
namespace {

std::vector<std::string> logged;

}  // namespace

void WriteLog(bool error, const char* line) {
  logged.push_back(std::string(error ? "error: " : "notice: ") + line);
}

namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Directory : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/harrow-plugin-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
    local_ = root_ + "/local";
    state_ = root_ + "/state";
    fs::create_directory(local_);
    logged.clear();
    open_before_ = OpenFiles();
  }
  void TearDown() override {
    EXPECT_EQ(OpenFiles(), open_before_) << "descriptors are left";
    fs::permissions(local_, fs::perms::owner_all);
    fs::remove_all(root_);
  }
  static long OpenFiles() {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  }
  Made Make(uint32_t id = 12) { return MakeJobDirectory(places(), JobOf(id), 60); }
  void Remove(uint32_t id = 12, unsigned seconds = 60) {
    RemoveJobDirectory(places(), JobOf(id), seconds, getpid());
  }
  void Prepare(unsigned seconds = 60) { PrepareNode(places(), seconds); }
  Places places() const { return {local_.c_str(), state_.c_str()}; }
  static Job JobOf(uint32_t id) { return {.id = id, .leader = id, .uid = getuid(), .gid = getgid()}; }
  std::string path(const std::string& below) const { return local_ + "/harrow" + below; }
  std::string note(uint32_t id = 12) const { return state_ + "/" + std::to_string(id) + ".note"; }
  static void Write(const std::string& file, const std::string& text = "x") { std::ofstream(file) << text; }
  static std::string Read(const std::string& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// Neither directories, nor markers, nor notes.
  bool NothingIsLeft() const { return fs::is_empty(path("")) && (state_.empty() || fs::is_empty(state_)); }
  static std::string MarkerOf(uint32_t id, const std::string& boot, std::string node = "") {
    utsname here;
    uname(&here);
    if (node.empty()) node = here.nodename;
    return "harrow-job 1\nboot " + boot + "\nnode " + node + "\nuid 0\nleader " + std::to_string(id) + "\n";
  }
  static struct stat Stat(const std::string& file) {
    struct stat info = {};
    EXPECT_EQ(lstat(file.c_str(), &info), 0) << file;
    return info;
  }

  std::string root_, local_, state_;
  long open_before_ = 0;
};

TEST(Descriptor, ZeroIsOneToo) {
  const int before = fcntl(0, F_DUPFD_CLOEXEC, 3);
  close(0);
  {
    Fd fd(open("/dev/null", O_RDONLY));
    EXPECT_EQ(fd, 0);
    EXPECT_FALSE(fd.none());
    EXPECT_TRUE(Fd(-1).none());
  }
  EXPECT_EQ(fcntl(0, F_GETFD), -1) << "it is closed with its owner";
  if (before >= 0) dup2(before, 0);
  close(before);
}

TEST_F(Directory, IsPrivateAndGoneAfterwards) {
  umask(077);
  EXPECT_EQ(Make(), Made::kNow);
  umask(022);
  EXPECT_EQ(Make(), Made::kBefore);
  EXPECT_EQ(Stat(path("/12")).st_mode & 07777, 0700u);
  EXPECT_EQ(Stat(path("/12.job")).st_mode & 07777, 0600u);
  EXPECT_EQ(Stat(path("")).st_mode & 07777, 0755u);
  EXPECT_EQ(Stat(note()).st_mode & 07777, 0600u);
  EXPECT_EQ(Stat(state_).st_mode & 07777, 0700u);
  umask(0);
  EXPECT_EQ(Make(13), Made::kNow);
  umask(022);
  for (const std::string& file : {path("/13.job"), note(13)})
    EXPECT_EQ(Stat(file).st_mode & 07777, 0600u) << file;
  EXPECT_EQ(Stat(path("/13")).st_mode & 07777, 0700u);
  Remove(13);
  Write(path("/12/file"));
  Remove();
  EXPECT_TRUE(NothingIsLeft());
  EXPECT_THAT(logged, IsEmpty());
}

TEST_F(Directory, ItsMarkerIsReadAsItWasWritten) {
  const Job job = {.id = 12, .leader = 11, .uid = getuid(), .gid = getgid()};
  ASSERT_EQ(MakeJobDirectory(places(), job, 60), Made::kNow);
  const int base = open(path("").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  Marker marker;
  ASSERT_TRUE(ReadMarker(base, 12, &marker));
  EXPECT_EQ(std::string(marker.boot).find('.'), 36u) << marker.boot;
  std::string init = Read("/proc/1/stat"), started;
  std::istringstream fields(init.substr(init.rfind(')') + 1));
  for (int field = 3; field <= 22; ++field) fields >> started;
  EXPECT_EQ(marker.boot + 37, started);
  utsname here;
  uname(&here);
  EXPECT_STREQ(marker.node, here.nodename);
  EXPECT_EQ(marker.uid, getuid());
  EXPECT_EQ(marker.leader, 11u);
  EXPECT_FALSE(IsStale(marker));
  EXPECT_FALSE(ReadMarker(base, 13, &marker));
  const Job unknown = {.id = 14, .leader = 0, .uid = getuid(), .gid = getgid()};
  ASSERT_EQ(MakeJobDirectory(places(), unknown, 60), Made::kNow);
  ASSERT_TRUE(ReadMarker(base, 14, &marker));
  EXPECT_EQ(marker.leader, 14u);
  Write(path("/14.job"), MarkerOf(14, marker.boot) + "more\n");
  ASSERT_TRUE(ReadMarker(base, 14, &marker));
  EXPECT_STRNE(marker.boot, "");
  Write(path("/14.job"), std::string(1000, 'x'));
  ASSERT_TRUE(ReadMarker(base, 14, &marker));
  EXPECT_STREQ(marker.boot, "");
  Write(path("/14.job"), "harrow-job 2" + MarkerOf(14, "x").substr(12));
  ASSERT_TRUE(ReadMarker(base, 14, &marker));
  EXPECT_STREQ(marker.boot, "");
  EXPECT_FALSE(IsStale(marker));
  close(base);
}

TEST(Markers, AreNamedByTheirJobs) {
  for (const auto& [name, id] :
       std::initializer_list<std::pair<const char*, uint32_t>>{{"1.job", 1},
                                                               {"9.job", 9},
                                                               {"90.job", 90},
                                                               {"4294967295.job", 4294967295u},
                                                               {"4294967296.job", 0},
                                                               {"0.job", 0},
                                                               {"01.job", 0},
                                                               {":.job", 0},
                                                               {"/1.job", 0},
                                                               {"-1.job", 0},
                                                               {"1.jobs", 0},
                                                               {"1.note", 0},
                                                               {"12", 0},
                                                               {"", 0},
                                                               {"job", 0}})
    EXPECT_EQ(IdOfMarker(name), id) << name;
}

TEST_F(Directory, AMarkerOfAnyLengthIsReadWithinBounds) {
  ASSERT_EQ(Make(), Made::kNow);
  const int base = open(path("").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (const size_t size : {398u, 399u, 400u, 401u, 5000u}) {
    std::string text = MarkerOf(12, "boot");
    text.resize(size, '\n');
    fs::remove(path("/12.job"));
    Write(path("/12.job"), text);
    Marker marker;
    EXPECT_TRUE(ReadMarker(base, 12, &marker));
    EXPECT_STREQ(marker.boot, "boot") << size;
  }
  close(base);
}

TEST_F(Directory, AProcessThatTheJobLeftIsEndedAndTold) {
  ASSERT_EQ(Make(), Made::kNow);
  const std::string variable = "HARROW_LOCAL=" + path("/12");
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t left = fork();
  if (left == 0) {
    char* const arguments[] = {const_cast<char*>("sleep"), const_cast<char*>("600"), nullptr};
    char* const environment[] = {const_cast<char*>(variable.c_str()), nullptr};
    execve("/bin/sleep", arguments, environment);
    _exit(127);
  }
  close(ready[1]);
  char none;
  EXPECT_EQ(read(ready[0], &none, 1), 0) << "it is what it is from its exec on";
  close(ready[0]);
  Remove();
  int status = 0;
  EXPECT_EQ(waitpid(left, &status, 0), left);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(logged, ElementsAre("notice: job 12: ended 1 process it had left"));
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(Directory, WhatIsLoggedIsOneLineOfText) {
  LogNotice(
      "a\x7f"
      "b\x1f\n ~%s",
      "\xc3\xa9");
  LogError("c");
  EXPECT_THAT(logged, ElementsAre("notice: a?b?? ~\xc3\xa9", "error: c"));
}

TEST_F(Directory, OnAFullDiskThereIsNone) {
  Prepare();
  auto* const before = signal(SIGXFSZ, SIG_IGN);
  rlimit all = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &all), 0);
  for (const auto& [bytes, said] :
       {std::pair<rlim_t, std::string>(0, "the job's note: File too large"),
        std::pair<rlim_t, std::string>(10, path("/12.job") + ": No space left on device")}) {
    logged.clear();
    const rlimit full = {bytes, all.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
    EXPECT_EQ(Make(), Made::kNot);
    setrlimit(RLIMIT_FSIZE, &all);
    EXPECT_THAT(logged, ElementsAre("error: no job directory: " + said));
    EXPECT_TRUE(fs::is_empty(path("")));
    EXPECT_EQ(fs::exists(note()), bytes > 0);
  }
  signal(SIGXFSZ, before);
  Remove();
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(Directory, WhereNothingCanBeMadeItSaysWhy) {
  const std::string before = std::exchange(local_, "/proc");
  EXPECT_EQ(Make(), Made::kNot);
  Prepare();
  local_ = before;
  EXPECT_THAT(logged, ElementsAre("error: no job directory: /proc/harrow: No such file or directory",
                                  "error: jobs get no directory: /proc/harrow: No such file or directory"));
}

TEST_F(Directory, OfADiskThatIsAwayTheNoteStays) {
  Make();
  Write(path("/12/file"));
  fs::rename(local_, root_ + "/away");
  Remove();
  fs::create_directory(local_);
  Remove();
  EXPECT_EQ(Read(note()), "j");
  EXPECT_THAT(logged, IsEmpty());
  fs::remove(local_);
  fs::rename(root_ + "/away", local_);
  Remove();
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(Directory, IsTheUsersAndOfHisGroup) {
  if (getuid() != 0) GTEST_SKIP() << "not root (needs root)";
  const Job job = {.id = 12, .leader = 11, .uid = 65534, .gid = 65533};
  EXPECT_EQ(MakeJobDirectory(places(), job, 60), Made::kNow);
  const struct stat info = Stat(path("/12"));
  EXPECT_EQ(info.st_uid, 65534u);
  EXPECT_EQ(info.st_gid, 65533u);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  EXPECT_EQ(Stat(path("/12.job")).st_uid, 0u);
  EXPECT_THAT(Read(path("/12.job")),
              AllOf(HasSubstr("\nuid 65534\nleader 11\n"), ::testing::StartsWith("harrow-job 1\nboot ")));
  // A step that finds the marker of another one that has come no further does the rest.
  fs::remove(path("/12"));
  fs::create_directory(path("/12"));
  fs::permissions(path("/12"), fs::perms::all);
  EXPECT_EQ(MakeJobDirectory(places(), job, 60), Made::kBefore);
  EXPECT_EQ(Stat(path("/12")).st_uid, 65534u);
  EXPECT_EQ(Stat(path("/12")).st_mode & 07777, 0700u);
}

TEST_F(Directory, AnotherUsersInItsPlaceIsRefused) {
  if (getuid() != 0) GTEST_SKIP() << "not root (needs root)";
  Make();
  ASSERT_EQ(chown(path("/12").c_str(), 65534, 65534), 0);
  EXPECT_EQ(Make(), Made::kNot);
  EXPECT_THAT(logged, ElementsAre("error: no job directory: " + path("/12") + ": Operation not permitted"));
}

TEST_F(Directory, OnlyTheJobsOwn) {
  Make(12);
  Make(1);
  Make(123);
  Remove(12);
  EXPECT_FALSE(fs::exists(path("/12")));
  EXPECT_TRUE(fs::exists(path("/1")));
  EXPECT_TRUE(fs::exists(path("/1.job")));
  EXPECT_TRUE(fs::exists(path("/123")));
  EXPECT_TRUE(fs::exists(path("/123.job")));
  Remove(77);
  EXPECT_TRUE(fs::exists(path("/1")));
}

// By its note a job's end knows whether there is something to do, without a look at the disk.
TEST_F(Directory, WithoutANoteNothingIsTouched) {
  Make();
  Write(path("/12/file"));
  fs::remove(note());
  Remove();
  EXPECT_TRUE(fs::exists(path("/12/file")));
  EXPECT_TRUE(fs::exists(path("/12.job")));
  EXPECT_FALSE(fs::exists(note()));
  EXPECT_THAT(logged, IsEmpty());
}

TEST_F(Directory, WithoutAMarkerNothingIsTouched) {
  Make();
  fs::remove(path("/12.job"));
  Remove();
  EXPECT_TRUE(fs::exists(path("/12")));
}

TEST_F(Directory, WhatNobodyMarkedIsNotTaken) {
  Make(1);
  fs::create_directory(path("/12"));
  Write(path("/12/precious"));
  EXPECT_EQ(Make(), Made::kNot);
  EXPECT_THAT(logged, ElementsAre("error: no job directory: " + path("/12") + ": File exists"));
  Remove();
  EXPECT_TRUE(fs::exists(path("/12/precious")));
  EXPECT_FALSE(fs::exists(path("/12.job")));
  EXPECT_FALSE(fs::exists(note()));
}

TEST_F(Directory, AMarkerOfSomebodyElseOrALinkIsNone) {
  Make();
  fs::remove(path("/12.job"));
  Write(root_ + "/elsewhere", MarkerOf(12, "x"));
  fs::create_symlink(root_ + "/elsewhere", path("/12.job"));
  Remove();
  EXPECT_TRUE(fs::exists(path("/12")));
  EXPECT_EQ(Make(), Made::kNot);
  fs::remove(path("/12.job"));
  fs::create_directory(path("/12.job"));
  Remove();
  EXPECT_TRUE(fs::exists(path("/12")));
  EXPECT_EQ(Make(), Made::kNot);
  fs::remove(path("/12.job"));
  ASSERT_EQ(mkfifo(path("/12.job").c_str(), 0600), 0);  // nobody writes to it
  Remove();
  EXPECT_TRUE(fs::exists(path("/12")));
  EXPECT_EQ(Make(), Made::kNot);
  if (getuid() == 0) {
    fs::remove(path("/12.job"));
    Write(path("/12.job"), MarkerOf(12, "x"));
    ASSERT_EQ(chown(path("/12.job").c_str(), 65534, 65534), 0);
    Remove();
    Prepare();
    EXPECT_TRUE(fs::exists(path("/12")));
    EXPECT_EQ(Make(), Made::kNot);
  }
  EXPECT_TRUE(fs::exists(root_ + "/elsewhere"));
}

TEST_F(Directory, WhoWasFirstIsNamedAndGainsNothing) {
  fs::create_directory(root_ + "/target");
  fs::create_symlink(root_ + "/target", path(""));
  EXPECT_EQ(Make(), Made::kNot);
  EXPECT_THAT(logged.back(),
              AllOf(HasSubstr("no job directory: " + path("")), HasSubstr("but a link of uid")));
  EXPECT_TRUE(fs::is_empty(root_ + "/target"));
  fs::remove(path(""));
  Write(path(""));
  EXPECT_EQ(Make(), Made::kNot);
  EXPECT_THAT(logged.back(), HasSubstr("but a file of uid"));
  fs::remove(path(""));
  for (const fs::perms others : {fs::perms::group_write, fs::perms::others_write}) {
    fs::create_directory(path(""));
    fs::permissions(path(""), fs::perms::owner_all | others);
    EXPECT_EQ(Make(), Made::kNot);
    EXPECT_THAT(logged.back(), AllOf(HasSubstr("but a directory of uid"), HasSubstr("mode 07")));
    fs::remove(path(""));
  }
  fs::create_directory(path(""));
  fs::permissions(path(""), fs::perms::all);
  Remove();
  EXPECT_THAT(logged.back(), HasSubstr("nothing is removed"));
  Prepare();
  EXPECT_THAT(logged.back(), HasSubstr("jobs get no directory"));
  EXPECT_EQ(logged.size(), 6u);
  if (getuid() == 0) {
    fs::permissions(path(""), fs::perms::owner_all);
    ASSERT_EQ(chown(path("").c_str(), 65534, 65534), 0);
    EXPECT_EQ(Make(), Made::kNot);
    EXPECT_THAT(logged.back(), HasSubstr("of uid 65534, mode 0700"));
    EXPECT_TRUE(fs::is_empty(path("")));
  }
}

TEST_F(Directory, WhereOthersMayRenameItIsNotMade) {
  fs::permissions(local_, fs::perms::all);
  EXPECT_EQ(Make(), Made::kNot);
  EXPECT_THAT(logged, ElementsAre(AllOf(HasSubstr("others may rename"), HasSubstr("mode 0777"))));
  EXPECT_TRUE(fs::is_empty(local_));
  fs::permissions(local_, fs::perms::all | fs::perms::sticky_bit);
  EXPECT_EQ(Make(), Made::kNow);
  if (getuid() == 0) {
    fs::permissions(local_, fs::perms::owner_all);
    ASSERT_EQ(chown(local_.c_str(), 65534, 65534), 0);
    EXPECT_EQ(Make(13), Made::kNot);
    EXPECT_EQ(chown(local_.c_str(), 0, 0), 0);
  }
}

TEST_F(Directory, AMissingLocalIsOneLine) {
  const std::string none = root_ + "/none";
  EXPECT_EQ(MakeJobDirectory({none.c_str(), state_.c_str()}, JobOf(5), 60), Made::kNot);
  EXPECT_THAT(logged, ElementsAre("error: no job directory: " + none + ": No such file or directory"));
  RemoveJobDirectory({none.c_str(), state_.c_str()}, JobOf(5), 60, 0);
  EXPECT_EQ(logged.size(), 1u);
  PrepareNode({none.c_str(), state_.c_str()}, 60);
  EXPECT_EQ(logged.size(), 2u);
}

TEST_F(Directory, NobodyIsFirstWhereSlurmdHasStarted) {
  Prepare();
  const struct stat info = Stat(path(""));
  EXPECT_TRUE(S_ISDIR(info.st_mode));
  EXPECT_EQ(info.st_uid, geteuid());
  EXPECT_EQ(info.st_mode & 07777, 0755u);
  EXPECT_EQ(Stat(state_).st_mode & 07777, 0700u);
  EXPECT_THAT(logged, IsEmpty());
}

TEST_F(Directory, NotesThatOthersMayWriteAreRefused) {
  fs::create_directory(state_);
  fs::permissions(state_, fs::perms::all);
  EXPECT_EQ(Make(), Made::kNot);
  Prepare();
  EXPECT_THAT(logged, ElementsAre("error: no job directory: " + state_ + ": Operation not permitted",
                                  "error: jobs get no directory: " + state_ + ": Operation not permitted"));
  EXPECT_EQ(NoteOfJob(places(), 12), Note::kNone);
  fs::permissions(state_, fs::perms::owner_all);
  if (getuid() == 0) {
    ASSERT_EQ(chown(state_.c_str(), 65534, 65534), 0);
    EXPECT_EQ(Make(), Made::kNot);
  }
}

TEST_F(Directory, ALinkInPlaceOfTheNotesIsNotFollowed) {
  fs::create_directory(root_ + "/elsewhere");
  fs::permissions(root_ + "/elsewhere", fs::perms::owner_all);
  fs::create_symlink(root_ + "/elsewhere", state_);
  EXPECT_EQ(Make(), Made::kNot);
  EXPECT_THAT(logged, ElementsAre("error: no job directory: " + state_ + ": Not a directory"));
  EXPECT_TRUE(fs::is_empty(root_ + "/elsewhere"));
}

TEST_F(Directory, ANoteThatIsALinkIsNotFollowed) {
  Make(1);
  Write(root_ + "/elsewhere", "");
  fs::create_symlink(root_ + "/elsewhere", note());
  EXPECT_EQ(Make(), Made::kNot);
  EXPECT_THAT(logged, ElementsAre("error: no job directory: Too many levels of symbolic links"));
  EXPECT_EQ(Read(root_ + "/elsewhere"), "");
}

TEST_F(Directory, AJobsEndKnowsByItsNoteWithoutTheDisk) {
  EXPECT_EQ(NoteOfJob(places(), 12), Note::kNone);
  ChangeNoteOfJob(places(), 12, Note::kOver);
  ForgetJob(places(), 12);
  EXPECT_FALSE(fs::exists(state_)) << "who only asks makes nothing";
  Make();
  fs::rename(local_, root_ + "/gone");  // not asked
  EXPECT_EQ(NoteOfJob(places(), 12), Note::kJob);
  EXPECT_EQ(NoteOfJob(places(), 13), Note::kNone);
  ChangeNoteOfJob(places(), 12, Note::kMute);
  EXPECT_EQ(NoteOfJob(places(), 12), Note::kMute);
  ChangeNoteOfJob(places(), 13, Note::kOver);
  EXPECT_FALSE(fs::exists(note(13)));
  Write(note(), "?");
  EXPECT_EQ(NoteOfJob(places(), 12), Note::kJob);
  fs::rename(root_ + "/gone", local_);
}

TEST_F(Directory, AJobWhoseDiskDidNotAnswerIsMuted) {
  MuteJob(places(), 12);  // nobody came as far as a note: nothing is on the disk
  EXPECT_EQ(NoteOfJob(places(), 12), Note::kNothing);
  EXPECT_EQ(Stat(note()).st_mode & 07777, 0600u);
  EXPECT_EQ(Stat(state_).st_mode & 07777, 0700u);
  ForgetJob(places(), 12);
  EXPECT_FALSE(fs::exists(note()));
  Make();
  MuteJob(places(), 12);
  EXPECT_EQ(NoteOfJob(places(), 12), Note::kMute);
  Remove();
  EXPECT_TRUE(NothingIsLeft());
  state_ = "";
  MuteJob(places(), 12);
  ForgetJob(places(), 12);
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(Directory, AnOrdinaryUsersNotesLieBeside) {
  state_ = "";
  EXPECT_EQ(NoteOfJob(places(), 12), Note::kJob);  // to be looked for on the disk
  EXPECT_EQ(Make(), Made::kNow);
  EXPECT_EQ(Read(path("/12.note")), "j");
  ChangeNoteOfJob(places(), 12, Note::kMute);
  EXPECT_EQ(Read(path("/12.note")), "j");
  Write(path("/12/file"));
  Remove(12, 0);
  EXPECT_EQ(Read(path("/12.note")), "o");
  Prepare();
  EXPECT_TRUE(NothingIsLeft());
}

// Anybody can open LOCAL/harrow and his own directory, and hold a lock on them.
TEST_F(Directory, AnybodysLocksHoldNothingUp) {
  Make();
  std::vector<int> held;
  for (const char* below : {"", "/12"}) {
    held.push_back(open(path(below).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(flock(held.back(), LOCK_EX | LOCK_NB), 0);
  }
  Remove(12, 0);
  EXPECT_EQ(Make(), Made::kNow);
  Write(path("/12.job"), MarkerOf(12, "another.1"));
  EXPECT_EQ(Make(), Made::kNow);
  Remove(12, 0);
  Prepare();
  EXPECT_TRUE(NothingIsLeft());
  for (int fd : held) close(fd);
}

TEST_F(Directory, ALockedNoteKeepsSweepsAway) {
  Make();
  Write(path("/12/file"));
  Remove(12, 0);
  {
    const int held = open(note().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(flock(held, LOCK_EX | LOCK_NB), 0);
    Prepare();
    EXPECT_TRUE(fs::exists(path("/12/file")));
    Make(13);
    Remove(13);
    EXPECT_TRUE(fs::exists(path("/12/file")));
    close(held);
  }
  Prepare();
  EXPECT_TRUE(NothingIsLeft());
}

// Whoever waited for a lock and got it must not believe in a note that is gone.
TEST_F(Directory, ANoteThatWasRemovedIsNotLocked) {
  fs::create_directory(state_);
  const int notes = open(state_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  EXPECT_EQ(LockNote(notes, 12, false, 0), -1);
  EXPECT_EQ(errno, ENOENT);
  const int first = LockNote(notes, 12, true, 0);
  ASSERT_GE(first, 0);
  EXPECT_EQ(ReadNote(first), Note::kNone);
  EXPECT_EQ(LockNote(notes, 12, true, 0), -1);
  EXPECT_EQ(errno, EAGAIN);
  RemoveNote(notes, 12);
  const int second = LockNote(notes, 12, true, 0);
  ASSERT_GE(second, 0);
  struct stat one, other;
  fstat(first, &one);
  fstat(second, &other);
  EXPECT_NE(one.st_ino, other.st_ino);
  for (int fd : {first, second, notes}) close(fd);
}

TEST_F(Directory, ANoteThatIsHeldIsWaitedFor) {
  fs::create_directory(state_);
  const int notes = open(state_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int held = LockNote(notes, 12, true, 0);
  ASSERT_GE(held, 0);
  std::thread holder([held] {
    Pause(100);
    close(held);
  });
  const int got = LockNote(notes, 12, true, 120'000);
  EXPECT_GE(got, 0);
  holder.join();
  for (int fd : {got, notes}) close(fd);
}

TEST_F(Directory, AJobThatRanBeforeTheNodeWentDownStartsEmpty) {
  Make();
  Write(path("/12/old"));
  Write(path("/12.job"), MarkerOf(12, "another.1"));
  fs::remove(note());
  EXPECT_EQ(Make(), Made::kNow);
  EXPECT_TRUE(fs::is_empty(path("/12")));
  EXPECT_THAT(Read(path("/12.job")), ::testing::Not(HasSubstr("another.1")));
}

TEST_F(Directory, SweepTakesWhatIsOfAnotherBootOfThisNodeAlone) {
  for (uint32_t id : {1u, 2u, 3u, 4u, 5u}) Make(id);
  Write(path("/2/file"));
  Write(path("/2.job"), MarkerOf(2, "another.1"));
  Write(path("/3.job"), "");  // a full disk
  Write(path("/4.job"),
        MarkerOf(4, "another.1").substr(0, MarkerOf(4, "another.1").size() - 1));  // lost power
  Write(path("/5.job"), MarkerOf(5, "another.1", "not-" + std::string(8, 'x')));   // a disk that nodes share
  for (const char* name : {"/notes.job", "/6.jobs", "/07.job", "/.job", "/99999999999.job", "/6", "/8.over"})
    Write(path(name), MarkerOf(6, "another.1"));
  for (uint32_t id : {1u, 2u, 3u, 4u, 5u}) fs::remove(note(id));
  Prepare();
  for (const char* name : {"/1", "/1.job", "/3", "/3.job", "/4", "/4.job", "/5", "/5.job", "/notes.job",
                           "/6.jobs", "/07.job", "/.job", "/99999999999.job", "/6", "/8.over"}) {
    EXPECT_TRUE(fs::exists(path(name))) << name;
  }
  EXPECT_FALSE(fs::exists(path("/2")));
  EXPECT_FALSE(fs::exists(path("/2.job")));
  EXPECT_TRUE(fs::is_empty(state_));
  EXPECT_THAT(logged, ElementsAre("notice: removed " + path("/2") + ": its job ran when the node went down"));
}

// What takes too long is left, and goes at the end of another job or when slurmd starts.
TEST_F(Directory, ARemovalThatTakesTooLongIsGoneOnWith) {
  for (const bool by_slurmd : {false, true}) {
    logged.clear();
    Make();
    Write(path("/12/file"));
    Remove(12, 0);
    EXPECT_TRUE(fs::exists(path("/12/file")));
    EXPECT_TRUE(fs::exists(path("/12.job")));
    EXPECT_EQ(Read(note()), "o");
    EXPECT_THAT(logged, ElementsAre(HasSubstr("harrow/12 is not wholly removed: Timer expired")));
    Prepare(0);
    EXPECT_TRUE(fs::exists(path("/12/file")));
    EXPECT_EQ(logged.size(), 1u);
    if (by_slurmd) {
      Prepare();
    } else {
      Make(13);
      Remove(13);
    }
    EXPECT_TRUE(NothingIsLeft());
    EXPECT_EQ(logged.back(), "notice: removed " + path("/12") + ": its job's end could not");
  }
}

TEST_F(Directory, SweepTakesTheFirstJobAndTheLast) {
  for (const uint32_t id : {1u, UINT32_MAX}) {
    ASSERT_EQ(Make(id), Made::kNow);
    Write(path("/" + std::to_string(id) + "/file"));
    Remove(id, 0);
  }
  EXPECT_TRUE(fs::exists(path("/1/file")));
  Prepare();
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(Directory, AJobThatStartsAgainOverItsRemainsStartsEmpty) {
  Make();
  Write(path("/12/old"));
  Remove(12, 0);
  EXPECT_EQ(MakeJobDirectory(places(), JobOf(12), 0), Made::kNot);
  EXPECT_THAT(logged.back(), AllOf(HasSubstr("no job directory: what the job's earlier start left"),
                                   HasSubstr("Timer expired")));
  EXPECT_TRUE(fs::exists(path("/12/old")));
  EXPECT_EQ(Make(), Made::kNow);
  EXPECT_TRUE(fs::is_empty(path("/12")));
  EXPECT_EQ(Read(note()), "j");
  Write(path("/12/new"));
  Prepare();  // its note says no more that it is over
  EXPECT_TRUE(fs::exists(path("/12/new")));
}

TEST_F(Directory, SweepTouchesNoJobThatRuns) {
  Make();
  Write(path("/12/file"));
  Prepare();
  Make(13);
  Remove(13);
  EXPECT_TRUE(fs::exists(path("/12/file")));
  EXPECT_TRUE(fs::exists(path("/12.job")));
  EXPECT_EQ(Read(note()), "j");
  EXPECT_THAT(logged, IsEmpty());
}

TEST_F(Directory, WhoHasItOpenCanAddNothingMore) {
  if (getuid() != 0) GTEST_SKIP() << "not root (needs root)";
  Make();
  ASSERT_EQ(chown(path("/12").c_str(), 65534, 65534), 0);
  Write(path("/12/file"));
  Remove(12, 0);
  EXPECT_EQ(Stat(path("/12")).st_uid, 0u);
  EXPECT_EQ(Stat(path("/12")).st_mode & 07777, 0700u);
}

TEST_F(Directory, HostileContents) {
  Make();
  const std::string outside = root_ + "/outside";
  fs::create_directories(outside + "/sub");
  Write(outside + "/sub/precious");
  const std::string top = path("/12");
  fs::create_symlink(outside, top + "/link");
  fs::create_symlink(outside + "/sub/precious", top + "/file-link");
  fs::create_symlink(top, top + "/loop");
  fs::create_hard_link(outside + "/sub/precious", top + "/hard");
  fs::create_directories(top + "/a/b/c");
  fs::create_symlink(outside, top + "/a/b/link");
  for (const char* name :
       {"\\040 mount", "new\nline", "-rf", "*", "0", "1", "2", "...", "proc", "\xff\xfe"}) {
    fs::create_directories(top + "/" + name + "/0/1");
    Write(top + "/" + name + "/0/1/file");
  }
  ASSERT_EQ(mkfifo((top + "/fifo").c_str(), 0600), 0);
  fs::permissions(top + "/a/b", fs::perms::none);
  fs::permissions(top, fs::perms::none);
  Remove();
  EXPECT_TRUE(NothingIsLeft());
  EXPECT_TRUE(fs::exists(outside + "/sub/precious"));
  EXPECT_THAT(logged, IsEmpty());
}

TEST_F(Directory, ADeepTree) {
  Make();
  int fd = open(path("/12").c_str(), O_RDONLY | O_DIRECTORY);
  for (int i = 0; i < 150; ++i) {
    ASSERT_EQ(mkdirat(fd, "deeper", 0700), 0);
    int next = openat(fd, "deeper", O_RDONLY | O_DIRECTORY);
    close(fd);
    fd = next;
  }
  close(fd);
  Remove();
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(Directory, ALinkInPlaceOfTheDirectoryIsNotFollowed) {
  Make();
  fs::create_directory(root_ + "/outside");
  Write(root_ + "/outside/precious");
  fs::remove(path("/12"));
  fs::create_symlink(root_ + "/outside", path("/12"));
  Remove();
  EXPECT_TRUE(NothingIsLeft());
  EXPECT_TRUE(fs::exists(root_ + "/outside/precious"));
}

}  // namespace
}  // namespace harrow::plugin
