/* Harrow in C: tasks for a run that goes on, from one of its own tasks or from outside, and what becomes of them.
 *
 *     harrow_run* run;
 *     harrow_task task;
 *     harrow_result result;
 *     harrow_spec spec = HARROW_SPEC;
 *     spec.command = "./solve case-7";
 *     spec.cores = 4;
 *     if (harrow_open(NULL, &run) != HARROW_OK) { puts(harrow_message()); return 1; }
 *     harrow_submit(run, &spec, &task);
 *     harrow_await(run, task, HARROW_FOREVER, &result);       // result.state, result.code
 *     harrow_close(run);
 *
 * - A call that can fail returns a harrow_code; HARROW_OK is 0. harrow_message() then tells what was wrong. Nothing is thrown,
 *   printed, or left behind, and no signal is raised.
 * - A task that was submitted is sent with others, by a thread of the library. It is on disk, and will be run whatever is
 *   killed, when harrow_flush, harrow_number or harrow_close has said so, or its result has come; not before.
 * - A server of the run that dies is started again by the run, and the library goes on with it: each task is taken once.
 *   Where none answers for half a minute, the run has ended, or it was resumed as another session, the harrow_run is of no
 *   more use, and calls say so.
 * - Any thread may make any call at any time, also of the same harrow_run; only harrow_close is the last call. A child
 *   of fork() cannot use what its parent opened.
 * - Times are seconds. Below 0 (HARROW_FOREVER): without limit; 0: does not wait. When they are over: HARROW_TIMEOUT.
 * - Texts that are given are copied. They are bytes that end with NUL. */
#ifndef HARROW_HARROW_H
#define HARROW_HARROW_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef enum harrow_code {
  HARROW_OK = 0,
  HARROW_INVALID = 1,     /* an argument, or a task, is wrong */
  HARROW_NOT_FOUND = 2,   /* no such run */
  HARROW_PERMISSION = 3,  /* not our run */
  HARROW_OVER = 4,        /* the run has ended, or takes no more tasks */
  HARROW_UNKNOWN = 5,     /* no server answers, or it cannot write: it is not known whether the tasks were taken */
  HARROW_TIMEOUT = 6,
  HARROW_NONE = 7,        /* harrow_next: there is no task left whose result could come; harrow_best: no value */
  HARROW_VERSION = 8,     /* the run is of another release */
  HARROW_INTERNAL = 9     /* memory, threads */
} harrow_code;

#define HARROW_FOREVER (-1.0)

typedef struct harrow_run harrow_run;
/* A task that was submitted: they count from 0 in each harrow_run. */
typedef uint64_t harrow_task;

/* What is to be run. Zero or NULL: the default, or nothing. It begins as HARROW_SPEC, and can be submitted again and again.
 * Lists of texts end with NULL. */
typedef struct harrow_spec {
  size_t size;                          /* by HARROW_SPEC */
  const char* command;                  /* a line for the shell; without shell syntax the program is started directly */
  const char* const* arguments;         /* or program and arguments */
  const char* name;                     /* no other task of the run has it; the same task again is taken once. NULL: its number */
  uint32_t cores;                       /* 0: one; with ranks: of each */
  uint32_t gpus;                        /* with ranks: of each */
  uint64_t memory;                      /* bytes a node */
  uint32_t nodes;                       /* 0: one */
  uint32_t ranks;                       /* of an MPI task */
  double time_limit;                    /* 0: none */
  int32_t retries;                      /* 0: as the run says; -1: it is not tried again */
  int32_t priority;                     /* the larger goes first */
  const char* directory;                /* NULL: the present one of harrow_open; with --files local the task's own */
  const char* shell;                    /* NULL: /bin/sh, where one is needed */
  const char* const* environment;       /* "NAME=value", added to the environment of the run */
  const char* const* inputs;            /* files that it reads; paths begin in the run's submit directory */
  const char* const* outputs;           /* and writes */
  const char* stdin_path;               /* NULL: /dev/null */
  const char* stdout_path;              /* NULL: kept by the run (harrow logs) */
  const char* stderr_path;
  const harrow_task* after;             /* it is started when these are done, and skipped where one fails */
  size_t after_count;
  const harrow_task* after_any;         /* it is started when these have ended */
  size_t after_any_count;
  const char* const* after_names;       /* the same, of any tasks of the run, by name or number ("#12") */
  const char* const* after_any_names;
  const double* bound;                  /* nothing that comes of it can be a better (smaller) value of the run than that: it is
                                         * pruned where a best value makes it pointless (harrow_offer); NULL: it has none */
  const char* const* from;              /* streams whose lines come to its standard input; new ones, or such as have not ended */
  const char* const* to;                /* streams to which its standard output goes */
  const char* share;                    /* of `from`: "split": each line goes to one reader; NULL or "all": each gets every line */
  const char* records;                  /* of `to`: "lines" (NULL), "zero" (a NUL byte ends each) or "bytes:4096" */
  const char* const* open;              /* streams that do not end before this task has */
} harrow_spec;

