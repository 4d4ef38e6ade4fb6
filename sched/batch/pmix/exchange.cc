// harrow-pmix-exchange VALUE: one process a rank of a step started with --mpi=pmix; each says VALUE and hears
// what the others said (put, fence, get, finalize). Prints "RANK TAB VALUE" for every rank, then "end".
//
// A program of its own, so that libpmix, its threads and its leaks stay out of harrow, and a machine without
// it starts harrow all the same. PMIx does not ask that the process that slurmstepd started speaks for its
// rank: the environment does. Exit status 1 and a line on standard error when PMIx fails.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pmix.h>
#include <string>

#include "os/standard_descriptors.h"

namespace {

constexpr const char* kKey = "harrow.value";

int Fail(const char* what, pmix_status_t status) {
  std::fprintf(stderr, "harrow-pmix-exchange: %s: %s\n", what, PMIx_Error_string(status));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  harrow::os::OccupyStandardDescriptors();
  if (argc != 2) {
    std::fprintf(stderr, "usage: harrow-pmix-exchange VALUE\n");
    return 2;
  }
  pmix_proc_t self{};
  pmix_status_t status = PMIx_Init(&self, nullptr, 0);
  if (status != PMIX_SUCCESS) return Fail("PMIx_Init", status);
  pmix_value_t own{};
  own.type = PMIX_STRING;
  own.data.string = argv[1];
  status = PMIx_Put(PMIX_GLOBAL, kKey, &own);
  if (status == PMIX_SUCCESS) status = PMIx_Commit();
  if (status != PMIX_SUCCESS) return Fail("PMIx_Put", status);

  pmix_proc_t all{};
  std::memcpy(all.nspace, self.nspace, sizeof all.nspace);
  all.rank = PMIX_RANK_WILDCARD;
  pmix_info_t collect{};
  std::strncpy(collect.key, PMIX_COLLECT_DATA, sizeof collect.key - 1);
  collect.value.type = PMIX_BOOL;
  collect.value.data.flag = true;
  status = PMIx_Fence(&all, 1, &collect, 1);
  if (status != PMIX_SUCCESS) return Fail("PMIx_Fence", status);

  pmix_value_t* size = nullptr;
  status = PMIx_Get(&all, PMIX_JOB_SIZE, nullptr, 0, &size);
  if (status != PMIX_SUCCESS) return Fail("PMIx_Get of the number of ranks", status);
  const uint32_t count = size->data.uint32;
  std::string text;
  for (uint32_t rank = 0; rank < count; ++rank) {
    pmix_proc_t other = all;
    other.rank = rank;
    pmix_value_t* value = nullptr;
    status = PMIx_Get(&other, kKey, nullptr, 0, &value);
    if (status != PMIX_SUCCESS) return Fail("PMIx_Get", status);
    text += std::to_string(rank) + "\t" + value->data.string + "\n";
  }
  std::printf("%send\n", text.c_str());
  std::fflush(stdout);
  PMIx_Finalize(nullptr, 0);
  return 0;
}
