/* Loaded before a program (LD_PRELOAD): a write to a file whose name ends in $HELD_NAME waits while $HELD_WHILE exists.
 * Nothing of it leaves the process, as on storage that has stopped to answer. $HELD_WHILE.waits is made when one waits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static void wait_for(int fd) {
  const char *name = getenv("HELD_NAME"), *flag = getenv("HELD_WHILE");
  char link[4200], path[4096];
  ssize_t length;
  if (name == NULL || flag == NULL || access(flag, F_OK) != 0) return;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  length = readlink(link, path, sizeof path - 1);
  if (length < (ssize_t)strlen(name) || memcmp(path + length - strlen(name), name, strlen(name)) != 0) return;
  snprintf(link, sizeof link, "%s.waits", flag);
  close(open(link, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  while (access(flag, F_OK) == 0) usleep(10000);
}

#define HELD(result, call, arguments, values)                        \
  result call arguments {                                            \
    static result(*real) arguments;                                  \
    if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, #call);     \
    wait_for(fd);                                                    \
    return real values;                                              \
  }

HELD(ssize_t, write, (int fd, const void *bytes, size_t count), (fd, bytes, count))
HELD(ssize_t, pwrite, (int fd, const void *bytes, size_t count, off_t at), (fd, bytes, count, at))
HELD(ssize_t, pwrite64, (int fd, const void *bytes, size_t count, off64_t at), (fd, bytes, count, at))
