// harrow-slurm-query [--cpus] JOB...: what slurmctld granted to a job (several: the components of a
// heterogeneous one).
//
// A program of its own, not a library loaded into harrow: libslurm ends its process (fatal()) when slurm.conf
// cannot be read or a plugin of its own does not load, which must not end a run; it starts threads; and a
// machine without the libslurm.so that this was built against refuses to start it, which harrow takes as an
// answer. Prints, tab-separated:
//     job   ID  END(seconds since 1970; 0: no limit)  PARTITION  NAME        for each component, followed by
// its nodes
//     node  NAME  CPUS  MEMORY(bytes; 0: unknown)  GPUS
//     cpus  "0-1,3"  8      with --cpus, where a node was granted in part: which CPUs, of how many; after its
//     node
// and in the end
//     gone  ID              no such job, or it is over
//     end
// Exit status 1 and a line on standard error when slurmctld does not answer.
//
// Which CPUs is a question of its own: it takes the table of all nodes, for Slurm numbers a node's PUs in its
// own order, a core's next to each other, and only that table tells how many a core has. libslurm loads it
// itself when it is asked for the numbers, and crashes when that fails: so they are asked for once it has
// come.

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <string>
#include <string_view>

#include "os/standard_descriptors.h"

namespace {

// Sum of N over the "gpu:N" and "gpu:TYPE:N" of "gpu:tesla:2(IDX:0-1),nic:1".
uint64_t Gpus(std::string_view gres) {
  uint64_t sum = 0;
  while (!gres.empty()) {
    // A comma inside parentheses (IDX:0,2) separates nothing.
    size_t end = 0;
    for (int depth = 0; end < gres.size() && (depth > 0 || gres[end] != ','); ++end) {
      depth += gres[end] == '(' ? 1 : gres[end] == ')' ? -1 : 0;
    }
    std::string_view item = gres.substr(0, end);
    gres.remove_prefix(end < gres.size() ? end + 1 : end);
    item = item.substr(0, item.find('('));
    if (item != "gpu" && !item.starts_with("gpu:")) continue;
    size_t colon = item.rfind(':');
    sum += colon == std::string_view::npos
               ? 1
               : std::strtoull(std::string(item.substr(colon + 1)).c_str(), nullptr, 10);
  }
  return sum;
}

// N of "mem=N" with its unit in "cpu=4,mem=8000M,node=2", in bytes.
uint64_t TotalMemory(const char* tres) {
  const char* at = tres != nullptr ? std::strstr(tres, "mem=") : nullptr;
  if (at == nullptr) return 0;
  char* unit = nullptr;
  double n = std::strtod(at + 4, &unit);
  constexpr std::string_view kUnits = "KMGTP";
  size_t power = kUnits.find(*unit);
  for (size_t i = 0; power != std::string_view::npos && i <= power; ++i) n *= 1024;
  if (power == std::string_view::npos) n *= 1024.0 * 1024;  // Slurm's unit
  return static_cast<uint64_t>(n);
}

std::string OneLine(const char* text) {
  std::string out = text != nullptr ? text : "";
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return out;
}

const node_info_t* FindNode(const node_info_msg_t* nodes, const char* name) {
  for (uint32_t i = 0; nodes != nullptr && i < nodes->record_count; ++i) {
    const node_info_t& node = nodes->node_array[i];
    if (node.name != nullptr && std::strcmp(node.name, name) == 0) return &node;
  }
  return nullptr;
}

void PrintCpus(const job_info_t& job, int index, int cpus, const node_info_t* node) {
  if (node == nullptr || job.job_resrcs == nullptr || cpus <= 0 || cpus >= node->cpus) return;
  char list[4096] = {};
  if (slurm_job_cpus_allocated_str_on_node_id(list, sizeof list, job.job_resrcs, index) != 0) return;
  if (list[0] == '\0' || std::strlen(list) + 1 == sizeof list) return;
  std::printf("cpus\t%s\t%d\n", list, node->sockets * node->cores * node->threads);
}

void PrintJob(const job_info_t& job, const node_info_msg_t* all_nodes) {
  bool unlimited = job.time_limit == INFINITE || job.end_time <= 0;
  std::printf("job\t%" PRIu32 "\t%lld\t%s\t%s\n", job.job_id,
              unlimited ? 0LL : static_cast<long long>(job.end_time), OneLine(job.partition).c_str(),
              OneLine(job.name).c_str());
  hostlist_t nodes = slurm_hostlist_create(job.nodes);
  int count = slurm_hostlist_count(nodes);
  for (int i = 0; i < count; ++i) {
    char* name = slurm_hostlist_shift(nodes);
    if (name == nullptr) break;
    int cpus = job.job_resrcs != nullptr ? slurm_job_cpus_allocated_on_node_id(job.job_resrcs, i) : 0;
    if (cpus < 0) cpus = 0;
    uint64_t memory = (job.pn_min_memory & ~MEM_PER_CPU) << 20;
    if (job.pn_min_memory & MEM_PER_CPU) memory *= static_cast<uint64_t>(cpus);
    if (job.pn_min_memory == 0)
      memory = TotalMemory(job.tres_alloc_str) / static_cast<uint64_t>(count);  // --mem=0: the nodes'
    uint64_t gpus = static_cast<uint32_t>(i) < job.gres_detail_cnt && job.gres_detail_str[i] != nullptr
                        ? Gpus(job.gres_detail_str[i])
                        : 0;
    std::printf("node\t%s\t%d\t%" PRIu64 "\t%" PRIu64 "\n", OneLine(name).c_str(), cpus, memory, gpus);
    PrintCpus(job, i, cpus, FindNode(all_nodes, name));
    std::free(name);
  }
  slurm_hostlist_destroy(nodes);
}

}  // namespace

