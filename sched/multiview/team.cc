// Agreement. Every collective call ends with one: in a node, processes add to a cell of shared words, the last one to arrive
// publishes the result; between nodes the first process of each reduces over MPI. Cells are used in turn: when one result is
// published, everyone has long left the agreement before the last, so its cell is cleared for the next.
#include "multiview/team.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <random>

#include "multiview/guard.h"

namespace harrow::multiview::internal {
namespace {

constexpr std::size_t kCachedPlans = 32;
constexpr std::size_t kCachedOwners = 32;
constexpr int kGroupTag = 0x4d56;
constexpr int kMostRounds = 4096;

Status MpiError(const char* call, int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length;
  MPI_Error_string(code, text, &length);
  return Status(Code::kInternal, std::string(call) + ": " + text);
}

bool Disabled(const char* name) {
  const char* value = std::getenv(name);
  return value && std::strcmp(value, "0") == 0;
}

// Why processes cannot read each other's memory, the more fundamental the higher; kRefused with an error number.
enum Obstacle { kRefused = 1, kNoFiles = 10000, kOtherProcess, kOtherSpace, kSwitchedOff };

std::string Explain(int obstacle) {
  switch (obstacle) {
    case kNoFiles: return "files of other processes cannot be opened below /proc";
    case kOtherProcess: return "the number of a process of this node means another process here";
    case kOtherSpace: return "the processes of this node are in PID namespaces (containers) of their own";
    case kSwitchedOff: return "switched off, by the options or by HARROW_MULTIVIEW_DIRECT_READS=0";
    default:
      return std::string("process_vm_readv: ") + std::strerror(obstacle - kRefused) +
             (obstacle == kRefused + EPERM ? " (a container without CAP_SYS_PTRACE, or kernel.yama.ptrace_scope above 1)" : "");
  }
}

// Worlds that have let other processes read this one; what they asked for ends with the last.
int g_opened = 0;

// A descriptor, or -1 with errno. Nothing is opened but the very file: behind the number of another process there could be a
// pipe or a device.
int OpenShared(pid_t pid, const Control::SharedFile& file) {
  const auto path = [](const std::string& process, int descriptor) {
    return "/proc/" + process + "/fd/" + std::to_string(descriptor);
  };
  const int place = open(path(std::to_string(pid), file.descriptor).c_str(), O_PATH | O_CLOEXEC);
  if (place < 0) return -1;
  struct stat found;
  int opened = -1;
  if (fstat(place, &found) == 0) {
    if (S_ISREG(found.st_mode) && found.st_dev == file.device && found.st_ino == file.inode) {
      opened = open(path("self", place).c_str(), O_RDONLY | O_CLOEXEC);
    } else {
      errno = ESTALE;
    }
  }
  const int e = errno;
  close(place);
  errno = e;
  return opened;
}

}  // namespace

Result<std::shared_ptr<Team>> Team::Create(MPI_Comm comm, const WorldOptions& options) {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (!initialized || finalized) return Status(Code::kInvalid, "world: MPI is not initialized");
  if (comm == MPI_COMM_NULL) return Status(Code::kInvalid, "world: the communicator is MPI_COMM_NULL");
  std::shared_ptr<Team> team(new Team);
  team->options_ = options;
  if (options.rounds < 1 || options.rounds > kMostRounds) {
    return Status(Code::kInvalid, "world: " + std::to_string(options.rounds) + " rounds; from 1 to " +
                                      std::to_string(kMostRounds) + " are possible");
  }
  team->memory_ = std::make_shared<MemoryPool>(options);
  if (Status s = team->SetUp(comm); !s.ok()) return s;
  return team;
}

Status Team::SetUp(MPI_Comm comm) {
  MPI_Comm_get_errhandler(comm, &user_errors_);
  if (int e = MPI_Comm_dup(comm, &comm_); e != MPI_SUCCESS) return MpiError("world", e);
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  return SetUpNode();
}

Status Team::SetUpNode() {
  if (const char* value = std::getenv("HARROW_MULTIVIEW_NODE_SIZE")) options_.node_size = std::atoi(value);
  if (int e = MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node_); e != MPI_SUCCESS) {
    return MpiError("world", e);
  }
  MPI_Comm_rank(node_, &node_rank_);
  if (options_.node_size > 0) {
    MPI_Comm part;
    MPI_Comm_split(node_, node_rank_ / options_.node_size, rank_, &part);
    MPI_Comm_free(&node_);
    node_ = part;
    MPI_Comm_rank(node_, &node_rank_);
  }
  MPI_Comm_size(node_, &node_size_);
  MPI_Comm_set_errhandler(node_, MPI_ERRORS_RETURN);

