#include "journal/acknowledged.h"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "base/text.h"
#include "journal/hash.h"

namespace harrow::journal {
namespace {

constexpr size_t kTextBytes = 20 + 1 + 16;              // group, chain
constexpr size_t kFileBytes = kTextBytes + 1 + 16 + 1;  // checksum of these, end of line

std::string Encode(const Acknowledged::Mark& mark) {
  char text[kFileBytes + 1];
  snprintf(text, sizeof(text), "%020" PRIu64 " %016" PRIx64, mark.group, mark.chain);
  snprintf(text + kTextBytes, sizeof(text) - kTextBytes, " %016" PRIx64 "\n",
           Hash64(std::string_view(text, kTextBytes)));
  return std::string(text, kFileBytes);
}

}  // namespace

Acknowledged::Acknowledged(const std::string& run_dir) : path_(run_dir + "/journal.acknowledged") {}

Acknowledged::~Acknowledged() {
  if (fd_ >= 0) close(fd_);
}

std::optional<Acknowledged::Mark> Acknowledged::Read() const {
  int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return {};
  char text[kFileBytes + 2] = {};
  ssize_t n = read(fd, text, kFileBytes + 1);
  close(fd);
  if (n != static_cast<ssize_t>(kFileBytes)) return {};
  Mark mark;
  if (sscanf(text, "%20" SCNu64 " %16" SCNx64, &mark.group, &mark.chain) != 2) return {};
  if (Encode(mark) != std::string_view(text, kFileBytes)) return {};
  return mark;
}

Status Acknowledged::OpenForWriting() {
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd_ >= 0) return {};
  return Status(errno == ENOSPC || errno == EDQUOT ? Code::kExhausted : Code::kPermission,
                StrCat("cannot write ", path_, ": ", strerror(errno)));
}

void Acknowledged::Write(const Mark& mark) {
  std::string text = Encode(mark);
  [[maybe_unused]] ssize_t n = pwrite(fd_, text.data(), text.size(), 0);
}

}  // namespace harrow::journal
