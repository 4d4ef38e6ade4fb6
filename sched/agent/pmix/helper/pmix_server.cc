// What libpmix asks of its host ("upcalls") comes on a thread of its own, which may not wait for anything: an
// upcall writes what it was told into the log and returns. Of client_finalized it is to return
// PMIX_OPERATION_SUCCEEDED at once; with a later answer libpmix takes the client's hanging up for a loss.
//
// A client is never deregistered by itself: libpmix would close a descriptor whose number may have been given
// to another one by then. Deregistering the name space is enough.
//
// Clients connect by TCP on the loopback interface, where every user of the node may try: who is let in at
// all is for door.cc to say. Of them libpmix lets in who names a space and a rank that it knows, so a space
// has a name that nobody can guess and that only its ranks are told.
//
// Libpmix holds back what it tells of lost clients for event_caching_window seconds, and tells of all who
// were lost meanwhile at once, naming one as the source. Whose loss came first is what we want to know, and
// soon.
#include "agent/pmix/helper/pmix_server.h"

#include <cstdlib>
#include <cstring>
#include <pmix.h>
#include <pmix_server.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/pmix/helper/door.h"
#include "agent/pmix/rank_log.h"
#include "base/text.h"

extern char** environ;

namespace harrow::agent::pmix {
namespace {

RankLog* the_log = nullptr;
pmix_proc_t self{};

Status Failed(const char* what, pmix_status_t status) {
  return Status(Code::kUnavailable, StrCat(what, ": ", PMIx_Error_string(status)));
}

bool Ok(pmix_status_t status) {
  return status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED;
}

// --- upcalls

pmix_status_t OnConnected(const pmix_proc_t* proc, void*, pmix_info_t*, size_t, pmix_op_cbfunc_t, void*) {
  the_log->Connected(proc->nspace, proc->rank);
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t OnFinalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t, void*) {
  the_log->Finalized(proc->nspace, proc->rank);
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t OnAbort(const pmix_proc_t* proc, void*, int code, const char*, pmix_proc_t*, size_t,
                      pmix_op_cbfunc_t done, void* data) {
  the_log->Aborted(proc->nspace, proc->rank, code);
  if (done != nullptr) done(PMIX_SUCCESS, data);
  return PMIX_SUCCESS;
}

/// Of ranks on this node alone libpmix gathers itself what they say: nothing comes from elsewhere.
pmix_status_t OnFence(const pmix_proc_t*, size_t, const pmix_info_t*, size_t, char* bytes, size_t size,
                      pmix_modex_cbfunc_t done, void* data) {
  if (done != nullptr)
    done(
        PMIX_SUCCESS, bytes, size, data, [](void* held) { free(held); }, bytes);
  return PMIX_SUCCESS;
}

pmix_status_t OnModex(const pmix_proc_t*, const pmix_info_t*, size_t, pmix_modex_cbfunc_t, void*) {
  return PMIX_ERR_NOT_FOUND;
}

pmix_status_t OnSpawn(const pmix_proc_t*, const pmix_info_t*, size_t, const pmix_app_t*, size_t,
                      pmix_spawn_cbfunc_t, void*) {
  static constexpr char kWhy[] =
      "harrow: a task cannot start further ranks (MPI_Comm_spawn): write ranks = N with all it needs\n";
  [[maybe_unused]] const ssize_t said = write(STDERR_FILENO, kWhy, sizeof kWhy - 1);
  return PMIX_ERR_NOT_SUPPORTED;
}

void OnEvent(size_t, pmix_status_t status, const pmix_proc_t* source, pmix_info_t* infos, size_t count,
             pmix_info_t*, size_t, pmix_event_notification_cbfunc_fn_t done, void* data) {
  if (status == PMIX_ERR_LOST_CONNECTION && source != nullptr) {
    the_log->Lost(source->nspace, source->rank);
    while (count-- > 0) {  // those after it, the last one first
      const pmix_info_t& info = infos[count];
      if (std::strcmp(info.key, PMIX_PROCID) == 0 && info.value.type == PMIX_PROC)
        the_log->Lost(info.value.data.proc->nspace, info.value.data.proc->rank);
    }
  }
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, data);
}

pmix_server_module_t Module() {
  pmix_server_module_t module{};
  module.client_connected2 = OnConnected;
  module.client_finalized = OnFinalized;
  module.abort = OnAbort;
  module.fence_nb = OnFence;
  module.direct_modex = OnModex;
  module.spawn = OnSpawn;
  return module;
}

/// Attributes that are put together one after the other.
class Infos {
 public:
  Infos() = default;
  ~Infos() {
    for (pmix_info_t& info : all_) PMIX_INFO_DESTRUCT(&info);
  }
  Infos(const Infos&) = delete;
  Infos& operator=(const Infos&) = delete;

