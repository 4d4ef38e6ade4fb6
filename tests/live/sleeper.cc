// A task that testifies: appends "ID begin TIME NODE" and "ID end TIME NODE" to a file itself, prints known
// output, and, when asked, leaves a child behind that forked twice and has a session of its own. usage:
// sleeper MARKER ID SECONDS WITNESS [leave]     (MARKER is only there to be seen in /proc)
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

namespace {

void Testify(const char* file, const char* id, const char* what) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const char* node = getenv("HARROW_NODE");
  char line[256];
  const int length = snprintf(line, sizeof line, "%s %s %ld.%09ld %s\n", id, what, now.tv_sec, now.tv_nsec,
                              node != nullptr ? node : "-");
  const int fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, line, static_cast<size_t>(length)) != length) _exit(99);
  close(fd);
}

void Sleep(double seconds) {
  timespec left{};
  left.tv_sec = static_cast<time_t>(seconds);
  left.tv_nsec = static_cast<long>((seconds - static_cast<double>(left.tv_sec)) * 1e9);
  while (nanosleep(&left, &left) != 0) {
  }
}

void LeaveChild() {
  if (fork() != 0) return;
  setsid();
  if (fork() != 0) _exit(0);
  for (int fd = 0; fd < 64; ++fd) close(fd);
  Sleep(900);
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 98;
  Testify(argv[4], argv[2], "begin");
  if (argc > 5) LeaveChild();
  printf("out %s first\n", argv[2]);
  fflush(stdout);
  Sleep(atof(argv[3]));
  printf("out %s last\n", argv[2]);
  fprintf(stderr, "err %s\n", argv[2]);
  fflush(stdout);
  Testify(argv[4], argv[2], "end");
  return 0;
}
