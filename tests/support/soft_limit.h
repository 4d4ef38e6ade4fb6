#pragma once

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <sys/resource.h>

namespace harrow::test {

/// A soft limit of this process; what it was comes back at the end of this.
class SoftLimit {
 public:
  SoftLimit(int resource, rlim_t soft) : resource_(resource) {
    getrlimit(Resource(), &before_);
    rlimit limit = before_;
    limit.rlim_cur = soft;
    if (setrlimit(Resource(), &limit) != 0) abort();
  }
  ~SoftLimit() { setrlimit(Resource(), &before_); }
  SoftLimit(const SoftLimit&) = delete;
  SoftLimit& operator=(const SoftLimit&) = delete;

 private:
  __rlimit_resource Resource() const { return static_cast<__rlimit_resource>(resource_); }
  const int resource_;
  rlimit before_{};
};

/// As long as it lives, no file becomes longer, as on a full disk.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)), limit_(RLIMIT_FSIZE, bytes) {}
  ~SmallFiles() { signal(SIGXFSZ, handler_); }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  const sighandler_t handler_;
  const SoftLimit limit_;
};

/// As long as it lives, so many descriptors can be opened, and no more.
class FewDescriptors {
 public:
  explicit FewDescriptors(int more) : limit_(RLIMIT_NOFILE, FirstBeyond(more)) {}

 private:
  static rlim_t FirstBeyond(int more) {
    int fd = 0;
    for (;; ++fd) {
      if (fcntl(fd, F_GETFD) < 0 && more-- == 0) return static_cast<rlim_t>(fd);
    }
  }
  const SoftLimit limit_;
};

}  // namespace harrow::test
