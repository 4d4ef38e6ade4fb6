#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/submissions.h"
#include "wire/harrow.pb.h"

namespace harrow::server {

/// What clients submit to this server while another one of the run takes submissions: it is passed on to that one, again where
/// the connection was lost or another server takes its place, until it is answered. Has no clock or connection.
class PassedOn {
 public:
  struct Hooks {
    std::function<void(uint32_t part, const pb::PassedSubmission&)> send;
    /// An id that nobody else gives.
    std::function<std::string()> new_id;
  };
  explicit PassedOn(Hooks hooks) : hooks_(std::move(hooks)) {}

  /// `for_taker`: the tasks are to be those of the server that takes them, not of this one.
  void Submit(pb::SubmitRequest request, bool for_taker, Submissions::Told told);
  /// Who is to be asked, and is connected; none: nobody, so that all waits.
  void SetTaker(std::optional<uint32_t> part);
  std::optional<uint32_t> taker() const { return taker_; }
  /// There is one, and as far as is known it takes tasks now.
  bool takes() const { return taker_ && willing_; }
  /// By any server that was asked. Of a request that was answered before: nothing.
  void Answered(const pb::SubmissionAnswered& answer);
  /// Who was asked did not take tasks then, and may do so now.
  void AskAgain();
  /// This server takes them itself from now on: all that has no answer, in the order in which it came.
  std::vector<std::pair<pb::SubmitRequest, Submissions::Told>> Release();

  bool idle() const { return pending_.empty(); }

 private:
  struct Pending {
    pb::PassedSubmission passed;
    std::vector<Submissions::Told> told;  // who asks again under the same id is told with the first
    bool asked = false;
  };
  void Ask(Pending* pending);

  const Hooks hooks_;
  std::optional<uint32_t> taker_;
  bool willing_ = true;  // it has not said that it takes none: else the first request alone asks, again and again
  std::map<uint64_t, Pending> pending_;  // in the order in which they came
  std::map<std::string, uint64_t> by_id_;
  uint64_t count_ = 0;
};

}  // namespace harrow::server
