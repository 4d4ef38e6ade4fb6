// Three processes. The *holder*, which the agent started and waits for. Its child, the *init* of a PID namespace, so that the numbers
// that an image wants are free on every node; whoever is no super-user gets a user namespace for that, in which he is himself, and which
// gives CRIU the one right that it needs. And the program, a child of init, which leads a session.
//
// /proc has to be that of the namespace, so there is a mount namespace, too. What is mounted or unmounted outside is seen in it. Descriptors
// that were opened outside belong to mounts that CRIU cannot find: those of the program are 0, 1 and 2 alone, and CRIU is told that they
// lead outside.
//
// Numbers: the program and what it starts count from kFirstOfProgram, what init and CRIU start from kFirstOfInit, so that CRIU does not
// sit on a number of the image. The kernel gives the number after the last one: that is set before each. What the program starts while CRIU
// begins to dump it comes among CRIU's, and who starts very much comes round to where numbers begin: so the image's are noted beside it
// (numbers.h), and who restores it begins where a row of them is free.
//
// The end of the holder is the end of init (a death signal, and its end of the socket), and that of init is the end, by the kernel, of all
// that is in the namespace.
#include "criu/hold.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "criu/numbers.h"
#include "criu/open_files.h"
#include "os/posix_files.h"
#include "os/process.h"

