/* What client.py runs against libharrow, in C99.
 *   client_program submit RUN COUNT PREFIX FILE   COUNT tasks, PREFIX-i, each of which adds its name to FILE (./mark); how many are taken, and how
 *                                                 many are not done in the end
 *   client_program kinds RUN                      a task of every fate, and what is told of it
 *   client_program streams RUN                    connects tasks to a stream that it holds open
 *   client_program hold RUN COUNT                 submits COUNT tasks and waits for the first
 * RUN - is the run of the task that this is in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <harrow/harrow.h>

static void need(harrow_code code, const char* what) {
  if (code == HARROW_OK) return;
  fprintf(stderr, "%s: %d: %s\n", what, (int)code, harrow_message());
  exit(1);
}

static harrow_run* open_run(const char* name) {
  harrow_run* run;
  need(harrow_open(strcmp(name, "-") == 0 ? NULL : name, &run), "open");
  return run;
}

static int submit(harrow_run* run, int count, const char* prefix, const char* file) {
  int failed = 0;
  for (int i = 0; i < count; ++i) {
    char name[200];
    snprintf(name, sizeof name, "%s-%d", prefix, i);
    const char* arguments[] = {"./mark", file, name, NULL};
    harrow_spec spec = HARROW_SPEC;
    spec.arguments = arguments;
    spec.name = name;
    need(harrow_submit(run, &spec, NULL), "submit");
    if (i % 500 == 499 || i == count - 1) {
      need(harrow_flush(run, HARROW_FOREVER), "flush");
      printf("taken %d\n", i + 1);
      fflush(stdout);
    }
  }
  harrow_result result;
  harrow_code code;
  while ((code = harrow_next(run, HARROW_FOREVER, &result)) == HARROW_OK) failed += result.state != HARROW_DONE;
  if (code != HARROW_NONE) need(code, "next");
  printf("failed %d\n", failed);
  return harrow_close(run) == HARROW_OK ? 0 : 1;
}

static void tell(harrow_run* run, const char* what, harrow_task task) {
  harrow_result result;
  const harrow_code code = harrow_await(run, task, HARROW_FOREVER, &result);
  if (code == HARROW_OK) {
    printf("%s: %s %d %d\n", what, harrow_state_name(result.state), (int)result.ending, (int)result.code);
  } else {
    printf("%s: error %d: %s\n", what, (int)code, harrow_message());
  }
}

static harrow_task command(harrow_run* run, const char* text, const harrow_task* after, const harrow_task* after_any) {
  harrow_task task;
  harrow_spec spec = HARROW_SPEC;
  spec.command = text;
  spec.retries = -1;
  spec.after = after;
  spec.after_count = after != NULL;
  spec.after_any = after_any;
  spec.after_any_count = after_any != NULL;
  need(harrow_submit(run, &spec, &task), "submit");
  return task;
}

static int kinds(harrow_run* run) {
  const harrow_task done = command(run, "true", NULL, NULL), failed = command(run, "exit 7", NULL, NULL),
                    killed = command(run, "kill -USR1 $$", NULL, NULL), skipped = command(run, "true", &failed, NULL),
                    after_any = command(run, "true", NULL, &failed);
  harrow_spec spec = HARROW_SPEC;
  harrow_task slow, environment, unknown, twice, same, other;
  spec.command = "sleep 1000";
  spec.time_limit = 0.2;
  spec.retries = -1;
  need(harrow_submit(run, &spec, &slow), "submit");
  spec.time_limit = 0;
  const char* variables[] = {"GREETING=hello", NULL};
  const char* of_these[] = {"twice", NULL};
  spec.command = "test \"$GREETING\" = hello && test \"$(basename \"$PWD\")\" = below";
  spec.environment = variables;
  spec.directory = "below";
  need(harrow_submit(run, &spec, &environment), "submit");
  spec = (harrow_spec)HARROW_SPEC;
  spec.command = "true";
  spec.name = "twice";
  need(harrow_submit(run, &spec, &twice), "submit");
  need(harrow_submit(run, &spec, &same), "submit");
  spec.command = "false";
  need(harrow_submit(run, &spec, &other), "submit");
  spec.name = "named";
  spec.command = "true";
  spec.after_names = of_these;
  harrow_task named;
  need(harrow_submit(run, &spec, &named), "submit");
  const char* nobody[] = {"nobody", NULL};
  spec.name = NULL;
  spec.after_names = nobody;
  need(harrow_submit(run, &spec, &unknown), "submit");
  tell(run, "done", done);
  tell(run, "failed", failed);
  tell(run, "killed", killed);
  tell(run, "skipped", skipped);
  tell(run, "after any", after_any);
  tell(run, "slow", slow);
  tell(run, "environment", environment);
  tell(run, "twice", twice);
  tell(run, "same", same);
  tell(run, "other", other);
  tell(run, "named", named);
  tell(run, "unknown", unknown);
  uint32_t first, second;
  need(harrow_number(run, twice, 10, &first), "number");
  need(harrow_number(run, same, 10, &second), "number");
  printf("one task: %d\n", first == second);
  printf("flush: %d: %s\n", (int)harrow_flush(run, HARROW_FOREVER), harrow_message());
  spec = (harrow_spec)HARROW_SPEC;
  printf("nothing: %d: %s\n", (int)harrow_submit(run, &spec, NULL), harrow_message());
  harrow_result result;
  int told = 0;
  harrow_code code;
  while ((code = harrow_next(run, 10, &result)) != HARROW_NONE && code != HARROW_TIMEOUT) ++told;
  printf("told: %d\n", told);
  harrow_task late = command(run, "sleep 1000", NULL, NULL);
  printf("late: %d\n", (int)harrow_await(run, late, 0.1, &result));
  return 0;
}

/* Values, and tasks that they prune. */
static int values(harrow_run* run) {
  double value = 0;
  int better = 0;
  char small[2], large[16];
  size_t size = 0;
  int code = harrow_best(run, &value, NULL, NULL);
  printf("none: %d: %s\n", code, harrow_message());
  printf("nothing: %d\n", (int)harrow_offer(run, 0.0 / 0.0, NULL, 0, &better));
  need(harrow_offer(run, 3.5, "a\0b", 3, &better), "offer");
  printf("better: %d\n", better);
  need(harrow_offer(run, 3.5, NULL, 0, &better), "offer");
  printf("as good: %d\n", better);
  need(harrow_best(run, &value, NULL, &size), "best");
  printf("best: %g, %d bytes\n", value, (int)size);
  size = sizeof small;
  code = harrow_best(run, &value, small, &size);
  printf("small: %d, %d\n", code, (int)size);
  size = sizeof large;
  need(harrow_best(run, &value, large, &size), "best");
  printf("large: %d %c%d%c\n", (int)size, large[0], large[1], large[2]);
  const double bounds[] = {3.5, 3.25, 0.0 / 0.0};
  harrow_task task[2];
  harrow_spec spec = HARROW_SPEC;
  spec.command = "true";
  for (int i = 0; i < 2; ++i) {
    spec.bound = &bounds[i];
    need(harrow_submit(run, &spec, &task[i]), "submit");
  }
  spec.bound = &bounds[2];
  code = harrow_submit(run, &spec, NULL);
  printf("no bound: %d: %s\n", code, harrow_message());
  tell(run, "pointless", task[0]);
  tell(run, "good", task[1]);
  return 0;
}

