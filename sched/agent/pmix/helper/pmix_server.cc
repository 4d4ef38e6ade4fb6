// What libpmix asks of its host ("upcalls") comes on a thread of its own, which may not wait for anything: an
// upcall writes what it was told into the log and returns. Of client_finalized it is to return
// PMIX_OPERATION_SUCCEEDED at once; with a later answer libpmix takes the client's hanging up for a loss.
//
// What ranks want of other nodes is copied, with the call that libpmix wants for it, into the requests, which
// the main thread sends to the agent. Its answers are given on the main thread, where libpmix takes them up
// by its own; but not those to a lookup, which would change what its thread is at: these are given there.
// Before a name space is deregistered all that its ranks wait for has been answered, for libpmix would keep
// it, or be told of what it has forgotten.
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

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <pmix.h>
#include <pmix_server.h>
#include <set>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/pmix/helper/door.h"
#include "agent/pmix/rank_log.h"
#include "agent/pmix/team_requests.h"
#include "base/text.h"

extern char** environ;

namespace harrow::agent::pmix {
namespace {

RankLog* the_log = nullptr;
TeamRequests* the_requests = nullptr;
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

/// With a copy of the data, which libpmix gives back when it has no use for it any more.
void Give(pmix_modex_cbfunc_t done, void* data, pmix_status_t status, const std::string& bytes) {
  char* const copy = bytes.empty() ? nullptr : static_cast<char*>(malloc(bytes.size()));
  if (copy != nullptr) std::memcpy(copy, bytes.data(), bytes.size());
  if (!bytes.empty() && copy == nullptr) status = PMIX_ERR_NOMEM;
  done(
      status, copy, copy == nullptr ? 0 : bytes.size(), data, [](void* held) { free(held); }, copy);
}

/// Of ranks on this node alone libpmix gathers itself what they say: nothing comes from elsewhere.
pmix_status_t OnFence(const pmix_proc_t* procs, size_t count, const pmix_info_t*, size_t, char* bytes,
                      size_t size, pmix_modex_cbfunc_t done, void* data) {
  const auto team = count > 0 ? the_requests->Find(procs[0].nspace) : std::nullopt;
  if (!team || !team->several_nodes()) {
    if (done != nullptr)
      done(
          PMIX_SUCCESS, bytes, size, data, [](void* held) { free(held); }, bytes);
    return PMIX_SUCCESS;
  }
  const std::string brought(bytes != nullptr ? std::string_view(bytes, size) : std::string_view());
  free(bytes);
  std::set<uint32_t> ranks;
  for (size_t i = 0; i < count; ++i) {
    if (team->space != procs[i].nspace) return PMIX_ERR_NOT_SUPPORTED;
    if (procs[i].rank != PMIX_RANK_WILDCARD) ranks.insert(procs[i].rank);
  }
  const bool all = std::any_of(procs, procs + count,
                               [](const pmix_proc_t& proc) { return proc.rank == PMIX_RANK_WILDCARD; });
  if (all) ranks.clear();
  the_requests->Meet(team->space, {ranks.begin(), ranks.end()}, brought,
                     [done, data](bool ok, const std::string& all_brought) {
                       if (done != nullptr) Give(done, data, ok ? PMIX_SUCCESS : PMIX_ERROR, all_brought);
                     });
  return PMIX_SUCCESS;
}

pmix_status_t OnModex(const pmix_proc_t* proc, const pmix_info_t*, size_t, pmix_modex_cbfunc_t done,
                      void* data) {
  const auto team = the_requests->Find(proc->nspace);
  const uint32_t node = team ? team->NodeOf(proc->rank) : 0;
  if (!team || done == nullptr || node >= team->ranks.size() || node == team->here) return PMIX_ERR_NOT_FOUND;
  pb::PmixQuestion question;
  question.set_what(pb::PmixQuestion::DATA);
  question.set_rank(proc->rank);
  the_requests->Ask(team->space, node, question, [done, data](bool ok, const std::string& text) {
    pb::PmixAnswer answer;
    if (!ok || !answer.ParseFromString(text) || text.empty()) return Give(done, data, PMIX_ERR_NOT_FOUND, {});
    Give(done, data, answer.status(), answer.data());
  });
  return PMIX_SUCCESS;
}

// --- what ranks publish for each other: the lead node's helper keeps it

/// libpmix's form of a value, as bytes. Empty: it has none.
std::string Packed(const pmix_value_t& value) {
  pmix_data_buffer_t buffer;
  PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
  std::string bytes;
  if (PMIx_Data_pack(nullptr, &buffer, const_cast<pmix_value_t*>(&value), 1, PMIX_VALUE) == PMIX_SUCCESS)
    bytes.assign(buffer.base_ptr, buffer.bytes_used);
  PMIX_DATA_BUFFER_DESTRUCT(&buffer);
  return bytes;
}

bool Unpack(std::string bytes, pmix_value_t* value) {
  pmix_data_buffer_t buffer;
  PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
  buffer.base_ptr = buffer.unpack_ptr = bytes.data();
  buffer.pack_ptr = bytes.data() + bytes.size();
  buffer.bytes_allocated = buffer.bytes_used = bytes.size();
  int32_t count = 1;
  return PMIx_Data_unpack(nullptr, &buffer, value, &count, PMIX_VALUE) == PMIX_SUCCESS;
}

bool Is(const pmix_info_t& info, const char* key) {
  return std::strncmp(info.key, key, PMIX_MAX_KEYLEN) == 0;
}

/// The question is the lead node's to answer.
pmix_status_t AskLead(const pmix_proc_t* proc, pb::PmixQuestion question,
                      std::function<void(bool ok, const pb::PmixAnswer&)> answered) {
  question.set_rank(proc->rank);
  const bool known = the_requests->Ask(proc->nspace, 0, question,
                                       [answered = std::move(answered)](bool ok, const std::string& text) {
                                         pb::PmixAnswer answer;
                                         answered(ok && answer.ParseFromString(text), answer);
                                       });
  return known ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND;
}

pmix_status_t OnPublish(const pmix_proc_t* proc, const pmix_info_t* infos, size_t count,
                        pmix_op_cbfunc_t done, void* data) {
  pb::PmixQuestion question;
  question.set_what(pb::PmixQuestion::PUBLISH);
  for (size_t i = 0; i < count; ++i) {
    if (Is(infos[i], PMIX_RANGE) || Is(infos[i], PMIX_USERID) || Is(infos[i], PMIX_GRPID)) continue;
    if (Is(infos[i], PMIX_PERSISTENCE)) {
      question.set_once(infos[i].value.data.persist == PMIX_PERSIST_FIRST_READ);
    } else {
      question.add_key(infos[i].key);
      question.add_value(Packed(infos[i].value));
    }
  }
  return AskLead(proc, std::move(question), [done, data](bool ok, const pb::PmixAnswer& answer) {
    done(!ok ? PMIX_ERROR : answer.refused() ? PMIX_ERR_DUPLICATE_KEY : PMIX_SUCCESS, data);
  });
}

pmix_status_t OnUnpublish(const pmix_proc_t* proc, char** keys, const pmix_info_t*, size_t,
                          pmix_op_cbfunc_t done, void* data) {
  pb::PmixQuestion question;
  question.set_what(pb::PmixQuestion::UNPUBLISH);
  for (char** key = keys; key != nullptr && *key != nullptr; ++key) question.add_key(*key);
  return AskLead(proc, std::move(question), [done, data](bool ok, const pb::PmixAnswer&) {
    done(ok ? PMIX_SUCCESS : PMIX_ERROR, data);
  });
}

/// Calls it on libpmix's thread.
void OnItsThread(std::function<void()> work) {
  auto* const held = new std::function<void()>(std::move(work));
  const auto call = [](pmix_status_t, void* kept) {
    auto* const mine = static_cast<std::function<void()>*>(kept);
    (*mine)();
    delete mine;
  };
  if (PMIx_server_deregister_resources(nullptr, 0, call, held) != PMIX_SUCCESS) delete held;
}

void TellFound(const std::string& space, const pb::PmixAnswer& answer, pmix_lookup_cbfunc_t done,
               void* data) {
  std::vector<pmix_pdata_t> found(static_cast<size_t>(answer.found_size()));
  for (size_t i = 0; i < found.size(); ++i) {
    const pb::PublishedKey& key = answer.found(static_cast<int>(i));
    PMIX_PDATA_CONSTRUCT(&found[i]);
    PMIX_LOAD_PROCID(&found[i].proc, space.c_str(), key.rank());
    PMIX_LOAD_KEY(found[i].key, key.key().c_str());
    (void)Unpack(key.value(), &found[i].value);
  }
  done(found.empty() ? PMIX_ERR_NOT_FOUND : PMIX_SUCCESS, found.data(), found.size(), data);
  for (pmix_pdata_t& one : found) PMIX_PDATA_DESTRUCT(&one);
}

pmix_status_t OnLookup(const pmix_proc_t* proc, char** keys, const pmix_info_t* infos, size_t count,
                       pmix_lookup_cbfunc_t done, void* data) {
  pb::PmixQuestion question;
  question.set_what(pb::PmixQuestion::LOOK_UP);
  for (char** key = keys; key != nullptr && *key != nullptr; ++key) question.add_key(*key);
  for (size_t i = 0; i < count; ++i) {
    if (!Is(infos[i], PMIX_WAIT)) continue;
    const int wanted = infos[i].value.type == PMIX_INT ? infos[i].value.data.integer : 0;  // 0: all
    const int all = question.key_size();
    question.set_wait(static_cast<uint32_t>(wanted > 0 && wanted < all ? wanted : all));
  }
  return AskLead(proc, std::move(question),
                 [space = std::string(proc->nspace), done, data](bool, const pb::PmixAnswer& answer) {
                   OnItsThread([space, answer, done, data] { TellFound(space, answer, done, data); });
                 });
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
  module.publish = OnPublish;
  module.lookup = OnLookup;
  module.unpublish = OnUnpublish;
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

Status PmixServer::Start(const std::string& directory, const std::string& node, RankLog* log,
                         TeamRequests* requests) {
  the_log = log;
  the_requests = requests;
  LeaveDisplaysAlone();
  static pmix_server_module_t module = Module();
  // Shared memory for a few hundred bytes a rank costs more than it saves.
  setenv("PMIX_MCA_gds", "hash", 1);
  setenv("PMIX_MCA_pmix_event_caching_window", "0", 1);
  const std::string space = StrCat("harrow-pmix-", getpid());
  std::strncpy(self.nspace, space.c_str(), sizeof self.nspace - 1);
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

void PmixServer::DataOf(const std::string& space, uint32_t rank,
                        std::function<void(int status, std::string data)> told) {
  using Told = std::function<void(int, std::string)>;
  auto* const held = new Told(std::move(told));
  const auto tell = [](pmix_status_t status, char* data, size_t size, void* kept) {
    auto* const mine = static_cast<Told*>(kept);
    (*mine)(status, data != nullptr ? std::string(data, size) : std::string());
    delete mine;
  };
  pmix_proc_t proc{};
  std::strncpy(proc.nspace, space.c_str(), sizeof proc.nspace - 1);
  proc.rank = rank;
  const pmix_status_t asked = PMIx_server_dmodex_request(&proc, tell, held);
  if (asked != PMIX_SUCCESS) tell(asked, nullptr, 0, held);
}

void PmixServer::AskThread() {
  pmix_value_t value{};
  value.type = PMIX_BOOL;
  (void)PMIx_Store_internal(&self, "harrow.asked", &value);
}

}  // namespace harrow::agent::pmix
