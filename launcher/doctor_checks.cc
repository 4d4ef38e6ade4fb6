#include "launcher/doctor_checks.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <spawn.h>
#include <sstream>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <thread>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "batch/slurm_site.h"
#include "config/run_options.h"
#include "criu/hold.h"
#include "journal/snapshot.h"
#include "launcher/inputs.h"
#include "os/event_loop.h"
#include "os/file_system.h"
#include "os/log.h"
#include "report/summary.h"
#include "run_dir/find.h"
#include "run_dir/part.h"
#include "run_dir/rendezvous.h"
#include "topology/machine.h"
#include "topology/slots.h"
#include "wire/channel.h"

extern char** environ;

namespace harrow::launcher {
namespace {

using std::chrono::steady_clock;

Check Ok(std::string name, std::string text) {
  return {std::move(name), Health::kOk, std::move(text), ""};
}
Check Warning(std::string name, std::string text, std::string advice) {
  return {std::move(name), Health::kWarning, std::move(text), std::move(advice)};
}
Check Bad(std::string name, std::string text, std::string advice) {
  return {std::move(name), Health::kBad, std::move(text), std::move(advice)};
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string Reason() {
  return strerror(errno);
}

/// The directory of this process' cgroup (version 2), empty when there is none.
std::string CgroupDirectory() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) {
      const std::string path = "/sys/fs/cgroup" + line.substr(3);
      return access((path + "/cgroup.procs").c_str(), F_OK) == 0 ? path : "";
    }
  }
  return "";
}

/// The smallest limit of that name from this cgroup up to the root; 0: none.
uint64_t CgroupLimit(const char* name) {
  uint64_t least = 0;
  for (std::string path = CgroupDirectory(); path.size() >= strlen("/sys/fs/cgroup");
       path.resize(path.rfind('/'))) {
    const uint64_t limit = strtoull(FirstLine(StrCat(path, "/", name)).c_str(), nullptr, 10);  // "max" is 0
    if (limit > 0 && (least == 0 || limit < least)) least = limit;
  }
  return least;
}

std::string FileSystemName(long type) {
  switch (static_cast<unsigned long>(type)) {
    case 0xEF53:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case 0x9123683E:
      return "btrfs";
    case 0x01021994:
      return "tmpfs";
    case 0x6969:
      return "nfs";
    case 0x0BD00BD0:
      return "lustre";
    case 0x794C7630:
      return "overlay";
    case 0x47504653:
      return "gpfs";
    case 0x19830326:
      return "beegfs";
    case 0x00C36400:
      return "ceph";
    case 0x65735546:
      return "fuse";
    case 0x2FC12FC1:
      return "zfs";
    case 0x01021997:
      return "9p";
    default: {
      char text[32];
      snprintf(text, sizeof text, "type 0x%lx", static_cast<unsigned long>(type));
      return text;
    }
  }
}

/// Removes a probe's files however it ends.
struct Cleanup {
  std::vector<std::string> paths;
  ~Cleanup() {
    for (const std::string& path : paths) unlink(path.c_str());
  }
};

Check CheckAppend(const std::string& path) {
  // Two descriptors that append in turn, as two processes of a run do on one log.
  const int a = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int b = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  bool whole = a >= 0 && b >= 0;
  for (int i = 0; whole && i < 4; ++i) whole = write(i % 2 == 0 ? a : b, "12345678", 8) == 8;
  struct stat info {};
  whole = whole && fstat(a, &info) == 0 && info.st_size == 32;
  if (a >= 0) close(a);
  if (b >= 0) close(b);
  return whole ? Ok("append", "two writers append to one file without loss")
               : Bad("append", "two writers that append to one file overwrite each other",
                     "keep run directories on another file system (--run-dir)");
}

}  // namespace

