#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "run/best.h"

namespace harrow::server {

/// The best value of a run as one of its servers knows it: what clients offer counts when it is on disk, what other servers
/// tell counts at once, as it is on their disks. Has no file, clock or connection of its own.
class Best {
 public:
  struct Hooks {
    /// Writes it; `done` is called in a later turn. It lives until then.
    std::function<void(const run::BestValue& best, std::function<void(Status)> done)> write;
    /// It is better than what was known. `ours`: other servers have not been told.
    std::function<void(const run::BestValue& best, bool ours)> learned;
  };
  /// Whether it was better than all that is known.
  using Told = std::function<void(const Result<bool>& better)>;

  explicit Best(Hooks hooks) : hooks_(std::move(hooks)) {}

  /// From an earlier server, before anything else.
  void Restore(run::BestValue best) { known_ = std::move(best); }
  void Offer(run::BestValue best, Told told);
  void Learn(run::BestValue best);
  const std::optional<run::BestValue>& known() const { return known_; }
  /// Nothing is being written, or waits for that.
  bool idle() const { return !writing_ && offers_.empty(); }

 private:
  struct Offered {
    run::BestValue best;
    Told told;
  };
  void GoOn();
  void Written(const Status& status);

  const Hooks hooks_;
  std::optional<run::BestValue> known_;
  std::deque<Offered> offers_;  // while one is written: that first, the best of them
  bool writing_ = false;
  bool unsaved_ = false;  // what another server told
  std::optional<run::BestValue> saving_;
};

}  // namespace harrow::server
