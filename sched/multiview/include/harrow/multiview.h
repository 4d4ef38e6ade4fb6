/* Multi-View in C: the same calls as <harrow/multiview.hpp>, which tells what they mean; its conventions hold here, too
 * (coordinates from 0, first dimension slowest, every process makes the same calls unless a comment says "local").
 *
 * - Every call that can fail returns mv_code; MV_OK is 0. mv_message() then tells what was wrong, until the next call.
 *   Nothing is thrown through a caller in C or Fortran, not even what a callback throws. A handle that is NULL is MV_INVALID;
 *   functions that return no code return 0, or -1, or do nothing, and mv_message() tells why.
 * - Handles are made by *_create, split_up, join and given back by *_free, which takes NULL as well. Handles that a
 *   callback gets belong to the library and end with the callback. A world ends when it and its stores have been freed;
 *   the last of these frees is collective and comes before MPI_Finalize.
 * - Arrays of coordinates, extents and cuts have as many entries as the store has dimensions.
 * - A cut is a number of blocks, MV_ALL or MV_NONE.
 * - Callbacks return 0, or another number when they have failed; `argument` is handed through. */
#ifndef HARROW_MULTIVIEW_H
#define HARROW_MULTIVIEW_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef struct mv_world mv_world;
typedef struct mv_store mv_store;
typedef struct mv_loader mv_loader;
typedef struct mv_task mv_task;

typedef enum mv_code {
  MV_OK = 0,
  MV_INVALID = 1,
  MV_NOT_FOUND = 2,
  MV_TASK_FAILED = 3,
  MV_MEMORY = 4,
  MV_STORAGE = 5,
  MV_INTERNAL = 6
} mv_code;

#define MV_ALL INT64_C(-1)
#define MV_NONE INT64_C(-2)

typedef enum mv_target { MV_TARGET_AUTOMATIC = 0, MV_TARGET_MEMORY = 1, MV_TARGET_FILE = 2 } mv_target;
typedef enum mv_placement { MV_IN_ORDER = 0, MV_LEAST_MOVED = 1 } mv_placement;

/* Zero or NULL: the default of WorldOptions. */
typedef struct mv_options {
  uint64_t memory_limit;
  const char* directory;
  uint64_t keep_bytes;
  int rounds;
  int no_direct_reads;
} mv_options;

typedef struct mv_statistics {
  uint64_t messages_sent, bytes_sent, bytes_read, bytes_copied, bytes_kept;
  uint64_t plans_made, redistributions, elements_examined;
  double planning_seconds;
} mv_statistics;

/* A rectangular part of an array: the element at origin + i lies at data + sum of i[d] * stride[d] (bytes). */
typedef struct mv_fragment {
  const int64_t* origin;
  const int64_t* extent;
  const int64_t* stride;
  void* data;
  size_t element_bytes;
  int contiguous; /* the elements follow each other in row-major order */
} mv_fragment;

typedef int (*mv_load_function)(mv_loader* loader, void* argument);
typedef int (*mv_map_function)(mv_task* task, void* argument);
typedef void (*mv_visit_function)(const int64_t* at, const void* bytes, size_t size, void* argument);

/* What went wrong in this thread's last call that returns a code, cut at 4 kB; "" if nothing did. Local. */
const char* mv_message(void);

mv_code mv_world_create(MPI_Comm comm, const mv_options* options, mv_world** world);
mv_code mv_world_create_f(MPI_Fint comm, const mv_options* options, mv_world** world);
void mv_world_free(mv_world* world);
int mv_world_rank(const mv_world* world);                               /* local */
int mv_world_size(const mv_world* world);                               /* local */
void mv_world_statistics(const mv_world* world, mv_statistics* values); /* local */
void mv_world_trim(mv_world* world);                                    /* local */
/* MV_OK if this process reads directly what it needs of others of its node; else mv_message() tells why not. Local. */
mv_code mv_world_direct_reads(const mv_world* world);

/* element_bytes 0: every element has a size of its own. */
mv_code mv_store_create(mv_world* world, int dimensions, const int64_t* shape, size_t element_bytes, mv_target target,
                        mv_store** store);
void mv_store_free(mv_store* store);                                    /* local, but see above */
int mv_dimensions(const mv_store* store);                               /* local */
void mv_shape(const mv_store* store, int64_t* shape);                   /* local */
mv_code mv_load_parallel(mv_store* store, mv_load_function load, void* argument);
mv_code mv_set_split(mv_store* store, const int64_t* cuts);
mv_code mv_set_split_placed(mv_store* store, const int64_t* cuts, mv_placement placement);
/* `output` may be NULL, or `store`. MV_TASK_FAILED: see mv_failed_count. */
mv_code mv_map(mv_store* store, mv_store* output, mv_map_function task, void* argument, const int64_t* view);
mv_code mv_redistribute(mv_store* store);
/* Of the last mv_map of this store: how many tasks failed, and the i-th one's key, code and message. Local. */
size_t mv_failed_count(const mv_store* store);
mv_code mv_failed(const mv_store* store, size_t i, int64_t* key, int* code, const char** message);
mv_code mv_put(mv_store* store, const int64_t* at, const void* bytes, size_t size);
/* Copies at most `room` bytes; *size (or NULL) is the element's. */
mv_code mv_get(mv_store* store, const int64_t* at, void* bytes, size_t room, size_t* size);
mv_code mv_remove(mv_store* store, const int64_t* at);
mv_code mv_count(mv_store* store, int64_t* count);
mv_code mv_for_each(mv_store* store, mv_visit_function visit, void* argument);
void mv_clear(mv_store* store);                                         /* local */
mv_code mv_sync(mv_store* store);                                       /* local */
/* `stores` has room for as many handles as the first dimension has indices. */
mv_code mv_split_up(mv_store* store, mv_store** stores);
mv_code mv_join(mv_store* const* stores, size_t count, mv_store** joined);
/* What lies on this process: fragments, valid until the next call on the store. Local. */
size_t mv_local_fragments(mv_store* store);
void mv_local_fragment(const mv_store* store, size_t i, mv_fragment* fragment);

mv_code mv_loader_put(mv_loader* loader, const int64_t* at, const void* bytes, size_t size);
mv_code mv_loader_put_block(mv_loader* loader, const int64_t* origin, const int64_t* extent, const void* elements);
/* The store's own memory of this process's part under the declared Split, to be filled in place (see Loader::Block). */
mv_code mv_loader_block(mv_loader* loader, size_t* fragments);
void mv_loader_fragment(const mv_loader* loader, size_t i, mv_fragment* fragment);

void mv_task_key(const mv_task* task, int64_t* key);
MPI_Comm mv_task_comm(const mv_task* task);
MPI_Fint mv_task_comm_f(const mv_task* task);
void mv_task_split(const mv_task* task, int64_t* cuts);
void mv_task_view(const mv_task* task, int64_t* cuts);
int64_t mv_task_elements(const mv_task* task);
/* The i-th element on this process, fragment by fragment, each in row-major order. `at` and `size` may be NULL. */
mv_code mv_task_element(const mv_task* task, int64_t i, int64_t* at, void** bytes, size_t* size);
size_t mv_task_fragments(const mv_task* task);
void mv_task_fragment(const mv_task* task, size_t i, mv_fragment* fragment);
mv_code mv_task_put(mv_task* task, const int64_t* at, const void* bytes, size_t size);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
