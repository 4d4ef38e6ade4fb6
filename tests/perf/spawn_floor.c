// The least a launcher can do: posix_spawn with stdout piped and read to its end, J in flight, in T processes.
// usage: spawn_floor spawn N J 1 T PROGRAM [ARGS...]; prints "...: SECONDS s" on stderr.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char** environ;

static void run(char** command, long count, int width) {
  struct pollfd in[64];
  pid_t child[64];
  int running = 0;
  char text[4096];
  for (long started = 0, ended = 0; ended < count;) {
    for (; started < count && running < width; ++started, ++running) {
      int ends[2];
      posix_spawn_file_actions_t actions;
      if (pipe2(ends, O_CLOEXEC)) exit(2);
      posix_spawn_file_actions_init(&actions);
      posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
      if (posix_spawn(&child[running], command[0], &actions, NULL, command, environ)) exit(2);
      posix_spawn_file_actions_destroy(&actions);
      close(ends[1]);
      in[running] = (struct pollfd){.fd = ends[0], .events = POLLIN};
    }
    poll(in, running, -1);
    for (int i = 0; i < running; ++i) {
      if (!in[i].revents || read(in[i].fd, text, sizeof text) > 0) continue;
      close(in[i].fd);
      waitpid(child[i], NULL, 0);
      ++ended;
      in[i] = in[--running];
      child[i--] = child[running];
    }
  }
}

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  long count = atol(argv[2]);
  int width = atoi(argv[3]), processes = atoi(argv[5]);
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (int i = 0; i < processes; ++i) {
    if (fork() == 0) {
      run(argv + 6, count / processes, width / processes > 0 ? width / processes : 1);
      _exit(0);
    }
  }
  while (wait(NULL) > 0) {
  }
  clock_gettime(CLOCK_MONOTONIC, &b);
  fprintf(stderr, "spawn_floor N=%ld: %.3f s\n", count, (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9);
  return 0;
}
