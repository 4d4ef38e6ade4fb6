// Files of elements that fail while data moves: an error on every process, and nobody waits for ever.
#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

#include "mpi_test.h"

namespace {

using mv::Index;
using mv::kNone;
using testing::AllOf;
using testing::HasSubstr;

/// Calls harm(descriptor) for each file that this process has in `directory`; how often that was done.
int HarmFiles(const std::string& directory, bool (*harm)(int)) {
  int done = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(dir)) {
    char target[4096] = "";
    const std::string path = std::string("/proc/self/fd/") + entry->d_name;
    if (readlink(path.c_str(), target, sizeof target - 1) < 0) continue;
    if (std::string(target).starts_with(directory + "/")) done += harm(std::atoi(entry->d_name));
  }
  closedir(dir);
  return done;
}

// Makes them shorter behind the library's back. Nothing may look at what was mapped of them.
int CutFiles(const std::string& directory) {
  return HarmFiles(directory, [](int file) { return ftruncate(file, 0) == 0; });
}
// Another one takes their place, which is no file at all.
int ReplaceFiles(const std::string& directory) {
  return HarmFiles(directory, [](int file) {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const bool done = dup2(null, file) == file;
    close(null);
    return done;
  });
}

TEST(Files, ThatBecameShorterAreAnErrorOnEveryProcess) {
  Processes three(3);
  if (!three) return;
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  for (const bool direct : {false, true}) {
    char name[] = "/tmp/harrow-multiview-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    {
      mv::WorldOptions options;
      options.directory = name;
      options.direct_reads = direct;
      auto world = mv::World::Create(three, options);
      // Rows that are long enough to be read and written by system calls. Where the data goes is another
      // file, as the first one may not become longer: so nothing makes it whole again.
      const rlimit one_part{6 * 4096 * sizeof(Index), old.rlim_max};
      ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &one_part), 0);
      auto store = world->CreateStore({6, 3 * 4096}, sizeof(Index), mv::Target::kFile);
      EXPECT_OK(store->LoadParallel([](mv::Loader& loader) { return loader.Block().ok() ? 0 : 1; }));
      if (world->rank() == 1) {
        EXPECT_EQ(CutFiles(name), 1);
      }
      MPI_Barrier(three);
      EXPECT_OK(store->SetSplit({kNone, 3}));
      const mv::Status s = store->Redistribute();
      setrlimit(RLIMIT_FSIZE, &old);
      if (direct && world->DirectReads().ok()) {
        EXPECT_THAT(s.message(), AllOf(HasSubstr("cannot read from process 1"),
                                       HasSubstr("HARROW_MULTIVIEW_DIRECT_READS=0")));
      } else {
        EXPECT_EQ(s.code(), mv::Code::kStorage);
        EXPECT_EQ(s.message(), "cannot read a file of elements: No data available");
      }
      store->Clear();
    }
    MPI_Barrier(three);
    EXPECT_EQ(rmdir(name), 0) << "files have no names";
  }
}

TEST(Files, ThatAreOthersNowAreNotRead) {
  Processes two(2);
  if (!two) return;
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  char name[] = "/tmp/harrow-multiview-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  {
    mv::WorldOptions options;
    options.directory = name;
    auto world = mv::World::Create(two, options);
    const rlimit one_part{4096 * sizeof(Index), old.rlim_max};  // where the data goes is another file
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &one_part), 0);
    auto store = world->CreateStore({2, 4096}, sizeof(Index), mv::Target::kFile);
    EXPECT_OK(store->LoadParallel([](mv::Loader& loader) { return loader.Block().ok() ? 0 : 1; }));
    if (world->rank() == 1) {
      EXPECT_EQ(ReplaceFiles(name), 1);
    }
    EXPECT_OK(store->SetSplit({kNone, 2}));
    const mv::Status s = store->Redistribute();
    setrlimit(RLIMIT_FSIZE, &old);
    if (world->DirectReads().ok()) {
      EXPECT_THAT(s.message(), HasSubstr("cannot read from process 1: Stale file handle"));
    }
  }
  MPI_Barrier(two);
  EXPECT_EQ(rmdir(name), 0) << "files have no names";
}

}  // namespace
