#include "marker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "fd.h"
#include "job_file.h"

namespace harrow::plugin {
namespace {

JobFile MarkerOf(uint32_t id) {
  return JobFile(id, ".job");
}

// The first line of a file, cut to what there is room for; `out` is empty before.
template <size_t N>
void FirstLine(const char* file, char (&out)[N]) {
  Fd fd(open(file, kReadFile));
  (void)!read(fd, out, N - 1);
  out[strcspn(out, "\n")] = '\0';
}

// Equal for all of a boot of this node; of a pretend node that is a PID namespace, too.
void BootId(char (&out)[80]) {
  char boot[40] = "", init[1024] = "", started[32] = "0";
  FirstLine("/proc/sys/kernel/random/boot_id", boot);
  FirstLine("/proc/1/stat", init);
  if (const char* at = strrchr(init, ')'); at != nullptr) {
    sscanf(at, ") %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %31s", started);
  }
  snprintf(out, sizeof out, "%s.%s", boot, started);
}

void NodeName(char (&out)[72]) {
  utsname name;
  snprintf(out, sizeof out, "%s", uname(&name) == 0 && name.nodename[0] != '\0' ? name.nodename : "-");
}

}  // namespace

bool ReadMarker(int base, uint32_t id, Marker* marker) {
  Fd fd(openat(base, MarkerOf(id).text, kReadFile));
  struct stat info;
  if (fd.none() || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) return false;
  *marker = Marker();
  char text[400] = "";
  (void)!::read(fd, text, sizeof text - 1);  // one that cannot be read is there, and says nothing
  Marker read;
  if (sscanf(text, "harrow-job 1 boot %79s node %71s uid %u leader %u", read.boot, read.node, &read.uid,
             &read.leader) == 4 &&
      strchr(text, '\0')[-1] == '\n') {
    *marker = read;
  }
  return true;
}

bool IsStale(const Marker& marker) {
  char boot[80], node[72];
  BootId(boot);
  NodeName(node);
  return marker.boot[0] != '\0' && strcmp(marker.boot, boot) != 0 && strcmp(marker.node, node) == 0;
}

bool WriteMarker(int base, uint32_t id, uid_t uid, uint32_t leader) {
  Fd fd(openat(base, MarkerOf(id).text, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (fd.none()) return false;
  char boot[80], node[72], text[400];
  BootId(boot);
  NodeName(node);
  const int size = snprintf(text, sizeof text, "harrow-job 1\nboot %s\nnode %s\nuid %u\nleader %u\n", boot,
                            node, uid, leader);
  const ssize_t written = write(fd, text, static_cast<size_t>(size));
  if (written == size) return true;
  const int error = written < 0 ? errno : ENOSPC;
  unlinkat(base, MarkerOf(id).text, 0);
  errno = error;
  return false;
}

bool RemoveMarker(int base, uint32_t id) {
  return unlinkat(base, MarkerOf(id).text, 0) == 0 || errno == ENOENT;
}

uint32_t IdOfMarker(const char* name) {
  if (name[0] < '1') return 0;  // a sign, a space, a leading zero: strtoul would take it
  char* end = nullptr;
  const unsigned long id = strtoul(name, &end, 10);
  return id <= UINT_MAX && strcmp(end, ".job") == 0 ? static_cast<uint32_t>(id) : 0;
}

}  // namespace harrow::plugin
