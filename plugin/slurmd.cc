#include <unistd.h>

#include "contexts.h"
#include "errand.h"
#include "job_directory.h"
#include "log.h"
#include "policy.h"

namespace harrow::plugin {
namespace {

constexpr unsigned kSecondsOfSlurmd = 10;  // until then slurmd does not register

}  // namespace

// slurmd starts: the one moment at which an admin looks at its log.
void SlurmdInit(int argc, char** argv) {
  const Policy policy = ParsePolicy(argc, argv, [](const char* argument, const char* expected) {
    LogError("plugstack argument '%.100s' has no effect; it should be %s", argument, expected);
  });
  if (geteuid() != 0) {
    LogNotice(
        "slurmd runs as an ordinary user (uid %u): all jobs are of that user, whom job directories and their "
        "markers are not safe from",
        geteuid());
  }
  const Errand errand = RunErrand(kSecondsOfSlurmd, [&] {
    PrepareNode(PlacesOf(policy), kSecondsOfSlurmd - 2);
    return 0;
  });
  if (errand.end != Errand::kDone) {
    LogError("%s/harrow is not prepared, %u s at most: %s", policy.local, kSecondsOfSlurmd, WhyNot(errand));
  }
}

}  // namespace harrow::plugin