  void Add(const char* key, const void* value, pmix_data_type_t type) {
    PMIx_Info_load(&all_.emplace_back(), key, value, type);
  }
  void Add(const char* key, const std::string& value) { Add(key, value.c_str(), PMIX_STRING); }
  void Add(const char* key, uint32_t value) { Add(key, &value, PMIX_UINT32); }
  void Add(const char* key, uint16_t value) { Add(key, &value, PMIX_UINT16); }
  void AddRank(const char* key, uint32_t value) { Add(key, &value, PMIX_PROC_RANK); }
  void AddFlag(const char* key, bool value) { Add(key, &value, PMIX_BOOL); }
  /// All of `others`, as one.
  void AddArray(const char* key, Infos* others) {
    pmix_data_array_t array{};
    array.type = PMIX_INFO;
    array.size = others->all_.size();
    array.array = others->all_.data();
    Add(key, &array, PMIX_DATA_ARRAY);  // which copies
  }
  pmix_info_t* data() { return all_.data(); }
  size_t size() const { return all_.size(); }

 private:
  std::vector<pmix_info_t> all_;
};

template <class F>
std::string Join(size_t count, const char* between, F text) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += StrCat(i > 0 ? between : "", text(i));
  return all;
}

/// In the form that libpmix likes; what it makes is text, or not (a compressed one).
Status AddMap(Infos* infos, const char* key, const std::string& list,
              pmix_status_t (*make)(const char*, char**)) {
  char* map = nullptr;
  if (const pmix_status_t made = make(list.c_str(), &map); made != PMIX_SUCCESS)
    return Failed("a map of nodes", made);
  infos->Add(key, map, PMIX_REGEX);
  free(map);
  return {};
}

/// Of libpmix's hwloc here, and not of the ranks': one plugin of hwloc's looks for GPUs by asking whoever
/// listens on this machine as an X server, and waits for the answer; another makes OpenCL's contexts on them.
/// Libpmix wants to know of neither. What the user says of other plugins holds.
void LeaveDisplaysAlone() {
  const char* const own = getenv("HWLOC_COMPONENTS");
  const bool any = own != nullptr && *own != '\0';
  setenv("HWLOC_COMPONENTS", StrCat("-gl,-opencl", any ? "," : "", any ? own : "").c_str(), 1);
}

}  // namespace

Status PmixServer::Start(const std::string& directory, const std::string& node, RankLog* log) {
  the_log = log;
  LeaveDisplaysAlone();
  static pmix_server_module_t module = Module();
  // Shared memory for a few hundred bytes a rank costs more than it saves.
  setenv("PMIX_MCA_gds", "hash", 1);
  setenv("PMIX_MCA_pmix_event_caching_window", "0", 1);
  const std::string space = StrCat("harrow-pmix-", getpid());
  std::strncpy(self.nspace, space.c_str(), sizeof self.nspace - 1);
  self.rank = 0;
  Infos infos;
  infos.Add(PMIX_SERVER_TMPDIR, directory);
  infos.Add(PMIX_SYSTEM_TMPDIR, directory);
  infos.Add(PMIX_HOSTNAME, node);
  infos.Add(PMIX_SERVER_NSPACE, space);
  infos.AddRank(PMIX_SERVER_RANK, 0);
  infos.AddFlag(PMIX_SERVER_SHARE_TOPOLOGY, true);
  if (const pmix_status_t started = PMIx_server_init(&module, infos.data(), infos.size());
      started != PMIX_SUCCESS)
    return Failed("PMIx_server_init", started);
  pmix_status_t lost = PMIX_ERR_LOST_CONNECTION;
  const pmix_status_t registered =
      PMIx_Register_event_handler(&lost, 1, nullptr, 0, OnEvent, nullptr, nullptr);
  // With no call to make when it is done, it returns the handler's number.
  return registered >= 0 ? Door::Open() : Failed("PMIx_Register_event_handler", registered);
}