std::string InPath(const std::string& program) {
  const char* path = getenv("PATH");
  std::istringstream directories(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    const std::string candidate = (directory.empty() ? "." : directory) + "/" + program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

std::vector<Check> CheckCores() {
  std::vector<Check> checks;
  auto machine = topology::ReadMachine();
  if (!machine.ok()) {
    return {Bad("cores", StrCat("hwloc cannot read this machine: ", machine.status().message()),
                "unset HWLOC_XMLFILE and HWLOC_SYNTHETIC, or see lstopo")};
  }
  checks.push_back(Ok("topology", machine->summary));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const int pus = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  const auto plan = topology::PlanSlots(*machine, 0);
  std::string text = StrCat(plan.slots.size(), plan.slots.size() == 1 ? " slot" : " slots",
                            plan.slots.size() < machine->cores.size() ? " on cores: " : ": one a core of ",
                            machine->cores.size(), " allowed (", pus, " of ", online, " PUs)");
  // In a job the grant decides, of which CheckBatch tells.
  if (Variable("SLURM_JOB_ID").empty()) text += plan.pinned ? ", tasks are pinned" : ", tasks are not pinned";
  if (!plan.notice.empty()) text += StrCat(": ", plan.notice);
  if (pus > 0 && pus < online) {
    checks.push_back(Ok("cores", text + "; the rest belongs to others (cpuset or affinity of this shell)"));
  } else {
    checks.push_back(Ok("cores", text));
  }
  if (!machine->devices.empty()) checks.push_back(Ok("devices", StrCat(machine->devices.size(), " visible")));

  uint64_t available = 0;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    if (line.starts_with("MemAvailable:")) available = strtoull(line.c_str() + 13, nullptr, 10) * 1024;
  }
  const uint64_t limit = CgroupLimit("memory.max");
  std::string memory =
      StrCat(FormatBytes(machine->memory), " for tasks, ", FormatBytes(available), " free now");
  if (limit > 0) memory += StrCat(", limited to ", FormatBytes(limit), " by a cgroup");
  const uint64_t usable = limit > 0 ? std::min(limit, available) : available;
  checks.push_back(
      usable < (uint64_t{256} << 20)
          ? Warning("memory", memory, "end other programs, or give tasks a `memory` so that few run at once")
          : Ok("memory", memory));
  return checks;
}

std::vector<Check> CheckCgroup() {
  const std::string directory = CgroupDirectory();
  if (directory.empty()) {
    return {
        Warning("cgroup", "no cgroup of version 2 for this process",
                "memory limits of tasks are kept by polling; nothing to do unless tasks allocate very fast")};
  }
  const std::string controllers = FirstLine(directory + "/cgroup.controllers");
  const bool writable =
      access(directory.c_str(), W_OK) == 0 && access((directory + "/cgroup.procs").c_str(), W_OK) == 0;
  if (writable && controllers.find("memory") != std::string::npos) {
    return {Ok("cgroup", StrCat(directory, " is writable, controllers: ", controllers))};
  }
  return {Warning("cgroup", StrCat(directory, writable ? " has no memory controller" : " is not writable"),
                  "memory limits of tasks are kept by polling; a site can delegate the cgroup (Slurm: "
                  "ConstrainRAMSpace)")};
}

std::vector<Check> CheckDirectory(const std::string& path) {
  std::vector<Check> checks;
  struct statfs kind {};
  struct statvfs space {};
  if (statfs(path.c_str(), &kind) != 0 || statvfs(path.c_str(), &space) != 0) {
    return {Bad("directory", StrCat(path, ": ", Reason()), "name an existing directory")};
  }
  const std::string name = FileSystemName(kind.f_type);
  const uint64_t free = uint64_t{space.f_bavail} * space.f_frsize;
  const std::string room = StrCat(path, " on ", name, ", ", FormatBytes(free), " free");
  if ((space.f_flag & ST_RDONLY) != 0 || access(path.c_str(), W_OK) != 0) {
    checks.push_back(Bad("directory", StrCat(room, ", not writable"),
                         "run elsewhere, or give --run-dir a writable place"));
    return checks;
  }
  if (free < (uint64_t{64} << 20)) {
    checks.push_back(Bad("directory", room, "free some space: journal and output of tasks are kept here"));
  } else if (name == "tmpfs") {
    checks.push_back(Warning("directory", room + "; a reboot loses it", "keep runs that matter on a disk"));
  } else if (space.f_files > 0 && space.f_favail < 100) {
    checks.push_back(Bad("directory", room + ", but hardly an inode", "remove files here"));
  } else {
    checks.push_back(Ok("directory", room));
  }

  const std::string probe = StrCat(path, "/.harrow-doctor-", getpid());
  Cleanup cleanup{{probe + ".a", probe + ".b", probe + ".c"}};
  const int fd = open((probe + ".a").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) {
    checks.push_back(
        Bad("files", StrCat("cannot create a file: ", Reason()), "see the permissions and quota here"));
    return checks;
  }
  const std::string page(4096, 'x');
  std::vector<double> times;
  bool synced = true;
  for (int i = 0; i < 5 && synced; ++i) {
    const auto begin = steady_clock::now();
    synced = write(fd, page.data(), page.size()) == static_cast<ssize_t>(page.size()) && fdatasync(fd) == 0;
    times.push_back(std::chrono::duration<double>(steady_clock::now() - begin).count());
  }
  const std::string why = Reason();
  struct stat info {};
  fstat(fd, &info);
  close(fd);
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  if (!synced) {
    checks.push_back(Bad("fsync", StrCat("cannot write and sync: ", why),
                         "runs cannot be made durable here; use another file system"));
  } else if (median > 0.1) {
    checks.push_back(Warning(
        "fsync", StrCat(FormatDuration(FromSeconds(median)), " to make 4 KiB durable"),
        "results are committed in groups, so this delays, but does not slow; a local disk is faster"));
  } else {
    checks.push_back(Ok("fsync", StrCat(FormatDuration(FromSeconds(median)), " to make 4 KiB durable")));
  }
  if ((info.st_mode & 077) != 0) {
    checks.push_back(Bad("modes", "a file made 0600 is open to others here (mount options?)",
                         "the key of a run lies in its directory: choose a file system with modes"));
  }
  const int other = open((probe + ".b").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (other >= 0) close(other);
  struct stat renamed {};
  const bool replaced = rename((probe + ".a").c_str(), (probe + ".b").c_str()) == 0 &&
                        stat((probe + ".b").c_str(), &renamed) == 0 && renamed.st_ino == info.st_ino;
  checks.push_back(
      replaced ? Ok("rename", "replaces a file in one step")
               : Bad("rename", "does not replace a file in one step", "use another file system (--run-dir)"));
  checks.push_back(CheckAppend(probe + ".c"));

  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const double skew = static_cast<double>(info.st_mtim.tv_sec - now.tv_sec) +
                      static_cast<double>(info.st_mtim.tv_nsec - now.tv_nsec) * 1e-9;
  if (now.tv_sec < 1'700'000'000) {
    checks.push_back(Bad("clock", "this machine's clock is years behind", "set it (chronyc makestep)"));
  } else if (skew > 1 || skew < -5) {
    checks.push_back(
        Warning("clock", StrCat("times of files here differ by ", skew, " s from this machine's clock"),
                "run NTP on both; --stale and the search for the newest run compare such times"));
  } else {
    checks.push_back(Ok("clock", "this machine and the file system agree"));
  }
  return checks;
}

std::vector<Check> CheckCriu() {
  // As `harrow hold` of an agent: a process of its own, as it enters namespaces.
  config::RunOptions options;
  if (const auto settings = config::ReadSettings(os::RealFileSystem(), Environment()); settings.ok()) (void)config::Apply(*settings, &options);
  const char* const place = getenv("TMPDIR");
  const Result<std::string> version = criu::Try(options.criu, place != nullptr ? place : "/tmp");
  return {Ok("criu", version.ok() ? StrCat(*version, " dumps and restores processes here")
                                  : StrCat("tasks with checkpoint = \"criu\" would run without checkpoints: ", version.status().message()))};
}

std::vector<Check> CheckProcesses() {
  std::vector<Check> checks;
  rlimit files{}, processes{};
  getrlimit(RLIMIT_NOFILE, &files);
  getrlimit(RLIMIT_NPROC, &processes);
  const auto number = [](rlim_t limit) {
    return limit == RLIM_INFINITY ? std::string("unlimited") : StrCat(uint64_t{limit});
  };
  const uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::string nofile = StrCat(number(files.rlim_cur), " (at most ", number(files.rlim_max), ")");
  checks.push_back(files.rlim_max < 16 * cores + 256
                       ? Warning("open files", nofile, StrCat("raise it: ulimit -Hn ", 16 * cores + 1024))
                       : Ok("open files", nofile));
  const uint64_t pids = CgroupLimit("pids.max");
  std::string nproc = number(processes.rlim_cur);
  if (pids > 0) nproc += StrCat(", ", pids, " by a cgroup");
  const bool few = processes.rlim_cur < 4 * cores + 64 || (pids > 0 && pids < 4 * cores + 64);
  checks.push_back(few ? Warning("processes", nproc, StrCat("raise it: ulimit -u ", 64 * cores + 4096))
                       : Ok("processes", nproc));

  const std::string program = InPath("true");
  if (program.empty()) {
    checks.push_back(Bad("starting", "no program `true` in PATH", "set PATH"));
  } else {
    const auto begin = steady_clock::now();
    int ended = 0;
    constexpr int kStarts = 20;
    for (int i = 0; i < kStarts; ++i) {
      pid_t pid = -1;
      char* argv[] = {const_cast<char*>("true"), nullptr};
      int status = -1;
      if (posix_spawn(&pid, program.c_str(), nullptr, nullptr, argv, environ) == 0 &&
          waitpid(pid, &status, 0) == pid && status == 0) {
        ++ended;
      }
    }
    const double each = std::chrono::duration<double>(steady_clock::now() - begin).count() / kStarts;
    if (ended != kStarts) {
      checks.push_back(Bad("starting", StrCat(kStarts - ended, " of ", kStarts, " programs did not start"),
                           "see ulimit -u and the machine's load"));
    } else {
      checks.push_back(
          Ok("starting", StrCat(FormatDuration(FromSeconds(each)), " a program, one after the other")));
    }
  }
  int subreaper = 0;
  prctl(PR_GET_CHILD_SUBREAPER, &subreaper, 0, 0, 0);
  if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    checks.push_back(
        Bad("subreaper", StrCat("the kernel refuses: ", Reason()),
            "processes that tasks leave behind cannot be ended; see the container's seccomp profile"));
  } else {
    prctl(PR_SET_CHILD_SUBREAPER, subreaper, 0, 0, 0);
  }
  if (access("/bin/sh", X_OK) != 0) {
    checks.push_back(Bad("shell", "/bin/sh cannot be executed",
                         "commands with shell syntax need it: set `shell` to another"));
  }
  const char* tmp = getenv("TMPDIR");
  const std::string directory = tmp == nullptr || *tmp == '\0' ? "/tmp" : tmp;
  struct statvfs space {};
  if (access(directory.c_str(), W_OK | X_OK) != 0 || statvfs(directory.c_str(), &space) != 0) {
    checks.push_back(
        Bad("TMPDIR", StrCat(directory, ": ", Reason()), "set TMPDIR to a directory that you may write to"));
  } else {
    checks.push_back(Ok(
        "TMPDIR", StrCat(directory, ", ", FormatBytes(uint64_t{space.f_bavail} * space.f_frsize), " free")));
  }
  return checks;
}

std::vector<Check> CheckNetwork() {
  (void)os::OpenLog("/dev/null");  // the wrong key is refused with a line in the log
  auto loop = os::MakeEventLoop();
  const wire::Credentials right{"doctor", run_dir::NewKey()}, wrong{"doctor", run_dir::NewKey()};
  std::string heard;
  std::shared_ptr<wire::Channel> server_end;
  auto listener = wire::Listen(loop.get(), {"127.0.0.1"}, 0, right, wire::Limits{},
                               [&](std::shared_ptr<wire::Channel> channel) -> wire::ChannelHandler {
                                 server_end = std::move(channel);
                                 return {.on_message = [&](std::string_view m) { server_end->Send(m); },
                                         .on_closed = [](const Status&) {}};
                               });
  if (!listener.ok()) {
    return {Bad("network", StrCat("cannot listen on 127.0.0.1: ", listener.status().message()),
                "server and agents talk over TCP, on one machine too: bring up lo (ip link set lo up)")};
  }
  const std::string address = (*listener)->addresses().front();
  const auto dial = [&](const wire::Credentials& credentials) {
    struct Answer {
      bool done = false;
      Status status;
    } answer;
    std::shared_ptr<wire::Channel> client_end;
    const auto finish = [&](Status status) {
      if (answer.done) return;
      answer = {true, std::move(status)};
      loop->Stop();
    };
    wire::Dial(loop.get(), address, wire::Role::kClient, credentials, wire::Limits{},
               [&](Result<std::shared_ptr<wire::Channel>> channel) -> wire::ChannelHandler {
                 if (!channel.ok()) {
                   finish(channel.status());
                   return {};
                 }
                 client_end = *channel;
                 client_end->Send("hello");
                 return {.on_message =
                             [&](std::string_view m) {
                               finish(m == "hello" ? Status() : Status(Code::kDamaged, "another answer"));
                             },
                         .on_closed =
                             [&](const Status& why) {
                               finish(why.ok() ? Status(Code::kUnavailable, "closed") : why);
                             }};
               });
    const auto timer =
        loop->After(std::chrono::seconds(8), [&] { finish(Status(Code::kUnavailable, "no answer in 8 s")); });
    while (!answer.done) loop->Run();
    loop->CancelTimer(timer);
    if (client_end) client_end->Close();
    return answer.status;
  };
  std::vector<Check> checks;
  const auto begin = steady_clock::now();
  const Status good = dial(right);
  const double took = std::chrono::duration<double>(steady_clock::now() - begin).count();
  checks.push_back(good.ok()
                       ? Ok("network", StrCat("TLS 1.3 with a pre-shared key over ", address, " in ",
                                              FormatDuration(FromSeconds(took))))
                       : Bad("network", StrCat("TLS with itself over ", address, " fails: ", good.message()),
                             "see firewall rules for lo, and OpenSSL's configuration (OPENSSL_CONF)"));
  const Status refused = dial(wrong);
  if (refused.ok()) {
    checks.push_back(
        Bad("network", "a peer with a wrong key was let in", "do not run with this OpenSSL; report it"));
  } else {
    checks.push_back(Ok("keys", "a wrong key is refused"));
  }
  return checks;
}

std::vector<Check> CheckSettings() {
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) environment.emplace_back(*variable);
  auto settings = config::ReadSettings(os::RealFileSystem(), environment);
  config::RunOptions options;
  const Status applied = settings.ok() ? config::Apply(*settings, &options) : settings.status();
  if (!applied.ok()) {
    std::string message = applied.message();
    std::replace(message.begin(), message.end(), '\n', ' ');
    return {Bad("settings", message, "correct the setting, or remove it")};
  }
  std::string text;
  for (const config::Setting& setting : *settings) {
    text += StrCat(text.empty() ? "" : ", ", setting.key, "=", Printable(setting.value, 40), " (",
                   setting.place, ")");
  }
  return {Ok("settings", text.empty() ? "defaults" : text)};
}

