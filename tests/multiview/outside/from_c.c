/* Rows of a matrix are filled where they lie, columns summed where they lie; the sums go into a second store. */
#include <harrow/multiview.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRows = 6, kColumns = 5 };

static void need(mv_code code) {
  if (code == MV_OK) return;
  fprintf(stderr, "from_c: %s\n", mv_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int load(mv_loader* loader, void* argument) {
  size_t fragments;
  (void)argument;
  if (mv_loader_block(loader, &fragments) != MV_OK) return 1;
  for (size_t i = 0; i < fragments; ++i) {
    mv_fragment f;
    mv_loader_fragment(loader, i, &f);
    double* x = f.data;
    for (int64_t r = 0; r < f.extent[0]; ++r) {
      for (int64_t c = 0; c < kColumns; ++c) *x++ = 10.0 * (double)(f.origin[0] + r) + (double)c;
    }
  }
  return 0;
}

static int sum(mv_task* task, void* argument) {
  double total = 0;
  int64_t key[2];
  (void)argument;
  mv_task_key(task, key);
  for (int64_t i = 0; i < mv_task_elements(task); ++i) {
    void* bytes;
    if (mv_task_element(task, i, NULL, &bytes, NULL) != MV_OK) return 1;
    total += *(double*)bytes;
  }
  return mv_task_put(task, &key[1], &total, sizeof total);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  mv_world* world;
  mv_store *matrix, *sums;
  const int64_t shape[] = {kRows, kColumns}, rows[] = {MV_ALL, MV_NONE}, columns[] = {MV_NONE, MV_ALL};
  need(mv_world_create(MPI_COMM_WORLD, NULL, &world));
  need(mv_store_create(world, 2, shape, sizeof(double), MV_TARGET_AUTOMATIC, &matrix));
  need(mv_store_create(world, 1, shape + 1, sizeof(double), MV_TARGET_AUTOMATIC, &sums));
  need(mv_set_split(matrix, rows));
  need(mv_load_parallel(matrix, load, NULL));
  need(mv_set_split(matrix, columns));
  need(mv_map(matrix, sums, sum, NULL, columns));
  for (int64_t c = 0; c < kColumns; ++c) {
    double total;
    size_t size;
    need(mv_get(sums, &c, &total, sizeof total, &size));
    if (mv_world_rank(world) == 0) printf("%s%g", c ? " " : "", total);
  }
  if (mv_world_rank(world) == 0) printf("\n");
  if (mv_set_split(matrix, (const int64_t[]){7, 1}) != MV_INVALID || mv_message()[0] == '\0') MPI_Abort(MPI_COMM_WORLD, 1);
  mv_store_free(sums);
  mv_store_free(matrix);
  mv_world_free(world);
  MPI_Finalize();
  return 0;
}