  MPI_Group all, here;
  MPI_Comm_group(comm_, &all);
  MPI_Comm_group(node_, &here);
  std::vector<int> mine(node_size_), ranks(node_size_);
  for (int r = 0; r < node_size_; ++r) mine[r] = r;
  MPI_Group_translate_ranks(here, node_size_, mine.data(), all, ranks.data());
  for (int r = 0; r < node_size_; ++r) node_ranks_[ranks[r]] = r;
  MPI_Group_free(&all);
  MPI_Group_free(&here);

  if (node_size_ > 1) control_ = std::make_unique<Control>(node_, comm_);
  // A node that cannot share is taken for as many nodes as it has processes; all of it must see that alike.
  int shares = !control_ || control_->ok() ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &shares, 1, MPI_INT, MPI_MIN, node_);
  if (!shares) {
    control_.reset();
    MPI_Comm_free(&node_);
    MPI_Comm_dup(MPI_COMM_SELF, &node_);
    node_ranks_ = {{rank_, 0}};
    node_rank_ = 0;
    node_size_ = 1;
    direct_reads_ = Status(Code::kNotFound, "direct_reads: MPI gives the processes of this node no memory to share");
  }
  MPI_Comm_split(comm_, node_rank_ == 0 ? 0 : MPI_UNDEFINED, rank_, &leaders_);
  if (control_) TryReading();
  return {};
}

// Whether the system lets processes of this node read each other's memory. Everyone tries with everyone, and looks for the secret
// that the other one has told it: with containers a process number may mean another process, or to some of them only.
void Team::TryReading() {
  Control::Identity& mine = control_->offer(node_rank_).identity;
  std::random_device device;
  for (std::uint64_t& word : secret_) word = std::uniform_int_distribution<std::uint64_t>()(device);
  struct stat space, test = {};
  mine.pid = getpid();
  mine.pid_space = stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
  mine.secret = secret_;
  mine.secret_at = reinterpret_cast<std::uint64_t>(&secret_);
  const int file = memfd_create("multiview-test", MFD_CLOEXEC);
  fstat(file, &test);  // without the file: nothing that anyone can find
  mine.test = {file, test.st_dev, test.st_ino};
  MPI_Barrier(node_);
  int obstacle = Probe();
  if (obstacle == kRefused + EPERM) {
    // Yama lets a process be read by its ancestors alone unless it names another one, whose descendants may read it, too: the
    // parent that all have, as launchers are, or else anyone of the same user.
    int parents[2] = {getppid(), -getppid()};
    MPI_Allreduce(MPI_IN_PLACE, parents, 2, MPI_INT, MPI_MAX, node_);
    const bool common = parents[0] == -parents[1] && parents[0] > 0;
    opened_ = prctl(PR_SET_PTRACER, common ? static_cast<unsigned long>(parents[0]) : PR_SET_PTRACER_ANY, 0, 0, 0) == 0;
    MPI_Barrier(node_);
    obstacle = Probe();
    if (opened_) {
      if (obstacle == 0) {
        ++g_opened;
      } else {
        prctl(PR_SET_PTRACER, 0, 0, 0, 0);
        opened_ = false;
      }
    }
  }
  if (file >= 0) close(file);
  readable_ = obstacle == 0;
  if (!readable_) direct_reads_ = Status(Code::kNotFound, "direct_reads: " + Explain(obstacle));
}

// The worst obstacle that any process of the node has met; 0: none.
int Team::Probe() {
  int obstacle = options_.direct_reads && !Disabled("HARROW_MULTIVIEW_DIRECT_READS") ? 0 : kSwitchedOff;
  const Control::Identity& mine = control_->offer(node_rank_).identity;
  for (int r = 0; r < node_size_ && obstacle == 0; ++r) {
    const Control::Identity& other = control_->offer(r).identity;
    if (r == node_rank_) continue;
    if (other.pid_space != mine.pid_space) {
      obstacle = kOtherSpace;
      break;
    }
    Control::Secret read = {};
    iovec local{&read, sizeof read}, remote{reinterpret_cast<void*>(other.secret_at), sizeof read};
    if (process_vm_readv(other.pid, &local, 1, &remote, 1, 0) != sizeof read) {
      obstacle = kRefused + errno;
    } else if (read != other.secret) {
      obstacle = kOtherProcess;
    } else if (r == (node_rank_ + 1) % node_size_) {
      const int file = OpenShared(other.pid, other.test);
      if (file < 0) obstacle = kNoFiles;
      else close(file);
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, &obstacle, 1, MPI_INT, MPI_MAX, node_);
  return obstacle;
}

Team::~Team() {
  if (opened_ && --g_opened == 0) prctl(PR_SET_PTRACER, 0, 0, 0, 0);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) return;
  while (!comms_.empty()) FreeComms(comms_.begin()->first);
  control_.reset();
  for (MPI_Comm* comm : {&leaders_, &node_, &comm_}) {
    if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
  }
  if (user_errors_ != MPI_ERRHANDLER_NULL) MPI_Errhandler_free(&user_errors_);
}

