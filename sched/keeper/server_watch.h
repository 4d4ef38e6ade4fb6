#pragma once

namespace harrow::keeper {

/// Whether a server hangs: it tells its keeper of its progress five times a second, so silence means that it is stopped,
/// or waits for a disk that does not answer. Time is counted in the keeper's own ticks, of a second each: a keeper that
/// was suspended together with its server has had none.
class ServerWatch {
 public:
  static constexpr int kMostSilent = 60;       // ticks
  static constexpr int kMostSilentAtEnd = 4;   // once it was told to end

  /// A new server. To restore a run of many tasks takes it a while, and it says nothing: its silence counts from its
  /// first word.
  void Started() { *this = {}; }
  /// `complete`: it has only the journal to close, which may take longer than the end of an interrupted run allows.
  void Heard(bool complete) {
    heard_ = true;
    complete_ = complete;
    silent_ = 0;
  }
  void ToldToEnd() {
    to_end_ = true;
    silent_ = 0;
  }
  /// After each tick; true when the server is to be ended by force. Begins to count anew then.
  bool Tick() {
    if (!heard_) return false;
    const int most = to_end_ && !complete_ ? kMostSilentAtEnd : kMostSilent;
    if (++silent_ < most) return false;
    silent_ = 0;
    return true;
  }

 private:
  bool heard_ = false, complete_ = false, to_end_ = false;
  int silent_ = 0;
};

}  // namespace harrow::keeper
