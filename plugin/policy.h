#pragma once

#include <stdint.h>
#include <string_view>

namespace harrow::plugin {

/// What the site says in plugstack.conf, as key=value arguments of the plugin.
struct Policy {
  char local[512] = "/tmp";  // local=DIR: job directories lie in DIR/harrow
  // state=DIR: the notes of jobs (note.h), on a file system in memory
  char state[512] = "/run/harrow";
  uint64_t local_limit = 0;  // local_limit=SIZE, bytes a job and node; 0: none
  uint32_t port_first = 0;   // ports=FIRST-LAST; 0: any
  uint32_t port_last = 0;
  uint32_t tasks_per_node = 0;     // tasks_per_node=N at once; 0: no limit
  char move_partitions[512] = "";  // move_partitions=A,B,...: runs may spread over them; empty: any
  char order[16] = "";             // order=POLICY: default of runs; empty: Harrow's
  char files[16] = "";             // files=shared|local: default of runs; empty: Harrow's
  uint32_t epilog_time = 300;      // epilog_time=SECONDS that removing a job's directory may take
};

constexpr std::string_view kOrders[] = {"auto", "fifo", "lifo", "hrf", "lifo+hrf", "rank+hrf", "cost"};
constexpr std::string_view kFiles[] = {"shared", "local"};
bool IsOrder(std::string_view text);
bool IsFiles(std::string_view text);

/// Called with an argument that is not as it should be, and what would be right. The argument has no effect.
using Complain = void (*)(const char* argument, const char* expected);

/// Never fails: what is broken is told to `complain` (may be null) and left out.
Policy ParsePolicy(int argc, char** argv, Complain complain);

}  // namespace harrow::plugin
