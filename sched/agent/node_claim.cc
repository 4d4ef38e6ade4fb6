// Which warden serves a node is settled among the processes of one user, and nobody else is to have a say in
// it: a name that all users share (a socket's, a file's in /tmp) can be taken by any of them. So a warden
// carries marks, memory files (memfd) that it only holds open, and finds those of others in /proc/PID/fd. A
// mark's name says for which run and node; the kernel says whose it is, and ends it with the process.
//
// A warden first shows that it asks, then looks at all others. It serves when there is no other who asks or
// serves, and shows that. It takes its mark back, to look again later, when one serves, or an older one asks.
// Both marks stay until the end. Two cannot serve: each looked around last after it had begun to show that it
// asks, and the later of the two looks would have seen the other. And of several that ask the oldest is never
// the one to take its mark back.
#include "agent/node_claim.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <dirent.h>
#include <functional>
#include <optional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "os/clock.h"
#include "os/process.h"

namespace harrow::agent {
namespace {

/// Names in a directory of /proc; none when it may not be read or is gone.
void ForEachNumber(const std::string& directory, const std::function<void(int)>& use) {
  DIR* entries = opendir(directory.c_str());
  if (entries == nullptr) return;
  while (const dirent* entry = readdir(entries)) {
    int number = 0;
    const char* end = entry->d_name + strlen(entry->d_name);
    const auto [ptr, error] = std::from_chars(entry->d_name, end, number);
    if (error == std::errc() && ptr == end) use(number);
  }
  closedir(entries);
}

/// The name of the memory file behind a link of /proc/PID/fd, if this user made it. Another user's may have
/// any name.
std::optional<std::string> OwnMemoryFile(const std::string& link) {
  char target[512];
  const ssize_t size = readlink(link.c_str(), target, sizeof target);
  constexpr std::string_view kBegin = "/memfd:", kEnd = " (deleted)";
  std::string_view name(target, size > 0 ? static_cast<size_t>(size) : 0);
  struct stat st {};
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
  if (stat(link.c_str(), &st) != 0 || st.st_uid != geteuid()) return std::nullopt;
  name.remove_prefix(kBegin.size());
  name.remove_suffix(kEnd.size());
  return std::string(name);
}

}  // namespace

NodeClaim::NodeClaim(const std::string& run_dir, const std::string& node) {
  const std::string what = StrCat("harrow-", std::hash<std::string>()(run_dir + "\n" + node));
  asks_ = what + "-asks";
  serves_ = what + "-serves";
}

NodeClaim::Others NodeClaim::LookAround() const {
  Others others;
  const pid_t self = getpid();
  os::Process own;
  if (!os::ReadProcess(self, &own)) return others;
  ForEachNumber("/proc", [&](int pid) {
    if (pid == self) return;
    bool asks = false;
    const std::string descriptors = StrCat("/proc/", pid, "/fd");
    ForEachNumber(descriptors, [&](int fd) {
      const std::optional<std::string> name = OwnMemoryFile(StrCat(descriptors, "/", fd));
      asks = asks || name == asks_;
      others.serving = others.serving || name == serves_;
    });
    os::Process other;
    if (!asks || !os::ReadProcess(pid, &other)) return;
    others.any = true;
    others.older = others.older || std::pair(other.started, other.pid) < std::pair(own.started, own.pid);
  });
  return others;
}

bool NodeClaim::Take(Duration limit, const std::function<bool()>& pause) {
  const Duration until = os::RealClock().Steady() + limit;
  while (true) {
    if (!asks_fd_.ok()) asks_fd_ = os::Fd(memfd_create(asks_.c_str(), MFD_CLOEXEC));
    if (!asks_fd_.ok()) return true;
    const Others others = LookAround();
    const bool late = os::RealClock().Steady() > until;
    // One that asks for so long has been stopped by somebody.
    if (!others.serving && (!others.any || late)) {
      serves_fd_ = os::Fd(memfd_create(serves_.c_str(), MFD_CLOEXEC));
      return true;
    }
    if (others.serving || others.older) Close();
    if (late || !pause()) return false;
  }
}

}  // namespace harrow::agent
