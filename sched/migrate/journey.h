#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace harrow::migrate {

/// How images of a job go from one site to another.
enum class Method : uint8_t {
  kNaive,       // each as it is
  kNaiveZstd,   // each compressed
  kPaper,       // one base, spread by rings at both sites; of the others what they differ from it
  kPages,       // pages by their contents (pages.h), or plain where these are hardly alike
};

/// What a journey took. Times of what nodes do at once are those of the slowest; bytes over the link between the sites, and over the
/// rings within them, are counted apart.
struct Phases {
  struct Phase {
    std::string name{};
    Duration busy{0};     // of processors
    uint64_t link = 0;    // bytes
    uint64_t ring = 0;    // bytes past each node
  };
  std::vector<Phase> phases{};
  Duration processors{0};  // of all nodes together

  uint64_t link() const;
  /// With links of so many bytes a second: the base is sent alone, and all that nodes send to their peers shares the link.
  double Seconds(double link_rate, double ring_rate) const;
};

/// Carries images over in memory, with the code that nodes run, and compares each with what was sent. `clock`: the time that a processor has
/// been used. kDamaged: one differs.
Result<Phases> CarryOver(Method method, const std::vector<std::string_view>& images, const std::function<Duration()>& clock);

}  // namespace harrow::migrate
