// Files of elements that fail while data moves: an error on every process, and nobody waits for ever.
#include <dirent.h>
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

// Makes this process's files of `directory` shorter behind the library's back. Nothing may look at what was
// mapped of them.
int CutFiles(const std::string& directory) {
  int cut = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(dir)) {
    char target[4096] = "";
    const std::string path = std::string("/proc/self/fd/") + entry->d_name;
    if (readlink(path.c_str(), target, sizeof target - 1) < 0) continue;
    if (std::string(target).starts_with(directory + "/")) cut += ftruncate(std::atoi(entry->d_name), 0) == 0;
  }
  closedir(dir);
  return cut;
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

}  // namespace
