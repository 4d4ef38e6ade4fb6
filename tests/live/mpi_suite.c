/* mpi_suite [FILE]: what MPI programs do with each other, over nodes: messages, one-sided access to windows of both kinds, a file that all
   write. Every rank prints one line; a wrong one has failed. FILE is on a file system that all nodes share;
   without it: messages only, as Debian's MPICH 4.0 loses what is put into a window, also with mpiexec. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;

/* Each rank gets one number more from each than the rank before it. */
static int Uneven(void) {
  int* const counts = malloc(4 * (size_t)ranks * sizeof(int));
  int *const begins = counts + ranks, *const coming = begins + ranks, *const lie = coming + ranks;
  int out = 0, wrong = 0;
  for (int i = 0; i < ranks; ++i) {
    counts[i] = i + 1;
    begins[i] = out;
    out += counts[i];
    coming[i] = rank + 1;
    lie[i] = i * (rank + 1);
  }
  int* const said = malloc((size_t)out * sizeof(int));
  int* const heard = malloc((size_t)ranks * (size_t)(rank + 1) * sizeof(int));
  for (int i = 0; i < out; ++i) said[i] = 1000 * rank + i;
  MPI_Alltoallv(said, counts, begins, MPI_INT, heard, coming, lie, MPI_INT, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from)
    for (int i = 0; i <= rank; ++i) wrong += heard[lie[from] + i] != 1000 * from + begins[rank] + i;
  free(heard);
  free(said);
  free(counts);
  return wrong;
}

/* Each rank gets from all what they say to it. */
static int Messages(void) {
  int* const said = malloc(2 * (size_t)ranks * sizeof(int));
  int* const heard = said + ranks;
  for (int i = 0; i < ranks; ++i) said[i] = 1000 * rank + i;
  MPI_Alltoall(said, 1, MPI_INT, heard, 1, MPI_INT, MPI_COMM_WORLD);
  int wrong = 0;
  for (int i = 0; i < ranks; ++i) wrong += heard[i] != 1000 * i + rank;
  free(said);
  return wrong + Uneven();
}

/* Who shares memory is on one node, and only who is. */
static int Nodes(int* on_node) {
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, on_node);
  char name[MPI_MAX_PROCESSOR_NAME] = {0}, other[MPI_MAX_PROCESSOR_NAME] = {0};
  int length, wrong = 0;
  MPI_Get_processor_name(name, &length);
  for (int i = 0; i < MPI_MAX_PROCESSOR_NAME; ++i) other[i] = name[i];
  MPI_Bcast(other, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, 0, node);
  for (int i = 0; i < MPI_MAX_PROCESSOR_NAME; ++i) wrong += name[i] != other[i];
  MPI_Comm_free(&node);
  return wrong;
}

static int Windows(void) {
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  int mine = -1, value = 7 * rank;
  MPI_Win window;
  MPI_Win_create(&mine, sizeof mine, sizeof mine, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_fence(0, window);
  MPI_Put(&value, 1, MPI_INT, next, 0, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  int wrong = mine != 7 * before;
  MPI_Win_free(&window);

  int* const held = malloc(sizeof *held);
  *held = 11 * rank;
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_attach(window, held, sizeof *held);
  MPI_Aint here, there;
  MPI_Get_address(held, &here);
  MPI_Sendrecv(&here, 1, MPI_AINT, before, 0, &there, 1, MPI_AINT, next, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Win_fence(0, window);
  MPI_Get(&value, 1, MPI_INT, next, there, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  wrong += value != 11 * next;
  MPI_Win_detach(window, held);
  MPI_Win_free(&window);
  free(held);
  return wrong;
}

static int File(const char* path) {
  MPI_File file;
  if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) != MPI_SUCCESS) return 1;
  int value = 13 * rank, read = -1;
  MPI_File_write_at_all(file, (MPI_Offset)rank * (MPI_Offset)sizeof value, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_File_sync(file);
  const int other = (rank + 1) % ranks;
  MPI_File_read_at_all(file, (MPI_Offset)other * (MPI_Offset)sizeof value, &read, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
  return read != 13 * other;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int on_node = 0;
  const int messages = Messages(), nodes = Nodes(&on_node);
  const int windows = argc > 1 ? Windows() : 0, file = argc > 1 ? File(argv[1]) : 0;
  printf("rank %d of %d, %d on its node: wrong %d %d %d %d\n", rank, ranks, on_node, messages, nodes, windows, file);
  MPI_Finalize();
  return messages + nodes + windows + file == 0 ? 0 : 1;
}
