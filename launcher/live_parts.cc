#include "launcher/live_parts.h"

#include <algorithm>
#include <thread>

#include "base/text.h"
#include "batch/slurm.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "os/clock.h"
#include "run/flow_store.h"
#include "run_dir/names.h"

namespace harrow::launcher {

namespace {

constexpr Duration kForServer = std::chrono::seconds(60);
constexpr Duration kPause = std::chrono::milliseconds(200);

template <class Use>
void EachPart(const std::shared_ptr<run_dir::RunDir>& run, const Use& use) {
  const auto numbers = run_dir::PartNumbers(*run);
  for (const uint32_t number : numbers.ok() ? *numbers : std::vector<uint32_t>()) {
    if (const auto part = run_dir::OpenPart(run, StrCat(number)); part.ok()) use(*part);
  }
}

}  // namespace

run_dir::OwnerIs OwnerOf(const run_dir::Part& part) {
  const std::string job = batch::JobWithRestarts(Environment());
  return run_dir::LookAtOwner(*part.dir, part.dir->path(), run_dir::ThisProcess(job), [&](const std::string& other) {
    return batch::JobRuns(ThisProgram(), other, job);
  });
}

std::vector<OwnedPart> OwnedParts(const std::shared_ptr<run_dir::RunDir>& run, WallTime session) {
  std::vector<OwnedPart> owned;
  EachPart(run, [&](const run_dir::Part& part) {
    const auto settings = run::ReadSettings(part);
    if (settings.ok() && settings->session_start() != session) return;
    const run_dir::OwnerIs owner = OwnerOf(part);
    if (owner == run_dir::OwnerIs::kThere || (owner == run_dir::OwnerIs::kGone && settings.ok()))
      owned.push_back({part, owner});
  });
  return owned;
}

bool GoesOnElsewhere(const run_dir::Part& part, WallTime session) {
  const std::vector<OwnedPart> owned = OwnedParts(part.run, session);
  return std::any_of(owned.begin(), owned.end(), [&](const OwnedPart& other) {
    return other.part.number != part.number && other.owner == run_dir::OwnerIs::kThere;
  });
}

Result<std::optional<WallTime>> AwaitSession(const run_dir::Part& own) {
  const Duration give_up = os::RealClock().Steady() + kForServer;
  for (;;) {
    std::optional<WallTime> session;
    bool begins = false;
    EachPart(own.run, [&](const run_dir::Part& part) {
      if (part.number == own.number || session || OwnerOf(part) != run_dir::OwnerIs::kThere) return;
      const auto settings = run::ReadSettings(part);
      if (settings.ok() && part.dir->Stat(run_dir::ServerPath(part.dir->path())).ok()) {
        session = settings->session_start();
      } else {
        begins |= part.number < own.number;
      }
    });
    if (session || !begins) return session;
    if (os::RealClock().Steady() >= give_up)
      return Status(Code::kUnavailable, "another allocation is about to begin or to resume the run, and has no server yet; try again");
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace harrow::launcher
