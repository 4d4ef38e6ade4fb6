/* mpi_ranks WHAT [RANK]: what tests/live/mpi_tasks.py and gang_test.cc have ranks do. RANK is the one that does it, or misbehaves. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks;

/* Each writes its number where the next one can be written to. */
static int OneSided(void) {
  int from = -1;
  MPI_Win window;
  MPI_Win_create(&from, sizeof from, sizeof from, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_fence(0, window);
  MPI_Put(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
  return from != (rank + ranks - 1) % ranks;
}

/* Rank `who` publishes, the others look it up; afterwards it is gone. */
static int Publish(int who) {
  char port[MPI_MAX_PORT_NAME] = "";
  int wrong = 0;
  if (rank == who) wrong += MPI_Publish_name("harrow-test", MPI_INFO_NULL, "somewhere") != MPI_SUCCESS;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != who) wrong += MPI_Lookup_name("harrow-test", MPI_INFO_NULL, port) != MPI_SUCCESS || strcmp(port, "somewhere") != 0;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == who) wrong += MPI_Unpublish_name("harrow-test", MPI_INFO_NULL, "somewhere") != MPI_SUCCESS;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  if (rank != who) wrong += MPI_Lookup_name("harrow-test", MPI_INFO_NULL, port) == MPI_SUCCESS;
  return wrong;
}

/* Open MPI 4 makes a directory for each rank where it is told to: beside the list of the task's nodes. Nonzero: it is not there. */
static int IsElsewhere(void) {
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION == 4
  char path[4096];
  const char* const hosts = getenv("HARROW_HOSTFILE");
  snprintf(path, sizeof path, "%.*s/%d", (int)(strrchr(hosts, '/') - hosts), hosts, rank);
  return access(path, F_OK) != 0;
#else
  return 0;
#endif
}

/* A token goes round, to which each adds its number; then all to all. */
static int Ring(void) {
  int token = 0;
  if (rank > 0) MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  token += rank;
  MPI_Send(&token, 1, MPI_INT, (rank + 1) % ranks, 0, MPI_COMM_WORLD);
  if (rank == 0) MPI_Recv(&token, 1, MPI_INT, ranks - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Bcast(&token, 1, MPI_INT, 0, MPI_COMM_WORLD);

  int* const counts = malloc(3 * (size_t)ranks * sizeof(int));
  int *const from = counts + ranks, *const to = from + ranks;
  for (int i = 0; i < ranks; ++i) {
    counts[i] = 1;
    from[i] = to[i] = i;
  }
  int* const sent = malloc(2 * (size_t)ranks * sizeof(int));
  int* const got = sent + ranks;
  for (int i = 0; i < ranks; ++i) sent[i] = 100 * rank + i;
  MPI_Alltoallv(sent, counts, from, MPI_INT, got, counts, to, MPI_INT, MPI_COMM_WORLD);
  int wrong = 0;
  for (int i = 0; i < ranks; ++i) wrong += got[i] != 100 * i + rank;
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  int of_half = 0;
  MPI_Allreduce(&rank, &of_half, 1, MPI_INT, MPI_SUM, half);
  MPI_Comm_free(&half);
  printf("rank %d of %d: token %d, wrong %d, half %d\n", rank, ranks, token, wrong, of_half);
  free(counts);
  free(sent);
  return wrong;
}

int main(int argc, char** argv) {
  const char* const what = argv[1];
  const int who = argc > 2 ? atoi(argv[2]) : 0;
  const char* const number = getenv("HARROW_RANK");
  if (strcmp(what, "early") == 0 && number != NULL && atoi(number) == who) return 3;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int status = Ring() + IsElsewhere();
  if (strcmp(what, "put") == 0) status += OneSided();
  if (strcmp(what, "publish") == 0) status += Publish(who);
  fflush(stdout);
  if (rank == who) {
    if (strcmp(what, "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 7);
    if (strcmp(what, "abort0") == 0) MPI_Abort(MPI_COMM_WORLD, 0);
    if (strcmp(what, "killed") == 0) raise(SIGKILL);
    if (strcmp(what, "leave") == 0) _exit(0);
    if (strcmp(what, "hang") == 0) pause();
    if (strcmp(what, "fail") == 0) status = 5;
  }
  if (strcmp(what, "sleep") == 0) sleep((unsigned)who);
  if (strcmp(what, "fail") != 0) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return status;
}
