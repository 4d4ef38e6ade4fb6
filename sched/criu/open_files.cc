// CRIU restores a file by opening its path, and refuses one whose size has changed since. That is what happens whenever an attempt goes
// on from an image, writes, and is lost, and whenever others write to the same file. Files are never cut: nobody knows whose bytes those
// beyond the former end are. The task writes its own once more, at the same place, and what it appends stands there twice. So the sizes
// are taken out of the image, which lies unpacked on this node's disk.
//
// A path may mean another file by then, through a link that somebody has put there or because a log was rotated: it is opened without
// following any link, and has to have the same number (inode) as before.
#include "criu/open_files.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <linux/openat2.h>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <sys/syscall.h>
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

void AddFile(const std::string& path, const struct stat& st, pb::Held* held) {
  // By this name it is to be found again. One that has been removed has none: CRIU keeps what was in it.
  struct stat named {};
  if (!S_ISREG(st.st_mode) || !path.starts_with('/') || lstat(path.c_str(), &named) != 0 || named.st_ino != st.st_ino || named.st_dev != st.st_dev) return;
  for (const pb::OpenFile& known : held->file()) {
    if (known.path() == path) return;
  }
  pb::OpenFile* const file = held->add_file();
  file->set_path(path);
  file->set_size(st.st_size);
  file->set_inode(st.st_ino);
}

/// A path in /proc/PID/maps, where line feeds are \012.
std::string WithoutEscapes(std::string_view path) {
  constexpr std::string_view kLineFeed = "\\012";
  std::string out;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path.substr(i, kLineFeed.size()) == kLineFeed) {
      out += '\n';
      i += kLineFeed.size() - 1;
    } else {
      out += path[i];
    }
  }
  return out;
}

/// Without following a link, wherever in the path it is.
os::Fd OpenExactly(const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS;
  const long fd = syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how);
  if (fd < 0 && errno == ENOSYS) return os::Fd(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  return os::Fd(static_cast<int>(fd));
}

constexpr const char* kFilesImage = "files.img";
constexpr uint32_t kImageMagic = 0x54564319, kFilesMagic = 0x56303138;
constexpr uint32_t kRegularFile = 1;

/// CRIU's image of open files says no sizes of these any more.
Status ForgetSizes(const std::string& images, const std::set<std::string>& paths) {
  const std::string path = StrCat(images, "/", kFilesImage);
  const Status unknown(Code::kDamaged, StrCat(path, " does not read as an image of open files"));
  std::ifstream in(path, std::ios::binary);
  std::string out(8, '\0');
  uint32_t magic[2] = {};
  if (!in.read(out.data(), 8)) return unknown;
  std::memcpy(magic, out.data(), sizeof magic);
  if (magic[0] != kImageMagic || magic[1] != kFilesMagic) return unknown;
  for (uint32_t size = 0; in.read(reinterpret_cast<char*>(&size), sizeof size);) {
    std::string text(std::min<uint32_t>(size, 1u << 20), '\0');
    pb::FileEntry entry;
    if (!in.read(text.data(), static_cast<std::streamsize>(text.size())) || !entry.ParseFromString(text)) return unknown;
    if (entry.type() == kRegularFile && entry.has_reg()) {
      if (paths.contains(entry.reg().name()) && entry.reg().has_size()) {
        entry.mutable_reg()->clear_size();
        text = entry.SerializeAsString();
      }
    }
    size = static_cast<uint32_t>(text.size());
    out.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << out;
  file.close();
  return file ? Status() : Status(Code::kUnavailable, StrCat(path, ": cannot be written"));
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
    if (!outside && (flags & O_ACCMODE) != O_RDONLY) AddFile(LinkOf(at->path()), st, held);
  }
  // "ADDRESSES rw-s OFFSET DEVICE INODE    PATH"
  std::ifstream maps(process + "/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string addresses, rights, offset, device, inode, path;
    if (!(words >> addresses >> rights >> offset >> device >> inode) || rights.size() < 4 || rights[1] != 'w' || rights[3] != 's') continue;
    std::getline(words >> std::ws, path);
    path = WithoutEscapes(path);
    struct stat st {};
    if (lstat(path.c_str(), &st) == 0 && StrCat(static_cast<uint64_t>(st.st_ino)) == inode) AddFile(path, st, held);
  }
}

std::string OpenBelow(pid_t pid, const pb::Held& held, const std::string& directory) {
  const std::string begin = directory + "/";
  if (directory.empty()) return {};
  for (const pb::OpenFile& file : held.file()) {
    if (file.path().starts_with(begin)) return file.path();
  }
  const std::string process = StrCat("/proc/", static_cast<int>(pid));
  for (const char* place : {"/cwd", "/root"}) {
    if (const std::string path = LinkOf(process + place); (path + "/").starts_with(begin)) return path;
  }
  std::error_code error;
  for (fs::directory_iterator at(process + "/fd", error), end; !error && at != end; at.increment(error)) {
    const std::string path = LinkOf(at->path());
    if (path.starts_with(begin) && !path.ends_with(kGone)) return path;
  }
  // "NUMBER: USERS PROTOCOL FLAGS TYPE STATE INODE PATH": whose sockets they are is not said; the namespace of the network may be everybody's.
  std::ifstream sockets(process + "/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const size_t path = line.find(" " + begin);
    if (path != std::string::npos) return line.substr(path + 1);
  }
  return {};
}

Status TakeAsTheyAre(const pb::Held& held, const std::string& images) {
  std::set<std::string> paths;
  for (const pb::OpenFile& file : held.file()) {
    const std::string& path = file.path();
    const os::Fd fd = OpenExactly(path);
    struct stat st {};
    if (fd.get() < 0 || fstat(fd.get(), &st) != 0)
      return Status(Code::kNotFound, StrCat(Printable(path), ", which it had open for writing: ", strerror(errno)));
    // The number of a file system may be another one on another node.
    if (!S_ISREG(st.st_mode) || st.st_ino != file.inode())
      return Status(Code::kNotFound, StrCat(Printable(path), ", which it had open for writing, is another file by now"));
    if (st.st_size < file.size())
      return Status(Code::kNotFound, StrCat(Printable(path), ", which it had open for writing, has ", st.st_size, " bytes instead of ", file.size()));
    paths.insert(path);
  }
  return paths.empty() ? Status() : ForgetSizes(images, paths);
}

bool HasHeld(const std::string& directory) {
  return access(StrCat(directory, "/", kName).c_str(), F_OK) == 0;
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
  const Result<std::string> text = os::RealFileSystem().Read(path);
  pb::Held held;
  if (!text.ok() || !held.ParseFromString(*text) || held.format() != kFormat)
    return Status(Code::kDamaged, StrCat(path, " is not there, or is not what this release writes beside an image of a process"));
  return held;
}

}  // namespace harrow::criu
