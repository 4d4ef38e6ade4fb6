/* A node of a recorded search tree as a task of a run: sleeps as long as looking at it took, LOAD times as long, and says that it has ended to the
 * program that submits for its allocation, which listens at the socket SUBMITTER.
 *
 * usage: node TREE NUMBER
 *
 * TREE has for each node three doubles: seconds, and the numbers of two children, -1 where there is none. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words) {
  double node[3], seconds;
  const char *load = getenv("LOAD"), *submitter = getenv("SUBMITTER");
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  struct timespec left;
  int tree, out;
  if (count != 3 || submitter == NULL || strlen(submitter) >= sizeof to.sun_path) return 2;
  tree = open(words[1], O_RDONLY);
  if (tree < 0 || pread(tree, node, sizeof node, atol(words[2]) * (long)sizeof node) != sizeof node) {
    perror(words[1]);
    return 1;
  }
  seconds = node[0] * (load != NULL ? atof(load) : 1);
  left.tv_sec = (time_t)seconds;
  left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
  while (nanosleep(&left, &left) != 0) {
  }
  strcpy(to.sun_path, submitter);
  out = socket(AF_UNIX, SOCK_DGRAM, 0);
  if (out < 0 || sendto(out, words[2], strlen(words[2]), 0, (struct sockaddr *)&to, sizeof to) < 0) {
    perror(submitter);
    return 1;
  }
  return 0;
}