namespace harrow::criu {
namespace {

namespace fs = std::filesystem;

constexpr int kFirstOfProgram = 10'000, kFirstOfInit = 10, kOfInit = 100;
constexpr int kAskInit = 0;        // what the holder writes to init besides numbers of signals
constexpr int kPipeGrace = 400;    // ms: what the program has left behind may still write
constexpr int kDiesWithin = 2000;  // ms, of who has been killed, on a busy machine
constexpr int kTryLimit = 20;      // s

/// What init tells the holder at the end.
struct Ended {
  int wait_status = 0;
  bool image = false;
};

/// Waits for the end of a child that has not been waited for. False: it lives on.
bool EndsWithin(pid_t pid, int limit_ms) {
  const os::Fd ended(os::OpenPidfd(pid));
  pollfd wait{ended.get(), POLLIN, 0};
  const auto ready = TEMP_FAILURE_RETRY(poll(&wait, 1, limit_ms));
  return ready != 0;
}

Status Failed(const std::string& what) {
  return Status(Code::kUnavailable, StrCat(what, ": ", strerror(errno)));
}

Status WriteTo(const char* path, const std::string& text) {
  const os::Fd fd(open(path, O_WRONLY | O_CLOEXEC));
  if (fd.get() < 0 || write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return Failed(path);
  return {};
}

void NextNumberIs(int number) {
  (void)WriteTo("/proc/sys/kernel/ns_last_pid", StrCat(number - 1));
}

void Note(const std::string& path, const char* what, const Status& status) {
  std::ofstream(path, std::ios::trunc) << what << status.message() << "\n";
}

/// The caller's next child is the init of a namespace. `*unprivileged`: also in a user namespace.
Status EnterNamespaces(bool* unprivileged) {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  *unprivileged = uid != 0;
  if (unshare((*unprivileged ? CLONE_NEWUSER : 0) | CLONE_NEWPID | CLONE_NEWNS) != 0) {
    return Failed(*unprivileged ? "no user namespace can be made, which CRIU needs where it has no rights of the system's (sysctl user.max_user_namespaces)"
                                : "no namespace of processes can be made");
  }
  if (!*unprivileged) return {};
  HARROW_RETURN_IF_ERROR(WriteTo("/proc/self/setgroups", "deny"));
  HARROW_RETURN_IF_ERROR(WriteTo("/proc/self/uid_map", StrCat(uid, " ", uid, " 1")));
  return WriteTo("/proc/self/gid_map", StrCat(gid, " ", gid, " 1"));
}

int ExitAs(int wait_status) {
  if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
  const int number = WTERMSIG(wait_status);
  const rlimit none{};
  setrlimit(RLIMIT_CORE, &none);
  signal(number, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  sigprocmask(SIG_UNBLOCK, &one, nullptr);
  kill(getpid(), number);
  return 128 + number;
}

void SetDefaultSignals() {
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
}

/// What the holder was given for the program.
std::vector<std::string> TakeEnvironment() {
  std::vector<std::string> entries;
  const char* const number = getenv(kEnvironmentFd);
  if (number == nullptr) {
    for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
    return entries;
  }
  const os::Fd fd(atoi(number));
  unsetenv(kEnvironmentFd);
  std::string text;
  char block[65536];
  for (ssize_t n; (n = pread(fd.get(), block, sizeof block, static_cast<off_t>(text.size()))) > 0;) text.append(block, static_cast<size_t>(n));
  for (size_t at = 0; at < text.size(); at += entries.back().size() + 1) entries.emplace_back(text.c_str() + at);
  return entries;
}

std::string ValueIn(const std::vector<std::string>& entries, const std::string& name) {
  for (const std::string& entry : entries) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return {};
}

class Init {
 public:
  Init(const HoldOptions& options, std::vector<std::string> environment, Tool tool, int holder)
      : options_(options), environment_(std::move(environment)), tool_(std::move(tool)), holder_(holder), tmp_(ValueIn(environment_, "TMPDIR")) {}
  int Run();

 private:
  Status Settle();
  Status Restore();
  pid_t Start();
  /// The program goes on where this fails.
  Status Dump();
  /// False: it is over.
  bool Hear();
  void Reap();
  void End(bool image);

  std::string Work() const { return fs::path(options_.trouble).parent_path(); }

  /// What CRIU is asked for takes so long at most.
  Tool ToolFor(int times) const {
    Tool tool = tool_;
    tool.limit_ms = times * options_.limit_ms;
    return tool;
  }
  /// Why it cannot be dumped; else the notes beside its image.
  Status NoteWhatIsOpen(pb::Held* held) const;
  Status FindWhatStays() const;
  int NumberAfterAll() const;

  const HoldOptions& options_;
  const std::vector<std::string> environment_;
  const Tool tool_;
  const int holder_;
  std::string tmp_;  // the program's TMPDIR
  std::vector<Outside> standard_;
  pid_t program_ = -1;
  bool ended_ = false;
  int wait_status_ = 0;
};

Status Init::Settle() {
  // Of its own numbers, and seen by nobody outside.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return Failed("mounts cannot be kept apart");
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) return Failed("/proc cannot be mounted in a namespace");
  standard_ = StandardDescriptors();
  return {};
}

pid_t Init::Start() {
  NextNumberIs(kFirstOfProgram);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  setsid();
  SetDefaultSignals();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::vector<char*> argv, entries;
  for (const std::string& word : options_.argv) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& entry : environment_) entries.push_back(const_cast<char*>(entry.c_str()));
  argv.push_back(nullptr);
  entries.push_back(nullptr);
  environ = entries.data();
  execvp(argv[0], argv.data());
  const int error = errno;
  const std::string text = StrCat("harrow: ", Printable(options_.argv[0]), ": ", error == ENOENT ? "command not found" : strerror(error), "\n");
  [[maybe_unused]] const ssize_t n = write(2, text.data(), text.size());
  _exit(error == ENOENT ? 127 : 126);
}

Status Init::Restore() {
  const Result<pb::Held> held = ReadHeld(options_.restore);
  if (!held.ok()) return held.status();
  std::vector<Outside> outside;
  for (int i = 0; i < std::min(held->standard_size(), 3); ++i) {
    const std::string& key = held->standard(i);
    const bool known = std::any_of(outside.begin(), outside.end(), [&](const Outside& each) { return each.key == key; });
    if (!key.empty() && !known) outside.push_back({.key = key, .fd = i});
  }
  tmp_ = held->tmp();
  Status status = TakeAsTheyAre(*held, options_.restore);
  if (status.ok()) {
    NextNumberIs(FirstFree({held->number().begin(), held->number().end()}, kFirstOfInit, kOfInit));
    const Result<pid_t> restored = criu::Restore(ToolFor(4), {options_.restore, Work()}, outside);
    status = restored.status();
    if (restored.ok()) program_ = *restored;
  }
  if (!status.ok()) {
    utsname here{};
    uname(&here);
    if (held->kernel() != here.release)
      return Status(status.code(), StrCat(status.message(), " (it was made on ", Printable(held->host(), 60), ", with Linux ", Printable(held->kernel(), 40), ")"));
    return status;
  }
  NextNumberIs(NumberAfterAll());
  kill(program_, SIGCONT);  // where it stood when it was dumped: whoever stopped it knows it by another number
  return {};
}

int Init::NumberAfterAll() const {
  int last = kFirstOfProgram;
  for (const os::Process& process : os::Descendants(getpid())) last = std::max(last, static_cast<int>(process.pid) + 1);
  return last;
}

/// CRIU dumps the program and what is below it. Others would end with this namespace.
Status Init::FindWhatStays() const {
  Status stays;
  // The program makes processes meanwhile, and some end: one that stays is seen each time.
  for (int times = 0; times < 3; ++times) {
    const std::vector<os::Process> all = os::Descendants(getpid()), along = os::Descendants(program_);
    stays = {};
    for (const os::Process& process : all) {
      if (process.pid == program_ || std::any_of(along.begin(), along.end(), [&](const os::Process& each) { return each.pid == process.pid; })) continue;
      stays = Status(Code::kUnavailable, StrCat("it has left a process behind (", Printable(os::ProgramOf(process), 40), "), which would not go along"));
    }
    if (stays.ok()) break;
  }
  return stays;
}

Status Init::NoteWhatIsOpen(pb::Held* held) const {
  utsname here{};
  uname(&here);
  held->set_host(here.nodename);
  held->set_kernel(here.release);
  held->set_tmp(tmp_);
  for (const Outside& each : standard_) held->add_standard(each.key);
  std::vector<pid_t> dumped = {program_};
  for (const os::Process& process : os::Descendants(program_)) dumped.push_back(process.pid);
  for (const pid_t pid : dumped) {
    AddOpenFiles(pid, standard_, held);
    for (const int number : NumbersOf(pid)) held->add_number(number);
  }
  for (const pid_t pid : dumped) {
    if (const std::string path = OpenBelow(pid, *held, tmp_); !path.empty())
      return Status(Code::kUnavailable, StrCat("it uses ", Printable(path, 120), " in its TMPDIR, which does not go along"));
  }
  return {};
}

Status Init::Dump() {
  if (const Status stays = FindWhatStays(); !stays.ok()) return stays;
  std::error_code error;
  fs::create_directories(options_.images, error);
  const int last = NumberAfterAll();
  NextNumberIs(kFirstOfInit);
  std::vector<Outside> outside;
  for (const Outside& each : standard_) {
    if (!each.key.empty() && !each.key.starts_with("pipe")) outside.push_back(each);
  }
  bool may_end_it = false;
  const Status status = criu::Dump(ToolFor(1), program_, {options_.images, Work()}, outside, [&]() -> Status {
    pb::Held held;
    HARROW_RETURN_IF_ERROR(NoteWhatIsOpen(&held));
    HARROW_RETURN_IF_ERROR(WriteHeld(options_.images, held));
    may_end_it = true;
    return {};
  });
  if (status.ok()) return status;
  // CRIU kills it then, before it answers; what it has killed is not dead at once.
  if (may_end_it) (void)EndsWithin(program_, kDiesWithin);
  NextNumberIs(last);
  for (fs::directory_iterator at(options_.images, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    fs::remove_all(at->path(), ignored);
  }
  return status;
}

void Init::Reap() {
  int wait_status = 0;
  for (pid_t pid; (pid = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    if (pid != program_) continue;
    ended_ = true;
    wait_status_ = wait_status;
  }
}

void Init::End(bool image) {
  const Ended ended{.wait_status = wait_status_, .image = image};
  [[maybe_unused]] const ssize_t n = send(holder_, &ended, sizeof ended, MSG_NOSIGNAL);
}

bool Init::Hear() {
  int what = 0;
  const ssize_t n = recv(holder_, &what, sizeof what, MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n != sizeof what) return false;
  if (what != kAskInit) {
    kill(program_, what);
    return true;
  }
  const Status dumped = Dump();
  Reap();
  if (dumped.ok()) {
    End(true);
    return false;
  }
  if (ended_ && WIFSIGNALED(wait_status_)) {
    // By CRIU, which did not live to say that the image is whole, or died within it.
    Note(options_.trouble, kLostProcess, dumped);
    return false;
  }
  if (!ended_) Note(options_.trouble, kNoImage, dumped);
  return true;
}

int Init::Run() {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_SETMASK, &child, nullptr);
  Status ready = Settle();
  if (ready.ok() && !options_.restore.empty()) ready = Restore();
  if (!ready.ok()) {
    Note(options_.trouble, kNoProcess, ready);
    return 1;
  }
  if (options_.restore.empty()) program_ = Start();
  if (program_ < 0) {
    Note(options_.trouble, kNoProcess, Failed("no process can be made"));
    return 1;
  }
  const os::Fd children(os::SignalDescriptor(std::array{SIGCHLD}));
  while (true) {
    Reap();
    if (ended_) break;
    std::array<pollfd, 2> wait{{{children.get(), POLLIN, 0}, {holder_, POLLIN, 0}}};
    poll(wait.data(), wait.size(), -1);
    if ((wait[0].revents & POLLIN) != 0) (void)os::ReadSignal(children.get());
    if (wait[1].revents != 0 && !Hear()) return 1;
  }
  // What it has left behind may still say something.
  for (int waited = 0; waited < kPipeGrace;) {
    const pid_t other = waitpid(-1, nullptr, WNOHANG);
    if (other < 0 && errno != EINTR) break;
    if (other != 0) continue;
    poll(nullptr, 0, 20);
    waited += 20;
  }
  End(false);
  return 0;
}

int signal_pipe = -1;

void OnSignal(int number) {
  const int kept = errno;
  [[maybe_unused]] const ssize_t n = write(signal_pipe, &number, sizeof number);
  errno = kept;
}

}  // namespace

int Hold(const HoldOptions& options) {
  const std::vector<std::string> environment = TakeEnvironment();
  bool unprivileged = false;
  int pair[2], signals[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0 || pipe2(signals, O_CLOEXEC | O_NONBLOCK) != 0) {
    Note(options.trouble, kNoProcess, Failed("no pipe"));
    return 1;
  }
  os::Fd ours(pair[0]), theirs(pair[1]);
  signal_pipe = signals[1];
  // TERM and those of a terminal go to the whole group, or to each process: the program gets them without us.
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGALRM, SIGWINCH, SIGURG, SIGXCPU, options.ask}) {
    struct sigaction action {};
    action.sa_handler = OnSignal;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, nullptr);
  }
  if (const Status entered = EnterNamespaces(&unprivileged); !entered.ok()) {
    Note(options.trouble, kNoProcess, entered);
    return 1;
  }
  const pid_t init = fork();
  if (init < 0) {
    Note(options.trouble, kNoProcess, Failed("no process can be made"));
    return 1;
  }
  if (init == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ours = os::Fd();
    SetDefaultSignals();
    Init world(options, environment, {.program = options.program, .unprivileged = unprivileged}, theirs.get());
    _exit(world.Run());
  }
  theirs = os::Fd();
  Ended ended;
  while (true) {
    std::array<pollfd, 2> wait{{{ours.get(), POLLIN, 0}, {signals[0], POLLIN, 0}}};
    poll(wait.data(), wait.size(), -1);
    int number = 0;
    while (read(signals[0], &number, sizeof number) == sizeof number) {
      if (number == SIGTERM) continue;
      const int what = number == options.ask ? kAskInit : number;
      [[maybe_unused]] const ssize_t n = send(ours.get(), &what, sizeof what, MSG_NOSIGNAL);
    }
    if (wait[0].revents == 0) continue;
    const bool told = recv(ours.get(), &ended, sizeof ended, 0) == static_cast<ssize_t>(sizeof ended);
    int of_init = 0;
    (void)TEMP_FAILURE_RETRY(waitpid(init, &of_init, 0));
    if (!told) return ExitAs(of_init);
    return ended.image ? options.status : ExitAs(ended.wait_status);
  }
}