int main(int argc, char** argv) {
  harrow::os::OccupyStandardDescriptors();
  const bool with_cpus = argc > 1 && std::strcmp(argv[1], "--cpus") == 0;
  if (argc < (with_cpus ? 3 : 2)) {
    std::fprintf(stderr, "usage: harrow-slurm-query [--cpus] JOB...\n");
    return 2;
  }
  slurm_init(nullptr);
  node_info_msg_t* nodes = nullptr;
  for (int i = with_cpus ? 2 : 1; i < argc; ++i) {
    char* end = nullptr;
    unsigned long id = std::strtoul(argv[i], &end, 10);
    if (*end != '\0' || id == 0 || id >= MAX_JOB_ID) {
      std::fprintf(stderr, "harrow-slurm-query: %s is no job id\n", argv[i]);
      return 2;
    }
    job_info_msg_t* answer = nullptr;
    if (slurm_load_job(&answer, static_cast<uint32_t>(id), SHOW_DETAIL) != SLURM_SUCCESS) {
      if (slurm_get_errno() == ESLURM_INVALID_JOB_ID) {
        std::printf("gone\t%lu\n", id);
        continue;
      }
      std::fprintf(stderr, "harrow-slurm-query: %s\n", slurm_strerror(slurm_get_errno()));
      return 1;
    }
    bool found = false;
    for (uint32_t j = 0; j < answer->record_count; ++j) {
      const job_info_t& job = answer->job_array[j];
      uint32_t state = job.job_state & JOB_STATE_BASE;
      if (job.job_id != id || (state != JOB_RUNNING && state != JOB_SUSPENDED) || job.nodes == nullptr)
        continue;
      // A job that has its nodes for itself has all of them.
      if (with_cpus && job.shared != JOB_SHARED_NONE && nodes == nullptr &&
          slurm_load_node(0, &nodes, SHOW_ALL) != SLURM_SUCCESS) {
        nodes = nullptr;
      }
      PrintJob(job, nodes);
      found = true;
    }
    if (!found) std::printf("gone\t%lu\n", id);
    slurm_free_job_info_msg(answer);
  }
  std::printf("end\n");
  return 0;
}
