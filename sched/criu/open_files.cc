// CRIU restores a file by opening its path, and refuses one whose size has changed since. That is what happens whenever an attempt goes
// on from an image, writes, and is lost: so sizes are noted with each image, and files are cut back to them. What was opened with
// O_APPEND is left as it is, as others may have written there, too; CRIU takes a descriptor of ours for it, whose size it does not ask.
#include "criu/open_files.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "os/posix_files.h"

namespace harrow::criu {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "harrow.held";
constexpr uint32_t kFormat = 1;
constexpr std::string_view kGone = " (deleted)";

std::string LinkOf(const std::string& path) {
  std::error_code error;
  return fs::read_symlink(path, error).native();
}

/// A line of /proc/PID/fdinfo/N.
uint64_t FromFdInfo(pid_t pid, std::string_view fd, std::string_view name, int base) {
  std::ifstream info(StrCat("/proc/", static_cast<int>(pid), "/fdinfo/", fd));
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    const size_t begin = line.find_first_not_of(" \t", name.size() + 1);
    uint64_t number = 0;
    if (begin != std::string::npos) std::from_chars(line.data() + begin, line.data() + line.size(), number, base);
    return number;
  }
  return 0;
}

std::string KeyOf(pid_t pid, std::string_view fd, const struct stat& st) {
  if (S_ISFIFO(st.st_mode)) return StrCat("pipe:[", static_cast<uint64_t>(st.st_ino), "]");
  if (S_ISREG(st.st_mode) || S_ISCHR(st.st_mode)) {
    char text[64];
    snprintf(text, sizeof text, "file[%x:%lx]", static_cast<unsigned>(FromFdInfo(pid, fd, "mnt_id", 10)), static_cast<unsigned long>(st.st_ino));
    return text;
  }
  return {};
}

void AddFile(const std::string& path, const struct stat& st, int flags, pb::Held* held) {
  if (!S_ISREG(st.st_mode) || st.st_nlink == 0 || !path.starts_with('/') || path.ends_with(kGone)) return;
  for (pb::OpenFile& known : *held->mutable_file()) {
    if (known.path() != path) continue;
    if ((flags & O_APPEND) == 0) known.set_flags(flags);
    return;
  }
  pb::OpenFile* const file = held->add_file();
  file->set_path(path);
  file->set_size(st.st_size);
  file->set_flags(flags);
}

}  // namespace

std::vector<Outside> StandardDescriptors() {
  std::vector<Outside> standard;
  for (int fd = 0; fd < 3; ++fd) {
    struct stat st {};
    standard.push_back({.key = fstat(fd, &st) == 0 ? KeyOf(getpid(), StrCat(fd), st) : "", .fd = fd});
  }
  return standard;
}

void AddOpenFiles(pid_t pid, const std::vector<Outside>& standard, pb::Held* held) {
  const std::string process = StrCat("/proc/", static_cast<int>(pid));
  std::error_code error;
  for (fs::directory_iterator at(process + "/fd", error), end; !error && at != end; at.increment(error)) {
    const std::string fd = at->path().filename();
    struct stat st {};
    if (stat(at->path().c_str(), &st) != 0) continue;
    const std::string key = KeyOf(pid, fd, st);
    bool outside = false;
    for (const Outside& each : standard) outside |= !key.empty() && each.key == key;
    const int flags = static_cast<int>(FromFdInfo(pid, fd, "flags", 8));
    if (!outside && (flags & O_ACCMODE) != O_RDONLY) AddFile(LinkOf(at->path()), st, flags, held);
  }
  // "ADDRESSES rw-s OFFSET DEVICE INODE    PATH"
  std::ifstream maps(process + "/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string addresses, rights, offset, device, inode, path;
    if (!(words >> addresses >> rights >> offset >> device >> inode) || rights.size() < 4 || rights[1] != 'w' || rights[3] != 's') continue;
    std::getline(words >> std::ws, path);
    struct stat st {};
    if (path.starts_with('/') && stat(path.c_str(), &st) == 0) AddFile(path, st, O_RDWR, held);
  }
}

Status PutBack(const pb::Held& held, std::vector<Outside>* outside) {
  for (const pb::OpenFile& file : held.file()) {
    struct stat st {};
    const std::string& path = file.path();
    if (stat(path.c_str(), &st) != 0)
      return Status(Code::kNotFound, StrCat(Printable(path), ", which it had open for writing: ", strerror(errno)));
    if (st.st_size < file.size())
      return Status(Code::kNotFound, StrCat(Printable(path), ", which it had open for writing, has ", st.st_size, " bytes instead of ", file.size()));
    if (st.st_size == file.size()) continue;
    if ((file.flags() & O_APPEND) != 0) {
      const int fd = open(path.c_str(), (file.flags() & (O_ACCMODE | O_NONBLOCK)) | O_APPEND | O_CLOEXEC);
      if (fd < 0) return Status(Code::kNotFound, StrCat(Printable(path), ": ", strerror(errno)));
      outside->push_back({.key = path.substr(1), .fd = fd});
    } else if (truncate(path.c_str(), file.size()) != 0) {
      return Status(Code::kUnavailable, StrCat(Printable(path), " cannot be cut back to ", file.size(), " bytes: ", strerror(errno)));
    }
  }
  return {};
}

Status WriteHeld(const std::string& directory, const pb::Held& held) {
  pb::Held noted = held;
  noted.set_format(kFormat);
  const std::string path = StrCat(directory, "/", kName), text = noted.SerializeAsString();
  const os::Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd.get() < 0 || write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) || fsync(fd.get()) != 0)
    return Status(Code::kUnavailable, StrCat(path, ": ", strerror(errno)));
  return {};
}

Result<pb::Held> ReadHeld(const std::string& directory) {
  const std::string path = StrCat(directory, "/", kName);
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  pb::Held held;
  if (!in || !held.ParseFromString(text.str()) || held.format() != kFormat)
    return Status(Code::kDamaged, StrCat(path, " is not there, or is not what this release writes beside an image of a process"));
  return held;
}

}  // namespace harrow::criu
