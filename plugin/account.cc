#include "account.h"

#include <charconv>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "fd.h"
#include "remove_tree.h"

namespace harrow::plugin {
namespace {

constexpr char kPrefix[] = ".harrow-run-";
constexpr int kMostRuns = 64;

// Reads "KEY VALUE\n" at the beginning of `text` and takes it away.
bool TakeNumber(std::string_view* text, std::string_view key, uint64_t* out) {
  if (!text->starts_with(key)) return false;
  text->remove_prefix(key.size());
  const char* end = text->data() + text->size();
  auto [stop, error] = std::from_chars(text->data(), end, *out);
  if (error != std::errc() || stop == end || *stop != '\n') return false;
  text->remove_prefix(static_cast<size_t>(stop + 1 - text->data()));
  return true;
}

}  // namespace

void CleanName(const char* name, char* out, unsigned long size) {
  unsigned long i = 0;
  for (; name[i] != '\0' && i + 1 < size; ++i) {
    char c = name[i];
    bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                c == '_' || c == '@' || c == '-';
    out[i] = good ? c : '_';
  }
  out[i] = '\0';
}

bool ParseRunAccount(std::string_view text, RunAccount* account) {
  constexpr std::string_view kFirst = "harrow-run 1\nrun ";
  if (!text.starts_with(kFirst)) return false;
  text.remove_prefix(kFirst.size());
  size_t end = text.find('\n');
  if (end == std::string_view::npos || end == 0 || end >= sizeof account->run) return false;
  char name[sizeof account->run] = "";
  memcpy(name, text.data(), end);
  text.remove_prefix(end + 1);
  CleanName(name, account->run, sizeof account->run);
  return TakeNumber(&text, "tasks ", &account->tasks) &&
         TakeNumber(&text, "core_seconds ", &account->core_seconds) && text.empty();
}

void LogRuns(int directory, uint32_t job, uint32_t uid, const char* user) {
  Listing entries(directory);
  char name[65];
  CleanName(user, name, sizeof name);
  int runs = 0;
  while (const dirent* entry = entries.Next()) {
    if (strncmp(entry->d_name, kPrefix, sizeof kPrefix - 1) != 0 || runs == kMostRuns) continue;
    // Not through a link, and a FIFO does not hold us up.
    Fd fd(OpenOnThisMount(directory, entry->d_name, O_NONBLOCK | O_NOCTTY));
    if (fd.none()) continue;
    struct stat info;
    char text[512];
    ssize_t n = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? read(fd, text, sizeof text) : -1;
    RunAccount account;
    if (n <= 0 || !ParseRunAccount({text, static_cast<size_t>(n)}, &account)) continue;
    if (runs++ == 0) openlog("harrow", LOG_PID, LOG_DAEMON);
    syslog(LOG_INFO, "job=%u user=%s uid=%u run=%s tasks=%llu core_hours=%.3f", job, name, uid, account.run,
           static_cast<unsigned long long>(account.tasks), static_cast<double>(account.core_seconds) / 3600);
  }
  if (runs > 0) closelog();
}

}  // namespace harrow::plugin
