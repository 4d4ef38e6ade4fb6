// `criu swrk FD` takes one request by a socket of packets that it has inherited, and ends. It is the caller's child, so that what it
// restores can be the caller's child as well (rst_sibling).
//
// Rights. CRIU asks for CAP_CHECKPOINT_RESTORE. A caller who is no super-user has it over a user namespace of its own (hold.cc), and hands
// it on as an ambient capability; together with CAP_SYS_PTRACE, where the system lets processes look at nobody but their children. No more
// than that: a CRIU that could set user ids would try to become the namespace's root, which has none here.
#include "criu/rpc.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "criu/rpc.pb.h"
#include "os/posix_files.h"

namespace harrow::criu {
namespace {

constexpr int kFirstHandedOn = 20;        // descriptors below that are the program's own
constexpr uint32_t kCgroupsAsTheyAre = 0;
constexpr uint32_t kNoNetworkLock = 3;
constexpr uint32_t kGhostLimit = 64u << 20;  // bytes of a deleted file that is open
constexpr const char* kLog = "criu.log";
constexpr size_t kMostAnswer = 64 * 1024;
constexpr int kSoon = 10'000;  // ms

Status Trouble(std::string what) {
  return Status(Code::kUnavailable, std::move(what));
}

void HandOnCapability(int number) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> sets{};
  if (syscall(SYS_capget, &header, sets.data()) != 0) return;
  sets[static_cast<size_t>(number / 32)].inheritable |= 1u << (number % 32);
  if (syscall(SYS_capset, &header, sets.data()) != 0) return;
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number, 0, 0);
}

Result<os::Fd> OpenDirectory(const std::string& directory) {
  os::Fd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return Trouble(StrCat(directory, ": ", strerror(errno)));
  return fd;
}

/// One request to one program.
class Call {
 public:
  Call() = default;
  ~Call() { End(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// `*outside`: gets the numbers that the descriptors have in the program; null: there are none.
  Status Begin(const Tool& tool, std::vector<Outside>* outside = nullptr);
  /// The same for an image; `*request` gets what is asked for each.
  Status BeginImage(const Tool& tool, const ImagePlace& place, pb::Type type, std::vector<Outside>* outside, pb::Request* request);
  Status Say(const pb::Request& request);
  Result<pb::Response> Hear();
  void End();

 private:
  os::Fd ours_, images_, work_;
  pid_t pid_ = -1;
  int limit_ms_ = 0;
};

Status Call::Begin(const Tool& tool, std::vector<Outside>* outside) {
  limit_ms_ = tool.limit_ms;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return Trouble(StrCat("no socket: ", strerror(errno)));
  ours_ = os::Fd(pair[0]);
  const os::Fd theirs(pair[1]);
  int number = kFirstHandedOn;
  const int socket_number = number++;
  std::vector<int> from;
  std::vector<Outside> nobody;
  if (outside == nullptr) outside = &nobody;
  for (Outside& each : *outside) {
    from.push_back(each.fd);
    each.fd = number++;
  }
  const std::string socket_text = StrCat(socket_number);
  int failed[2];
  if (pipe2(failed, O_CLOEXEC) != 0) return Trouble(StrCat("no pipe: ", strerror(errno)));
  const os::Fd failed_out(failed[0]);
  os::Fd failed_in(failed[1]);
  pid_ = fork();
  if (pid_ < 0) return Trouble(StrCat("no process: ", strerror(errno)));
  if (pid_ == 0) {
    // Out of the way first: what is handed on takes the numbers from kFirstHandedOn.
    const int top = number + static_cast<int>(from.size()) + 8;
    const int socket_fd = fcntl(theirs.get(), F_DUPFD, top);
    const int tell = fcntl(failed_in.get(), F_DUPFD_CLOEXEC, top);
    dup2(socket_fd, socket_number);
    close(socket_fd);
    for (int& fd : from) fd = fcntl(fd, F_DUPFD_CLOEXEC, top);
    for (size_t i = 0; i < from.size(); ++i) dup2(from[i], (*outside)[i].fd);
    const int nothing = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) dup2(nothing, fd);
    if (nothing > 2) close(nothing);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (tool.unprivileged) {
      HandOnCapability(CAP_CHECKPOINT_RESTORE);
      HandOnCapability(CAP_SYS_PTRACE);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execlp(tool.program.c_str(), tool.program.c_str(), "swrk", socket_text.c_str(), nullptr);
    const int error = errno;
    [[maybe_unused]] const ssize_t n = write(tell, &error, sizeof error);
    _exit(127);
  }
  failed_in = os::Fd();
  int error = 0;
  if (read(failed_out.get(), &error, sizeof error) == sizeof error) {
    End();
    return Trouble(error == ENOENT ? StrCat(Printable(tool.program), " is not there (setting criu, option --criu)")
                                   : StrCat("cannot execute ", Printable(tool.program), ": ", strerror(error)));
  }
  return {};
}

Status Call::BeginImage(const Tool& tool, const ImagePlace& place, pb::Type type, std::vector<Outside>* outside, pb::Request* request) {
  for (const auto& [directory, fd] : {std::pair(&place.images, &images_), std::pair(&place.work, &work_)}) {
    Result<os::Fd> open = OpenDirectory(*directory);
    if (!open.ok()) return open.status();
    *fd = *std::move(open);
  }
  request->set_type(type);
  pb::Options* const options = request->mutable_opts();
  options->set_images_dir_fd(images_.get());  // CRIU opens them again, by our /proc/PID/fd
  options->set_work_dir_fd(work_.get());
  options->set_log_level(2);
  options->set_log_file(kLog);
  options->set_manage_cgroups_mode(kCgroupsAsTheyAre);
  options->set_network_lock(kNoNetworkLock);
  options->set_file_locks(true);
  options->set_ghost_limit(kGhostLimit);
  if (tool.unprivileged) options->set_unprivileged(true);
  return Begin(tool, outside);
}

Status Call::Say(const pb::Request& request) {
  const std::string text = request.SerializeAsString();
  if (send(ours_.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size())) return {};
  return Trouble(StrCat("CRIU does not listen: ", strerror(errno)));
}

Result<pb::Response> Call::Hear() {
  std::string text(kMostAnswer, '\0');
  pollfd wait{ours_.get(), POLLIN, 0};
  const auto ready = TEMP_FAILURE_RETRY(poll(&wait, 1, limit_ms_));
  if (ready == 0) {
    kill(pid_, SIGKILL);
    return Trouble(StrCat("CRIU did not answer within ", FormatDuration(std::chrono::milliseconds(limit_ms_)), ", and was killed"));
  }
  const ssize_t n = TEMP_FAILURE_RETRY(recv(ours_.get(), text.data(), text.size(), 0));
  if (n <= 0) return Trouble("CRIU ended without an answer");
  pb::Response response;
  if (!response.ParseFromArray(text.data(), static_cast<int>(n))) return Trouble("CRIU's answer cannot be read: it is none of version 4");
  return response;
}

void Call::End() {
  ours_ = os::Fd();  // it ends with that
  if (pid_ > 0) {
    (void)TEMP_FAILURE_RETRY(waitpid(pid_, nullptr, 0));
  }
  pid_ = -1;
}

Status Refused(const ImagePlace& place, const pb::Response& response) {
  const Result<std::string> log = os::RealFileSystem().Read(StrCat(place.work, "/", kLog));
  std::string reason = log.ok() ? ReasonIn(*log) : "";
  if (reason.empty()) reason = Printable(response.cr_errmsg(), 200);
  if (reason.empty()) reason = response.cr_errno() != 0 ? strerror(response.cr_errno()) : "it does not say why";
  return Trouble(StrCat("CRIU: ", reason));
}

}  // namespace

std::string ReasonIn(std::string_view log) {
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    const size_t at = line.find("Error (");
    const size_t end = line.find("): ", at);
    if (at == std::string_view::npos || end == std::string_view::npos) continue;
    // Without the rights of the system's root these are said, and nothing comes of them.
    const std::string_view place = line.substr(at, end - at);
    const std::string_view what = line.substr(end + 3);
    if (what.find("RLIMIT_NOFILE for self") != std::string_view::npos || what.find("Unexpected error") != std::string_view::npos) continue;
    if (place.find("kerndat") != std::string_view::npos) continue;
    return Printable(what, 200);
  }
  return {};
}