#ifdef __cplusplus
#define HARROW_SPEC [] { harrow_spec spec_{}; spec_.size = sizeof spec_; return spec_; }()
#else
#define HARROW_SPEC {.size = sizeof(harrow_spec)}
#endif

typedef enum harrow_state {
  HARROW_DONE = 1,
  HARROW_FAILED = 2,
  HARROW_SKIPPED = 3,   /* something that it needs is not done */
  HARROW_CANCELLED = 4,
  HARROW_PRUNED = 5     /* nothing better than the best value could come of it */
} harrow_state;

/* How the last attempt ended. */
typedef enum harrow_ending {
  HARROW_NO_ATTEMPT = 0,
  HARROW_EXITED = 1,          /* code: its exit code */
  HARROW_SIGNALED = 2,        /* code: the signal */
  HARROW_TIMED_OUT = 3,
  HARROW_OUT_OF_MEMORY = 4,
  HARROW_ENDED_BY_CANCEL = 5,
  HARROW_INTERRUPTED = 6,
  HARROW_NOT_STARTED = 7,     /* harrow explain tells why */
  HARROW_LOST = 8,            /* with its node */
  HARROW_MISSING_OUTPUT = 9,
  HARROW_REWOUND = 10,       /* what it had read of a stream was void */
  HARROW_CHECKPOINTED = 11    /* it left a checkpoint, and was to go on from there */
} harrow_ending;

/* What became of a task, after all that it was tried again. It is on disk, and stays so. */
typedef struct harrow_result {
  harrow_task task;
  harrow_state state;
  harrow_ending ending;
  int32_t code;
} harrow_result;

/* Opens a run that goes on. `directory`: the run directory; NULL: that of the task which this is in (HARROW_RUN).
 * On failure *run is NULL. */
harrow_code harrow_open(const char* directory, harrow_run** run);

/* Waits as harrow_flush does, and gives `run` back, whatever it returns. NULL: nothing. */
harrow_code harrow_close(harrow_run* run);

/* `task` may be NULL. Waits only while very much (64 MiB) is on its way. HARROW_INVALID: it is wrong by itself, and was not
 * submitted; what the run finds wrong, harrow_flush, harrow_number and harrow_await tell. */
harrow_code harrow_submit(harrow_run* run, const harrow_spec* spec, harrow_task* task);

/* Waits until all tasks that were submitted before are taken or refused. A code other than HARROW_OK and HARROW_TIMEOUT: of
 * the first that was refused since the last call said so. Each is taken or refused by itself. */
harrow_code harrow_flush(harrow_run* run, double timeout);

/* Waits until the task is taken. `number`, which may be NULL: what it is called in the run, from 1 ("#1"). */
harrow_code harrow_number(harrow_run* run, harrow_task task, double timeout, uint32_t* number);

/* Waits until the task has ended. HARROW_OVER: the run has ended before it; what is open goes on when it is resumed. Other
 * codes as of harrow_number. */
harrow_code harrow_await(harrow_run* run, harrow_task task, double timeout, harrow_result* result);

/* The next task to end of those that were submitted, each once, in the order in which that becomes known; tasks that
 * harrow_await has told are among them. HARROW_INVALID and HARROW_UNKNOWN: result->task was not taken. HARROW_NONE: all
 * have been told. */
harrow_code harrow_next(harrow_run* run, double timeout, harrow_result* result);

/* A value that was found, with what belongs to it, of any bytes (at most 16 MiB): the run keeps the smallest, and prunes tasks
 * that have not begun by their bound, in all of its allocations. Waits until it is on disk. `better`, which may be NULL: 1 where it
 * was better than all that were known, else 0. */
harrow_code harrow_offer(harrow_run* run, double value, const void* solution, size_t size, int* better);

/* The best value that is known. `solution`, which may be NULL, has room for *size bytes; *size is how many there are then, and
 * HARROW_INVALID where they were more. `size` may be NULL without `solution`. HARROW_NONE: none is known. */
harrow_code harrow_best(harrow_run* run, double* value, void* solution, size_t* size);

/* Holds a stream of that name open, which is made where there is none: it does not end, and tasks can be connected to it, until
 * harrow_stream_close. In a task of the run it is released by that task's end, too; outside nothing else does that but
 * harrow submit --close-stream. A further attempt of the task takes the place of this one by counting what it opens, so let one
 * process of a task hold a stream. Waits until it is on disk. HARROW_INVALID: it has ended. */
typedef struct harrow_stream harrow_stream;
harrow_code harrow_stream_open(harrow_run* run, const char* name, harrow_stream** stream);

/* Waits as harrow_flush does, and releases the stream: where nobody else holds it, it ends with its last writer. `stream` is given
 * back, whatever is returned. NULL: nothing. harrow_close does so with those that are open. */
harrow_code harrow_stream_close(harrow_stream* stream);

/* What was wrong with the last call of this thread that returned another code than HARROW_OK: one line for people. Valid until
 * the next call of this thread that fails. */
const char* harrow_message(void);

/* "done", "failed", ... */
const char* harrow_state_name(harrow_state state);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
