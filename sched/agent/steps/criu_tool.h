#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "migrate/alike.h"

namespace harrow::agent {

/// CRIU on this node, and `harrow hold`, the process between it and a task. Of all slots.
class CriuTool {
 public:
  /// `criu`: the program. `place`: a directory of this node's disk; empty: /tmp.
  CriuTool(std::string harrow, std::string criu, std::string place)
      : harrow_(std::move(harrow)), criu_(std::move(criu)), place_(place.empty() ? "/tmp" : std::move(place)) {}

  /// Whether a process can be dumped and restored here. It is tried at the first call, which takes some tenths of a second; others wait.
  /// kUnavailable, with the reason. `*first`: nobody has been told yet.
  Status Works(bool* first);

  struct Paths {
    std::string images;   // a directory that an image is written to
    std::string trouble;  // a file: why there is none
    std::string restore;  // the image there is gone on from; empty: the command is started
  };
  struct Question {
    int signal = 0;
    int status = 0;  // of who has left an image
    Duration limit{0};
  };
  /// The words before those of the command.
  std::vector<std::string> Words(const Paths& paths, const Question& question) const;

  migrate::AlikeImages& images() { return images_; }

 private:
  Status Try() const;

  const std::string harrow_, criu_, place_;
  std::mutex mutex_;
  std::optional<Status> works_;
  migrate::AlikeImages images_;
};

}  // namespace harrow::agent
