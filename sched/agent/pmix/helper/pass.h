#pragma once

namespace harrow::agent::pmix {

/// What a thread has read from one epoll_wait() to the next, so that a loss comes alone (why: losses.cc).
class Pass {
 public:
  /// The next one.
  void Begin() { *this = Pass(true, loss_owed_); }
  /// Else its thread never calls epoll_wait().
  bool loops() const { return loops_; }

  /// Whether what a socket has to tell may be told now. `gone`: that its other end is.
  bool HasItsTurn(bool gone) {
    if (!gone) {
      if (loss_ || losses_only_) return false;
      something_ = true;
      return true;
    }
    if (loss_ || something_) {
      loss_owed_ = true;
      return false;
    }
    loss_ = true;
    return true;
  }

  Pass() = default;

 private:
  Pass(bool loops, bool losses_only) : loops_(loops), losses_only_(losses_only) {}

  bool loops_ = false;
  bool something_ = false, loss_ = false;  // has come
  bool loss_owed_ = false;                 // for the next
  bool losses_only_ = false;
};

}  // namespace harrow::agent::pmix
