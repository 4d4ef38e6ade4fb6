#pragma once

namespace harrow::plugin {

struct Errand {
  enum End { kDone, kLate, kFailed };
  End end;
  int value;  // kDone: what the work returned; kFailed: errno, or 0: the child ended without a word
};

/// Does `work(context)` in a child process and waits for it no longer than `seconds` and one more. The child
/// holds none of this process' descriptors, its log lines become this process', and it ends by itself when
/// the seconds are over, at the latest when the kernel lets go of it.
Errand RunErrand(unsigned seconds, int (*work)(void*), void* context);

/// What is told of an errand that was not done.
const char* WhyNot(const Errand& errand);

template <class Work>
Errand RunErrand(unsigned seconds, Work work) {
  return RunErrand(
      seconds, [](void* context) { return (*static_cast<Work*>(context))(); }, &work);
}

}  // namespace harrow::plugin
