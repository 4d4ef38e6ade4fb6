// Speaks as CRIU does (criu swrk FD), and dumps nothing: it notes a program's command and directory, kills it, and starts that again.
// FAKE_CRIU says what it does badly; what tests of the way between a task and CRIU need, where there is no CRIU.
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sched.h>
#include <string>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include "criu/rpc.pb.h"

namespace fs = std::filesystem;
using namespace harrow::criu;

namespace {

int channel = -1;
std::string how;

bool Hear(pb::Request* request) {
  std::string text(65536, '\0');
  const ssize_t n = recv(channel, text.data(), text.size(), 0);
  return n > 0 && request->ParseFromArray(text.data(), static_cast<int>(n));
}

void Say(const pb::Response& response) {
  const std::string text = response.SerializeAsString();
  if (send(channel, text.data(), text.size(), MSG_NOSIGNAL) < 0) _exit(1);
}

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string OfCaller(int fd) {
  return "/proc/" + std::to_string(getppid()) + "/fd/" + std::to_string(fd);
}

void Refuse(const pb::Request& request, const char* why) {
  std::ofstream(OfCaller(request.opts().work_dir_fd()) + "/" + request.opts().log_file())
      << "(00.01) Error (criu/util.c:1533): rlimit: Can't setup RLIMIT_NOFILE for self\n(00.02) Error (criu/sk-inet.c:191): " << why
      << "\n(00.03) Error (criu/cr-dump.c:2111): Dumping FAILED.\n";
  pb::Response response;
  response.set_type(request.type());
  response.set_success(false);
  Say(response);
}

void Dump(const pb::Request& request) {
  const std::string images = OfCaller(request.opts().images_dir_fd()), process = "/proc/" + std::to_string(request.opts().pid());
  if (how == "refuses") return Refuse(request, "inet: Connected TCP socket, consider using --tcp-established option.");
  if (how == "dies") _exit(1);
  if (how == "hangs") pause();
  kill(request.opts().pid(), SIGSTOP);
  std::ofstream(images + "/command", std::ios::binary) << ReadAll(process + "/cmdline");
  std::ofstream(images + "/directory") << fs::read_symlink(process + "/cwd").native();
  constexpr uint32_t kNoFiles[] = {0x54564319, 0x56303138};  // "an image", "of open files": none
  std::ofstream(images + "/files.img", std::ios::binary).write(reinterpret_cast<const char*>(kNoFiles), sizeof kNoFiles);
  pb::Response notice;
  notice.set_type(pb::NOTIFY);
  notice.set_success(true);
  notice.mutable_notify()->set_script("post-dump");
  Say(notice);
  pb::Request heard;
  if (!Hear(&heard) || !heard.notify_success()) {
    kill(request.opts().pid(), SIGCONT);
    return Refuse(request, "the caller does not want it");
  }
  if (how == "dies-before-it" && fork() == 0) {
    close_range(0, ~0u, 0);
    usleep(500'000);  // as a program that takes a while to die: its caller hears of our end before
    kill(request.opts().pid(), SIGKILL);
    _exit(0);
  }
  if (how == "dies-before-it") _exit(1);
  kill(request.opts().pid(), SIGKILL);
  if (how == "dies-late") _exit(1);
  pb::Response response;
  response.set_type(pb::DUMP);
  response.set_success(true);
  Say(response);
}

void Restore(const pb::Request& request) {
  const std::string images = OfCaller(request.opts().images_dir_fd());
  const std::string command = ReadAll(images + "/command"), directory = ReadAll(images + "/directory");
  if (how == "restores-nothing") return Refuse(request, "mmap: can't map 0x7000");
  if (how == "dies-restoring") _exit(1);
  const long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (pid == 0) {
    setsid();
    // Its three, in the order in which it is told of them: there may be fewer, where two are one.
    const auto& given = request.opts().inherit_fd();
    for (int fd = 0; fd < 3; ++fd) dup2(given[std::min(fd, given.size() - 1)].fd(), fd);
    std::vector<char*> argv;
    for (size_t at = 0; at < command.size(); at += strlen(command.data() + at) + 1) argv.push_back(const_cast<char*>(command.data() + at));
    argv.push_back(nullptr);
    if (chdir(directory.c_str()) == 0) execvp(argv[0], argv.data());
    _exit(127);
  }
  pb::Response response;
  response.set_type(pb::RESTORE);
  response.set_success(true);
  response.mutable_restore()->set_pid(static_cast<int>(pid));
  Say(response);
}

}  // namespace

int main(int count, char** words) {
  if (count != 3 || strcmp(words[1], "swrk") != 0) return 2;
  channel = atoi(words[2]);
  // What it does badly it does for tasks, not when it is tried.
  const char* const set = getenv("FAKE_CRIU");
  how = set != nullptr ? set : "";
  pb::Request request;
  if (!Hear(&request)) return 1;
  std::error_code error;
  if (const std::string work = fs::read_symlink(OfCaller(request.opts().work_dir_fd()), error); work.find("harrow-criu-") != std::string::npos && how != "never") how.clear();
  if (how == "never" && request.type() == pb::DUMP) Refuse(request, "this kernel cannot");
  if (how == "garbage") {
    [[maybe_unused]] const ssize_t n = send(channel, "\xff\xff\xff", 3, 0);
    return 0;
  }
  if (request.type() == pb::VERSION) {
    pb::Response response;
    response.set_type(pb::VERSION);
    response.set_success(true);
    response.mutable_version()->set_major_number(4);
    response.mutable_version()->set_minor_number(9);
    Say(response);
  } else if (request.type() == pb::DUMP && how != "never") {
    Dump(request);
  } else if (request.type() == pb::RESTORE) {
    Restore(request);
  }
  return 0;
}
