/* MPI_Init and MPI_Finalize: what tests/perf/mpi starts. */
#define _GNU_SOURCE
#include <mpi.h>
#include <unistd.h>

#include "../live/mpi_keep.h"

int main(int argc, char** argv) {
  if (MPI_Init(&argc, &argv)) return 1;
  KeepComponent();
  usleep(20000); /* for Open MPI's other thread: mpi_keep.h */
  return MPI_Finalize();
}