std::vector<Check> CheckSite() {
  const batch::SitePolicy site = batch::ReadSitePolicy(batch::ParseEnvironment(Environment()));
  std::string text;
  const auto add = [&text](std::string part) { text += StrCat(text.empty() ? "" : ", ", part); };
  if (site.local_limit > 0)
    add(StrCat("TMPDIRs and a flow's files hold at most ", FormatBytes(site.local_limit)));
  if (site.tasks_per_node > 0) add(StrCat("at most ", site.tasks_per_node, " slots a node"));
  if (site.port_first > 0) add(StrCat("servers listen on ports ", site.port_first, "-", site.port_last));
  if (site.local.empty()) return text.empty() ? std::vector<Check>() : std::vector<Check>{Ok("site", text)};
  add(StrCat("the job's directory is ", Printable(site.local)));
  struct statvfs disk {};
  if (access(site.local.c_str(), W_OK | X_OK) != 0 || statvfs(site.local.c_str(), &disk) != 0) {
    return {Warning("site", StrCat(text, ": ", Reason()),
                    "HARROW_LOCAL is of another job or node: tasks get their TMPDIR elsewhere")};
  }
  add(StrCat(FormatBytes(uint64_t{disk.f_bavail} * disk.f_frsize), " free"));
  return {Ok("site", text)};
}

