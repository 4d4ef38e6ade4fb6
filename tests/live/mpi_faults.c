/* mpi_faults WHAT RANK MICROSECONDS [CODE]: ranks that talk to each other all the time, and one of which fails, so long after it began, or after
   MPI_Init; what tests/live/mpi_faults.py and mpi_many.py have ranks do. It first writes who it is, and where, to the file `where`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mpi_keep.h"

static const char* what;
static int who, rank, ranks;
static long microseconds;

static int Is(const char* name) {
  return strcmp(what, name) == 0;
}

static void SayWhere(const char* word) {
  const char* const task = getenv("HARROW_TASK_NAME");
  const char* const node = getenv("HARROW_NODE");
  char line[256];
  const int n = snprintf(line, sizeof line, "%s %s %s %s\n", task != NULL ? task : "?", getenv("HARROW_RANK"), node != NULL ? node : "?", word);
  const int file = open("where", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0 || write(file, line, (size_t)n) != n) _exit(40);
  close(file);
}

/* Wherever it is then. */
static void KillLater(void) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
  const struct itimerspec when = {.it_value = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000 + 1}};
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &when, NULL) != 0) _exit(41);
}

/* All of them say something to all. Nonzero: it came out wrong. */
static int Talk(void) {
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return sum != ranks * (ranks - 1) / 2;
}

/* Until somebody says that it is enough. */
static int GoOn(void) {
  const struct timespec pause = {.tv_nsec = 20000000};
  for (int enough = 0, wrong = 0;; wrong += Talk()) {
    if (rank == 0) enough = access("enough", F_OK) == 0;
    MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (enough) return wrong;
    nanosleep(&pause, NULL);
  }
}

int main(int argc, char** argv) {
  what = argv[1];
  who = atoi(argv[2]);
  microseconds = atol(argv[3]);
  const int code = argc > 4 ? atoi(argv[4]) : 0;
  const int mine = atoi(getenv("HARROW_RANK")) == who;
  if (mine || Is("steady")) SayWhere("begins");
  if (mine && Is("killed")) KillLater();
  if (mine && Is("absent")) pause();
  if (Is("early")) {
    if (mine) return 0;
    // The others begin when it has long been seen to end; no rank can wait for what the agent has seen.
    usleep((useconds_t)microseconds);
  }
  MPI_Init(&argc, &argv);
  KeepComponent();
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int wrong = Talk();
  if (Is("steady")) {
    SayWhere("talks");
    wrong += GoOn();
  }
  const double end = MPI_Wtime() + 1e-6 * (double)microseconds;
  while (Is("killed") || (Is("well") ? wrong == 0 && microseconds-- > 0 : Is("abort") || Is("leave") || Is("exit"))) {
    wrong += Talk();
    if (!mine || MPI_Wtime() < end) continue;
    if (Is("abort")) MPI_Abort(MPI_COMM_WORLD, code);
    if (Is("leave")) _exit(0);
    if (Is("exit")) exit(0);
  }
  const struct timespec a_while = {.tv_nsec = 300000000};
  if (Is("well")) nanosleep(&a_while, NULL);
  if (mine && Is("stopped")) raise(SIGSTOP);
  if (mine && Is("unfinished")) pause();
  MPI_Finalize();
  return wrong != 0;
}
