#include "journal/sessions.h"

#include <algorithm>
#include <limits>

namespace harrow::journal {
namespace {

constexpr int64_t kForEver = std::numeric_limits<int64_t>::max();

/// The session in which `ns` lies: the last that had begun by then.
size_t SessionAt(const std::vector<Session>& sessions, int64_t ns) {
  const auto after =
      std::upper_bound(sessions.begin(), sessions.end(), ns,
                       [](int64_t time, const Session& session) { return time < session.start_ns; });
  return after == sessions.begin() ? 0 : static_cast<size_t>(after - sessions.begin()) - 1;
}

}  // namespace

std::vector<Session> SessionsOf(const History& history) {
  std::vector<Session> sessions;
  for (const SessionRecord& record : history.sessions) {
    // A clock that was set back must not turn their order round.
    if (!sessions.empty() && record.started_ns <= sessions.back().start_ns) continue;
    sessions.push_back({.start_ns = record.started_ns, .end_ns = record.ended_ns, .slots_of = {}});
  }
  if (sessions.empty()) {
    int64_t first = kForEver;
    for (const AttemptRecord& attempt : history.attempts) {
      if (attempt.start_ns > 0) first = std::min(first, attempt.start_ns);
    }
    if (first == kForEver) return {};
    sessions.push_back({.start_ns = first, .slots_of = {}});
  }

  std::vector<int64_t> last;  // a session's last record
  for (const Session& session : sessions) last.push_back(session.start_ns);
  const auto see = [&](size_t session, int64_t ns) {
    // What a later session found out about this one bears that one's time.
    const int64_t next = session + 1 < sessions.size() ? sessions[session + 1].start_ns : kForEver;
    if (ns < next) last[session] = std::max(last[session], ns);
  };
  std::vector<bool> worked(sessions.size(), false);
  for (const AttemptRecord& attempt : history.attempts) {
    if (attempt.start_ns <= 0) continue;
    const size_t session = SessionAt(sessions, attempt.start_ns);
    worked[session] = true;
    see(session, attempt.start_ns);
    see(session, attempt.end_ns);
  }
  for (const NodeRecord& node : history.nodes) {
    const size_t session = SessionAt(sessions, node.joined_ns);
    see(session, node.joined_ns);
    see(session, node.left_ns);
    sessions[session].slots_of[node.node.value] = node.slots;
  }
  for (size_t i = 0; i < sessions.size(); ++i) {
    Session& session = sessions[i];
    if (session.end_ns == 0) session.end_ns = last[i];
    session.end_ns = std::max(session.end_ns, session.start_ns);
    if (i + 1 < sessions.size()) session.end_ns = std::min(session.end_ns, sessions[i + 1].start_ns);
    for (const auto& [node, slots] : session.slots_of) session.slots += slots;
  }
  // A resume that found nothing to do is none.
  for (size_t i = sessions.size(); i-- > 0 && sessions.size() > 1;) {
    if (!worked[i]) sessions.erase(sessions.begin() + static_cast<ptrdiff_t>(i));
  }
  return sessions;
}

}  // namespace harrow::journal