namespace {

/// What a run has left on its storage: a few files a node, however many tasks.
Check CheckStorage(const std::string& run_dir) {
  uint64_t files = 0, bytes = 0;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator at(run_dir, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;
    if (!at->is_regular_file(gone)) continue;
    ++files;
    const uintmax_t size = at->file_size(gone);
    bytes += gone ? 0 : size;
  }
  if (error)
    return Warning("storage", StrCat("cannot look through the run directory: ", error.message()),
                   "see its permissions");
  return Ok("storage", StrCat(files, " files of the run, ", FormatBytes(bytes),
                              "; their number depends on nodes, not on tasks"));
}

}  // namespace

std::vector<Check> CheckRun(const std::string& run_dir) {
  if (!run_dir::IsRun(os::RealFileSystem(), run_dir)) return {};
  std::vector<Check> checks;
  const auto dir = run_dir::RunDir::Open(run_dir, run_dir::Purpose::kLook);
  const auto part = dir.ok() ? run_dir::LookAtPart(*dir) : dir.status();
  if (!part.ok()) {
    checks.push_back(Bad("run directory", part.status().message(), "see RUN DIRECTORIES in harrow-run(1)"));
    return checks;
  }
  auto history = journal::ReadSnapshot(part->dir);
  if (history.ok()) {
    checks.push_back(
        Ok("journal", StrCat("reads and verifies: ", report::SummaryLine(report::FiguresOf(*history)))));
  } else if (history.status().code() == Code::kNotFound) {
    checks.push_back(Warning("journal", "none yet", "the run has not begun; harrow run --resume begins it"));
  } else {
    checks.push_back(Bad("journal", history.status().message(),
                         "restore it from a copy; without it finished tasks would run again"));
  }
  checks.push_back(CheckStorage(run_dir));
  const auto rendezvous = run_dir::ReadRendezvous(*part->dir, part->dir->path());
  if (!rendezvous.ok() && rendezvous.status().code() != Code::kNotFound) {
    checks.push_back(Bad("server file", rendezvous.status().message(),
                         StrCat("chmod 600 ", ShellQuote(run_dir::ServerPath(part->dir->path())),
                                ", if nobody else has read it")));
  }
  return checks;
}

}  // namespace harrow::launcher
