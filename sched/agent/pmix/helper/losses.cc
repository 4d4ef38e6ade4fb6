// When ranks of a node meet and some of them are lost, libpmix (4.2) counts those who are left with each
// loss, and queues the end of the meeting where all of these have come. It does so again for the next loss
// that it finds before the queue's turn, and frees the meeting as often: then its thread waits for ever on a
// lock in freed memory, and all that the helper serves is lost. As when a limit ends ranks that hang in a
// fence, which all go at once.
//
// What it finds ready it handles in passes, from one epoll_wait() to the next, and what is queued has its
// turn before the pass ends. So the program has a read(), a writev() and an epoll_wait() of its own, which
// libpmix and libevent find before the C library's: a loss comes alone in its pass. One that is found beside
// anything else is not ready yet, and in the next pass nothing else is. Of a write to who is gone nothing is
// said; the next read tells of the loss.
//
// What is read is not acknowledged at once (TCP_QUICKACK), though that would end each MPI_Finalize 40 ms sooner:
// libpmix leaves Nagle's algorithm on at the rank's end, and its last messages wait for the acknowledgement of
// one that has no answer. Open MPI 4 takes itself apart right after that, and on a busy machine the pause is what
// its own thread needs to handle "model declared" before: without it 3 of 100 one-rank programs that do nothing
// stood for ever there, with it 1 in some 500.
#include <cerrno>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "agent/pmix/helper/pass.h"

namespace harrow::agent::pmix {
namespace {

thread_local Pass pass;  // the calling thread's

bool IsSocket(int fd) {
  struct stat about {};
  return fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode);
}

bool IsGone(int fd) {
  char byte;
  const ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace
}  // namespace harrow::agent::pmix

extern "C" {

__attribute__((visibility("default"))) int epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
  using harrow::agent::pmix::pass;
  pass.Begin();
  return epoll_pwait(epoll, events, most, timeout, nullptr);
}

__attribute__((visibility("default"))) ssize_t read(int fd, void* buffer, size_t size) {
  using namespace harrow::agent::pmix;
  if (pass.loops() && IsSocket(fd) && !pass.HasItsTurn(IsGone(fd))) {
    errno = EAGAIN;
    return -1;
  }
  const iovec whole = {buffer, size};
  return readv(fd, &whole, 1);
}

__attribute__((visibility("default"))) ssize_t writev(int fd, const iovec* pieces, int count) {
  using harrow::agent::pmix::pass;
  const ssize_t n = pwritev2(fd, pieces, count, -1, 0);
  if (n < 0 && pass.loops() && (errno == EPIPE || errno == ECONNRESET)) errno = EAGAIN;
  return n;
}
}