Result<std::vector<PmixServer::Variables>> PmixServer::Add(const Team& team) {
  uint32_t size = 0, first = 0;
  std::vector<uint32_t> first_of;
  for (const Node& node : team.nodes) {
    first_of.push_back(size);
    size += node.ranks;
  }
  first = first_of[team.here];
  const uint32_t local = team.nodes[team.here].ranks;
  const auto ranks_of = [&](size_t node) {
    return Join(team.nodes[node].ranks, ",", [&](size_t i) { return first_of[node] + i; });
  };

  Infos infos;
  const std::string names = Join(team.nodes.size(), ",", [&](size_t i) { return team.nodes[i].name; });
  HARROW_RETURN_IF_ERROR(AddMap(&infos, PMIX_NODE_MAP, names, PMIx_generate_regex));
  HARROW_RETURN_IF_ERROR(
      AddMap(&infos, PMIX_PROC_MAP, Join(team.nodes.size(), ";", ranks_of), PMIx_generate_ppn));
  infos.Add(PMIX_JOBID, team.space);
  for (const char* key : {PMIX_UNIV_SIZE, PMIX_JOB_SIZE, PMIX_MAX_PROCS, PMIX_APP_SIZE}) infos.Add(key, size);
  infos.Add(PMIX_LOCAL_SIZE, local);
  infos.Add(PMIX_NODE_SIZE, local);
  infos.Add(PMIX_NUM_NODES, static_cast<uint32_t>(team.nodes.size()));
  infos.Add(PMIX_JOB_NUM_APPS, uint32_t{1});
  infos.Add(PMIX_NODEID, team.here);
  infos.Add(PMIX_LOCAL_PEERS, ranks_of(team.here));
  infos.AddRank(PMIX_LOCALLDR, first);
  infos.Add(PMIX_TMPDIR, team.directory);
  infos.Add(PMIX_NSDIR, team.directory);
  infos.AddFlag(PMIX_TDIR_RMCLEAN, true);
  for (size_t node = 0; node < team.nodes.size(); ++node) {
    for (uint32_t i = 0; i < team.nodes[node].ranks; ++i) {
      const uint32_t rank = first_of[node] + i;
      Infos of_rank;
      of_rank.AddRank(PMIX_RANK, rank);
      of_rank.Add(PMIX_APPNUM, uint32_t{0});
      of_rank.AddRank(PMIX_APP_RANK, rank);
      of_rank.AddRank(PMIX_GLOBAL_RANK, rank);
      of_rank.Add(PMIX_LOCAL_RANK, static_cast<uint16_t>(i));
      of_rank.Add(PMIX_NODE_RANK, static_cast<uint16_t>(i));
      of_rank.Add(PMIX_NODEID, static_cast<uint32_t>(node));
      of_rank.Add(PMIX_HOSTNAME, team.nodes[node].name);
      if (node == team.here) of_rank.Add(PMIX_PROCDIR, StrCat(team.directory, "/", rank));
      infos.AddArray(PMIX_PROC_DATA, &of_rank);
    }
  }
  pmix_status_t status = PMIx_server_register_nspace(team.space.c_str(), static_cast<int>(local),
                                                     infos.data(), infos.size(), nullptr, nullptr);
  if (!Ok(status)) return Failed("PMIx_server_register_nspace", status);

  std::vector<Variables> all;
  pmix_proc_t proc{};
  std::strncpy(proc.nspace, team.space.c_str(), sizeof proc.nspace - 1);
  for (proc.rank = first; proc.rank < first + local; ++proc.rank) {
    status = PMIx_server_register_client(&proc, getuid(), getgid(), nullptr, nullptr, nullptr);
    if (!Ok(status)) return Failed("PMIx_server_register_client", status);
    char** entries = nullptr;
    status = PMIx_server_setup_fork(&proc, &entries);
    if (status != PMIX_SUCCESS) return Failed("PMIx_server_setup_fork", status);
    Variables& variables = all.emplace_back();
    for (char** entry = entries; entry != nullptr && *entry != nullptr; ++entry) {
      const char* const equals = std::strchr(*entry, '=');
      if (equals != nullptr)
        variables.emplace_back(std::string(static_cast<const char*>(*entry), equals), equals + 1);
      free(*entry);
    }
    free(entries);
  }
  return all;
}

void PmixServer::Drop(const std::string& space) {
  PMIx_server_deregister_nspace(space.c_str(), nullptr, nullptr);
}

void PmixServer::AskThread() {
  pmix_value_t value{};
  value.type = PMIX_BOOL;
  (void)PMIx_Store_internal(&self, "harrow.asked", &value);
}

}  // namespace harrow::agent::pmix