Result<std::string> VersionOf(const Tool& tool) {
  Call call;
  Tool soon = tool;
  soon.limit_ms = std::min(tool.limit_ms, kSoon);
  HARROW_RETURN_IF_ERROR(call.Begin(soon));
  pb::Request request;
  request.set_type(pb::VERSION);
  HARROW_RETURN_IF_ERROR(call.Say(request));
  const Result<pb::Response> answer = call.Hear();
  if (!answer.ok()) return answer.status();
  if (answer->type() != pb::VERSION || !answer->success() || !answer->has_version())
    return Trouble(StrCat(Printable(tool.program), " does not tell its version; CRIU 4 is wanted"));
  const pb::Version& version = answer->version();
  std::string text = StrCat(version.major_number(), ".", version.minor_number());
  if (version.major_number() < 4) return Trouble(StrCat(Printable(tool.program), " is CRIU ", text, "; version 4 or later is wanted"));
  if (version.sublevel() != 0) text += StrCat(".", version.sublevel());
  return text;
}

Status Dump(const Tool& tool, pid_t pid, const ImagePlace& place, const std::vector<Outside>& outside,
            const std::function<Status()>& stands) {
  Call call;
  pb::Request request;
  HARROW_RETURN_IF_ERROR(call.BeginImage(tool, place, pb::DUMP, nullptr, &request));
  pb::Options* const options = request.mutable_opts();
  options->set_pid(pid);
  options->set_notify_scripts(true);
  for (const Outside& each : outside) options->add_external(each.key);
  HARROW_RETURN_IF_ERROR(call.Say(request));
  Status said;
  while (true) {
    const Result<pb::Response> answer = call.Hear();
    if (!answer.ok()) return said.ok() ? answer.status() : said;
    if (answer->type() != pb::NOTIFY) {
      if (answer->success()) return {};
      call.End();
      return said.ok() ? Refused(place, *answer) : said;
    }
    if (answer->notify().script() == "post-dump") said = stands();
    pb::Request heard;
    heard.set_type(pb::NOTIFY);
    heard.set_notify_success(said.ok());
    HARROW_RETURN_IF_ERROR(call.Say(heard));
  }
}

Result<pid_t> Restore(const Tool& tool, const ImagePlace& place, const std::vector<Outside>& outside) {
  Call call;
  pb::Request request;
  std::vector<Outside> handed = outside;
  HARROW_RETURN_IF_ERROR(call.BeginImage(tool, place, pb::RESTORE, &handed, &request));
  pb::Options* const options = request.mutable_opts();
  options->set_rst_sibling(true);
  for (const Outside& each : handed) {
    pb::InheritFd* const inherited = options->add_inherit_fd();
    inherited->set_key(each.key);
    inherited->set_fd(each.fd);
  }
  HARROW_RETURN_IF_ERROR(call.Say(request));
  const Result<pb::Response> answer = call.Hear();
  if (!answer.ok()) return answer.status();
  call.End();
  if (!answer->success() || !answer->has_restore()) return Refused(place, *answer);
  return answer->restore().pid();
}

}  // namespace harrow::criu
