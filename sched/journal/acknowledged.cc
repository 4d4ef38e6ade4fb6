#include "journal/acknowledged.h"

#include <cinttypes>
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "run_dir/names.h"

namespace harrow::journal {
namespace {

constexpr size_t kTextBytes = 20 + 1 + 16;              // group, chain
constexpr size_t kFileBytes = kTextBytes + 1 + 16 + 1;  // checksum of these, end of line

std::string Encode(const Acknowledged::Mark& mark) {
  char text[kTextBytes + 1], checksum[kFileBytes - kTextBytes + 1];
  snprintf(text, sizeof(text), "%020" PRIu64 " %016" PRIx64, mark.group, mark.chain);
  snprintf(checksum, sizeof(checksum), " %016" PRIx64 "\n", Hash64(text));
  return StrCat(text, checksum);
}

}  // namespace

Acknowledged::Acknowledged(std::shared_ptr<run_dir::RunDir> dir)
    : dir_(std::move(dir)), path_(run_dir::AcknowledgedPath(dir_->path())) {}

std::optional<Acknowledged::Mark> Acknowledged::Read() const {
  const Result<os::Fd> fd = dir_->OpenFile(path_, O_RDONLY);
  if (!fd.ok()) return {};
  char text[kFileBytes + 2] = {};
  ssize_t n = read(fd->get(), text, kFileBytes + 1);
  if (n != static_cast<ssize_t>(kFileBytes)) return {};
  Mark mark;
  if (sscanf(text, "%20" SCNu64 " %16" SCNx64, &mark.group, &mark.chain) != 2) return {};
  if (Encode(mark) != std::string_view(text, kFileBytes)) return {};
  return mark;
}

Status Acknowledged::OpenForWriting() {
  Result<os::Fd> fd = dir_->OpenFile(path_, O_WRONLY | O_CREAT, 0644);
  if (!fd.ok()) return fd.status();
  fd_ = *std::move(fd);
  return {};
}

void Acknowledged::Write(const Mark& mark) {
  std::string text = Encode(mark);
  [[maybe_unused]] ssize_t n = pwrite(fd_.get(), text.data(), text.size(), 0);
}

}  // namespace harrow::journal
