#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "wire/harrow.pb.h"

namespace harrow::agent::pmix {

/// What the ranks of a team have published for the others to look up (MPI_Publish_name). Of one thread.
class Published {
 public:
  using Answered = std::function<void(pb::PmixAnswer)>;
  /// Publishes, looks up or takes back. Who wants to wait is answered when there is what he waits for, the
  /// others at once.
  void Take(const pb::PmixQuestion& question, Answered answered);

 private:
  struct Key {
    std::string value;
    uint32_t rank = 0;
    bool once = false;
  };
  using Waiting = std::pair<pb::PmixQuestion, Answered>;

  void Publish(const pb::PmixQuestion& question, pb::PmixAnswer* answer);
  bool LookUp(const pb::PmixQuestion& question, pb::PmixAnswer* answer);
  void Unpublish(const pb::PmixQuestion& question);

  std::map<std::string, Key> keys_;
  std::vector<Waiting> waiting_;
};

}  // namespace harrow::agent::pmix