namespace {

/// Until it has ended, or the time is over, when it is killed.
int WaitStatusOf(pid_t pid, int limit_ms) {
  if (!EndsWithin(pid, limit_ms)) kill(pid, SIGKILL);
  int wait_status = 0;
  (void)TEMP_FAILURE_RETRY(waitpid(pid, &wait_status, 0));
  return wait_status;
}

}  // namespace

Result<std::string> Try(const std::string& program, const std::string& place) {
  const Result<std::string> version = VersionOf({.program = program});
  if (!version.ok()) return version.status();
  std::string directory = StrCat(place, "/harrow-criu-XXXXXX");
  if (mkdtemp(directory.data()) == nullptr) return Failed(directory);
  const std::string images = directory + "/images", trouble = directory + "/trouble", dumped = directory + "/dumped";
  fs::create_directory(images);
  // The first waits for its image, or for word that there is none, however long that takes; the second is that image, and ends.
  Status status;
  for (const bool restored : {false, true}) {
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0) return Failed("no pipe");
    const os::Fd from(ready[0]);
    os::Fd to(ready[1]);
    const pid_t pid = fork();
    if (pid < 0) return Failed("no process can be made");
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(to.get(), 1);
      const int nothing = open("/dev/null", O_RDWR);
      dup2(nothing, 0);
      dup2(nothing, 2);
      _exit(Hold({.program = program,
                  .images = images,
                  .restore = restored ? images : "",
                  .trouble = trouble,
                  .ask = SIGRTMIN,
                  .status = 85,
                  .limit_ms = kTryLimit * 1000 / 4,
                  .argv = {"/bin/sh", "-c", "echo ready; until [ -e \"$0\" ] || [ -e \"$1\" ]; do sleep 0.02; done; exit 7", dumped, trouble}}));
    }
    to = os::Fd();
    char c;
    pollfd wait{from.get(), POLLIN, 0};
    if (!restored && poll(&wait, 1, kTryLimit * 1000) == 1 && read(from.get(), &c, 1) == 1) kill(pid, SIGRTMIN);
    const int wait_status = WaitStatusOf(pid, kTryLimit * 1000);
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == (restored ? 7 : 85)) {
      std::ofstream{dumped};
      continue;
    }
    std::ifstream in(trouble);
    std::string why;
    std::getline(in, why);
    why.erase(0, why.find(": ") == std::string::npos ? 0 : why.find(": ") + 2);
    status = Status(Code::kUnavailable, why.empty() ? StrCat("a process that was ", restored ? "restored" : "to be dumped", ": ", os::DescribeWaitStatus(wait_status)) : why);
    break;
  }
  std::error_code error;
  fs::remove_all(directory, error);
  if (!status.ok()) return status;
  return *version;
}

}  // namespace harrow::criu