Vote Team::Agree(Vote mine) {
  const auto between_nodes = [this](Vote vote) {
    int nodes;
    MPI_Comm_size(leaders_, &nodes);
    if (nodes > 1) {
      MPI_Allreduce(MPI_IN_PLACE, &vote.flags, 1, MPI_UINT64_T, MPI_BOR, leaders_);
      MPI_Allreduce(MPI_IN_PLACE, &vote.sum, 1, MPI_INT64_T, MPI_SUM, leaders_);
    }
    return vote;
  };
  if (!control_) return between_nodes(mine);
  const std::uint32_t number = ++agreements_;
  Control::Head& head = control_->head();
  Control::Cell& cell = head.cell;
  if (mine.flags != 0) cell.flags.fetch_or(mine.flags);
  if (mine.sum != 0) cell.sum.fetch_add(mine.sum);
  const bool last = cell.arrived.fetch_add(1) + 1 == static_cast<std::uint32_t>(node_size_);
  const bool one_node = node_size_ == size_;
  if (!one_node && last) control_->Wake(cell.arrived, cell.sleepers);
  if (one_node ? last : node_rank_ == 0) {
    if (!one_node) control_->Await(cell.arrived, cell.sleepers, static_cast<std::uint32_t>(node_size_));
    Vote vote{cell.flags.load(), cell.sum.load()};
    if (!one_node) vote = between_nodes(vote);
    cell.arrived.store(0);
    cell.flags.store(0);
    cell.sum.store(0);
    head.flags = vote.flags;
    head.sum = vote.sum;
    head.generation.store(number);
    control_->Wake(head.generation, head.sleepers);
    return vote;
  }
  control_->Await(head.generation, head.sleepers, number);
  return {head.flags, head.sum};
}

Status Team::AgreeOn(const Status& mine) {
  return Agree({mine.ok() ? 0u : 1u, 0}).flags == 0 ? Status() : FirstError(mine);
}

Status Team::FirstError(const Status& mine) {
  int first = mine.ok() ? INT_MAX : rank_;
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, comm_);
  if (first == INT_MAX) return {};
  std::string message = mine.message().substr(0, kLongestMessage);
  int head[2] = {static_cast<int>(mine.code()), static_cast<int>(message.size())};
  MPI_Bcast(head, 2, MPI_INT, first, comm_);
  message.resize(static_cast<std::size_t>(head[1]));
  MPI_Bcast(message.data(), head[1], MPI_CHAR, first, comm_);
  return Status(static_cast<Code>(head[0]), message);
}

void Team::Offer(const Segment* array) {
  ++offers_;
  if (!control_) return;
  Control::Offer& mine = control_->offer(node_rank_);
  mine.file = {-1, 0, 0};
  mine.start = array ? reinterpret_cast<std::uint64_t>(array->data()) : 0;
  if (struct stat file; array && array->in_file() && fstat(array->file(), &file) == 0) {
    mine.file = {array->file(), file.st_dev, file.st_ino};
    mine.start = array->file_offset();
  }
  mine.number.store(offers_);
  control_->Wake(mine.number, mine.sleepers);
}

