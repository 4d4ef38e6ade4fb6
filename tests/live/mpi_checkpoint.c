/* An MPI program that writes checkpoints: rank 0, or each, is asked by a signal; all write, and end with 85.
   usage: mpi_checkpoint STEPS OUT. What it computes needs all ranks in each step. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t asked;
static void ask(int number) { (void)number, asked = 1; }

int main(int argc, char** argv) {
  int rank, steps = atoi(argv[1]), begin = 0, flag, any;
  long value = 0, sum;
  char path[4096];
  signal(SIGUSR1, ask);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(path, sizeof path, "%s/rank.%d", getenv("HARROW_CHECKPOINT_DIR"), rank);
  if (getenv("HARROW_RESTART")) {
    FILE* f = fopen(path, "r");
    if (!f || fscanf(f, "%d %ld", &begin, &value) != 2) MPI_Abort(MPI_COMM_WORLD, 3);
    fclose(f);
  }
  for (int step = begin + 1; step <= steps; ++step) {
    usleep(20000);  // what a step computes: long enough that the run is asked in the midst of it
    value = (value * 31 + step + rank) % 1000003;
    MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    value = (value + sum) % 1000003;
    flag = asked;
    MPI_Allreduce(&flag, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (!any) continue;
    FILE* f = fopen(path, "w");
    fprintf(f, "%d %ld", step, value);
    fclose(f);
    if (rank == 0 && (f = fopen("moves", "a"))) fprintf(f, "%d\n", step), fclose(f);
    MPI_Finalize();
    return 85;
  }
  if (rank == 0) {
    FILE* f = fopen(argv[2], "w");
    fprintf(f, "%ld\n", value);
    fclose(f);
  }
  MPI_Finalize();
  return 0;
}