static int hold(harrow_run* run, int count) {
  harrow_task first = 0;
  for (int i = 0; i < count; ++i) {
    harrow_task task = command(run, "true", NULL, NULL);
    if (i == 0) first = task;
  }
  need(harrow_flush(run, HARROW_FOREVER), "flush");
  printf("taken\n");
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(harrow_flush(run, 0) == HARROW_INVALID && harrow_close(run) == HARROW_INVALID ? 7 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  printf("child: %d\n", WEXITSTATUS(status));
  harrow_result result;
  const harrow_code code = harrow_await(run, first, HARROW_FOREVER, &result);
  printf("await: %d: %s\n", (int)code, code == HARROW_OK ? "" : harrow_message());
  const harrow_spec spec = {.size = sizeof(harrow_spec), .command = "true"};
  printf("submit: %d\n", (int)harrow_submit(run, &spec, NULL));
  printf("close: %d\n", (int)harrow_close(run));
  return 0;
}

/* Writers and a reader of a stream that is held open: "sort" of what is written, twice. */
static int streams(harrow_run* run) {
  const char* s[] = {"s", NULL};
  harrow_stream *first, *second, *late;
  need(harrow_stream_open(run, "s", &first), "stream_open");
  need(harrow_stream_open(run, "s", &second), "stream_open");
  harrow_spec spec = HARROW_SPEC;
  harrow_task reader, writer;
  spec.command = "sort > sorted";
  spec.from = s;
  need(harrow_submit(run, &spec, &reader), "submit");
  spec = (harrow_spec)HARROW_SPEC;
  spec.to = s;
  spec.command = "seq 4 6";
  need(harrow_submit(run, &spec, &writer), "submit");
  tell(run, "first", writer);
  need(harrow_stream_close(first), "stream_close");
  spec.command = "seq 1 3";
  need(harrow_submit(run, &spec, &writer), "submit");
  tell(run, "second", writer);
  harrow_result result;
  printf("waits: %d\n", harrow_await(run, reader, 0.1, &result) == HARROW_TIMEOUT);
  need(harrow_stream_close(second), "stream_close");
  tell(run, "reader", reader);
  const harrow_code code = harrow_stream_open(run, "s", &late);
  printf("ended: %d: %.18s\n", (int)code, harrow_message());
  spec.command = "true";
  spec.records = "some";
  printf("records: %d: %s\n", (int)harrow_submit(run, &spec, NULL), harrow_message());
  need(harrow_stream_open(run, "t", &late), "stream_open");
  return harrow_close(run) == HARROW_OK ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc == 6 && strcmp(argv[1], "submit") == 0) return submit(open_run(argv[2]), atoi(argv[3]), argv[4], argv[5]);
  if (argc == 3 && strcmp(argv[1], "kinds") == 0) return kinds(open_run(argv[2]));
  if (argc == 3 && strcmp(argv[1], "values") == 0) return values(open_run(argv[2]));
  if (argc == 3 && strcmp(argv[1], "streams") == 0) return streams(open_run(argv[2]));
  if (argc == 4 && strcmp(argv[1], "hold") == 0) return hold(open_run(argv[2]), atoi(argv[3]));
  return 2;
}