Status Team::Read(int process, std::vector<iovec>& remote, std::vector<iovec>& local) {
  const int node_rank = node_ranks_.at(process);
  Control::Offer& theirs = control_->offer(node_rank);
  control_->Await(theirs.number, theirs.sleepers, offers_);
  const auto failed = [&](int error) {
    return Status(Code::kInternal, "cannot read from process " + std::to_string(process) + ": " + std::strerror(error) +
                                       "; HARROW_MULTIVIEW_DIRECT_READS=0 sends messages instead");
  };
  for (iovec& v : remote) v.iov_base = reinterpret_cast<void*>(theirs.start + reinterpret_cast<std::uint64_t>(v.iov_base));
  if (theirs.file.descriptor >= 0) {
    const int file = OpenShared(theirs.identity.pid, theirs.file);
    if (file < 0) return failed(errno);
    std::size_t r = 0, used = 0;
    for (iovec& to : local) {
      for (std::size_t done = 0; done < to.iov_len;) {
        const std::size_t bytes = std::min(to.iov_len - done, remote[r].iov_len - used);
        const auto got = TEMP_FAILURE_RETRY(pread(file, static_cast<std::byte*>(to.iov_base) + done, bytes,
                                                  static_cast<off_t>(reinterpret_cast<std::size_t>(remote[r].iov_base) + used)));
        if (got <= 0) {
          const Status s = failed(got == 0 ? ENODATA : errno);
          close(file);
          return s;
        }
        done += static_cast<std::size_t>(got);
        used += static_cast<std::size_t>(got);
        if (used == remote[r].iov_len) {
          ++r;
          used = 0;
        }
      }
    }
    close(file);
    return {};
  }
  // Every call reads the other one's secret as well: its number may have become another process's meanwhile.
  const Control::Identity& identity = theirs.identity;
  Control::Secret secret;
  local.insert(local.begin(), iovec{});
  remote.insert(remote.begin(), iovec{});
  std::size_t l = 1, r = 1;
  const auto advance = [](std::vector<iovec>& v, std::size_t& i, std::size_t bytes) {
    while (i < v.size() && bytes >= v[i].iov_len) bytes -= v[i++].iov_len;
    if (bytes > 0) {
      v[i].iov_base = static_cast<std::byte*>(v[i].iov_base) + bytes;
      v[i].iov_len -= bytes;
    }
  };
  while (l < local.size()) {
    local[l - 1] = {&secret, sizeof secret};
    remote[r - 1] = {reinterpret_cast<void*>(identity.secret_at), sizeof secret};
    const auto got = process_vm_readv(identity.pid, &local[l - 1], std::min<std::size_t>(local.size() - l + 1, IOV_MAX),
                                      &remote[r - 1], std::min<std::size_t>(remote.size() - r + 1, IOV_MAX), 0);
    if (got < 0) return failed(errno);
    if (got <= static_cast<ssize_t>(sizeof secret)) return failed(EFAULT);
    if (secret != identity.secret) return failed(ESRCH);
    advance(local, l, static_cast<std::size_t>(got) - sizeof secret);
    advance(remote, r, static_cast<std::size_t>(got) - sizeof secret);
  }
  return {};
}

std::shared_ptr<const Plan> Team::PlanOf(const std::shared_ptr<const Layout>& from, const std::shared_ptr<const Layout>& to) {
  const auto same = [](const std::shared_ptr<const Layout>& a, const std::shared_ptr<const Layout>& b) {
    return a == b || *a == *b;
  };
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (same(it->from, from) && same(it->to, to)) {
      plans_.splice(plans_.begin(), plans_, it);
      return it->plan;
    }
  }
  const double begin = MPI_Wtime();
  auto plan = std::make_shared<const Plan>(*from, *to, rank_);
  statistics_.planning_seconds += MPI_Wtime() - begin;
  ++statistics_.plans_made;
  plans_.push_front({from, to, plan});
  if (plans_.size() > kCachedPlans) plans_.pop_back();
  return plan;
}

std::shared_ptr<const Layout> Team::LeastMoved(const std::shared_ptr<const Layout>& from, const Grid& to) {
  for (const CachedRoles& cached : roles_) {
    if (*cached.from == *from && cached.to->grid() == to) return cached.to;
  }
  auto layout = std::make_shared<const Layout>(to, size_, LeastMovedRoles(*from, to));
  roles_.push_front({from, layout});
  if (roles_.size() > kCachedPlans) roles_.pop_back();
  return layout;
}

Result<MPI_Comm> Team::CommOf(std::int64_t owner, const std::vector<int>& ranks) {
  if (ranks.size() == 1) owner = -1;
  MPI_Comm& comm = comms_[owner].try_emplace(ranks, MPI_COMM_NULL).first->second;
  if (comm != MPI_COMM_NULL) return comm;
  int e;
  if (ranks.size() == 1) {
    e = MPI_Comm_dup(MPI_COMM_SELF, &comm);
  } else {
    MPI_Group all, group;
    MPI_Comm_group(comm_, &all);
    MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &group);
    e = MPI_Comm_create_group(comm_, group, kGroupTag, &comm);
    MPI_Group_free(&group);
    MPI_Group_free(&all);
  }
  if (e != MPI_SUCCESS) return MpiError("map", e);
  MPI_Comm_set_errhandler(comm, user_errors_);
  return comm;
}

void Team::FreeComms(std::int64_t owner) {
  const auto found = comms_.find(owner);
  if (found == comms_.end()) return;
  for (auto& [ranks, comm] : found->second) {
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  }
  comms_.erase(found);
}

std::int64_t Team::CommOwner(const std::shared_ptr<const Layout>& layout, const Grid& view) {
  for (auto it = owners_.begin(); it != owners_.end(); ++it) {
    if ((it->layout == layout || *it->layout == *layout) && it->view == view) {
      owners_.splice(owners_.begin(), owners_, it);
      return owners_.front().owner;
    }
  }
  owners_.push_front({layout, view, next_owner_++});
  if (owners_.size() > kCachedOwners) {
    FreeComms(owners_.back().owner);
    owners_.pop_back();
  }
  return owners_.front().owner;
}

}  // namespace harrow::multiview::internal
