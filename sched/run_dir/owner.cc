// Taking a run directory over from a dead owner, without locks: who wants to replace an owner file with the
// content S first creates the claim file owner.claim-<hash of S>, which only one can. With the claim it looks
// again, and if owner is still S, renames its own file over it. Nobody else can replace S meanwhile, so what
// is replaced is what was judged. A claimant that died leaves a claim of content D, which is superseded the
// same way, by owner.claim-<hash of D>, and so on. The claims are removed after the replacement; who comes
// late with an old S finds at the second look that it has gone.
#include "run_dir/owner.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/text.h"
#include "os/clock.h"
#include "os/flat_json.h"
#include "run_dir/names.h"

namespace harrow::run_dir {
namespace {

constexpr uint64_t kLargestFile = 16u << 10;
constexpr int kTries = 100;

std::string ClaimOf(const std::string& run_dir, const std::string& content) {
  std::array<char, 17> hash{};
  snprintf(hash.data(), hash.size(), "%016" PRIx64, Hash64(content));
  return OwnerClaimPath(run_dir, hash.data());
}

/// Field 22 of /proc/PID/stat; 0 when there is no such process, or all that is left of it is what its parent has not asked for.
uint64_t StartOf(int64_t pid) {
  std::ifstream file(StrCat("/proc/", pid, "/stat"));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  size_t name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state, field;
  fields >> state;
  for (int i = 4; i < 20; ++i) fields >> field;
  int threads = 0;
  uint64_t start = 0;
  fields >> threads >> field >> start;
  // Where only its first thread has ended others may still work.
  return (state == "Z" || state == "X") && threads <= 1 ? 0 : start;
}

std::string Text(const Owner& o) {
  os::FlatJson json;
  json.Set("host", o.host);
  json.Set("boot_id", o.boot_id);
  json.Set("pid", o.pid);
  json.Set("process_start", static_cast<int64_t>(o.process_start));
  json.Set("pid_namespace", static_cast<int64_t>(o.pid_namespace));
  json.Set("job", o.job);
  json.Set("taken_ns", o.taken_ns);
  return json.Text();
}

bool SameProcess(const Owner& a, const Owner& b) {
  return a.host == b.host && a.boot_id == b.boot_id && a.pid == b.pid && a.process_start == b.process_start &&
         a.pid_namespace == b.pid_namespace;
}

bool KnownDead(const Owner& owner, const Owner& me, const JobAlive& job_alive) {
  if (owner.host == me.host) {
    if (owner.boot_id != me.boot_id) return true;
    if (owner.pid_namespace == me.pid_namespace) return StartOf(owner.pid) != owner.process_start;
  }
  if (!owner.job.empty() && owner.job != me.job && job_alive) return job_alive(owner.job) == false;
  return false;
}

Status HeldBy(const std::string& path, const Owner& owner) {
  std::string who = StrCat("process ", owner.pid, " on ", owner.host);
  if (!owner.job.empty()) who += StrCat(" (job ", owner.job, ")");
  return Status(Code::kExists, StrCat("the run directory is in use by ", who,
                                      "; if you know that it has ended, remove ", path));
}

}  // namespace

Owner ThisProcess(std::string job) {
  Owner me;
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  me.host = host.data();
  std::ifstream("/proc/sys/kernel/random/boot_id") >> me.boot_id;
  me.pid = getpid();
  me.process_start = StartOf(me.pid);
  struct stat ns {};
  if (stat("/proc/self/ns/pid", &ns) == 0) me.pid_namespace = ns.st_ino;
  me.job = std::move(job);
  me.taken_ns = os::RealClock().Now().time_since_epoch().count();
  return me;
}

Result<Owner> ParseOwner(std::string_view text) {
  Result<os::FlatJson> json = os::FlatJson::Parse(text);
  if (!json.ok()) return json.status();
  Owner o;
  o.host = json->String("host");
  o.boot_id = json->String("boot_id");
  o.pid = json->Number("pid");
  o.process_start = static_cast<uint64_t>(json->Number("process_start"));
  o.pid_namespace = static_cast<uint64_t>(json->Number("pid_namespace"));
  o.job = json->String("job");
  o.taken_ns = json->Number("taken_ns");
  HARROW_RETURN_IF_ERROR(json->status());
  return o;
}

Status TakeOwnership(os::FileSystem& fs, const std::string& run_dir, const Owner& me,
                     const JobAlive& job_alive) {
  const std::string mine = Text(me);
  for (int i = 0; i < kTries; ++i) {
    Status created = fs.CreateWhole(OwnerPath(run_dir), mine);
    if (created.code() != Code::kExists) return created;

    // The owner, and claimants that died on the way to replace it.
    std::vector<std::pair<std::string, std::string>> dead;  // path, content
    std::string path = OwnerPath(run_dir);
    bool claimed = false;
    while (!claimed) {
      Result<std::string> content = fs.Read(path, kLargestFile);
      if (content.status().code() == Code::kNotFound) break;  // just released or replaced
      if (!content.ok()) return content.status();
      Result<Owner> owner = ParseOwner(*content);
      if (!owner.ok()) {
        return Status(Code::kDamaged, StrCat(path, ": ", owner.status().message(),
                                             "; if you know that no Harrow runs there, remove it"));
      }
      if (SameProcess(*owner, me) && dead.empty()) return {};
      if (!KnownDead(*owner, me, job_alive)) return HeldBy(path, *owner);
      dead.emplace_back(path, *content);
      path = ClaimOf(run_dir, *content);
      Status claim = fs.CreateWhole(path, mine);
      if (!claim.ok() && claim.code() != Code::kExists) return claim;
      claimed = claim.ok();
    }
    if (!claimed) continue;

    bool unchanged = true;
    for (const auto& [name, content] : dead) {
      Result<std::string> now = fs.Read(name, kLargestFile);
      unchanged = unchanged && now.ok() && *now == content;
    }
    Status replaced = unchanged ? fs.WriteWhole(OwnerPath(run_dir), mine) : Status();
    for (size_t d = 1; unchanged && replaced.ok() && d < dead.size(); ++d) (void)fs.Remove(dead[d].first);
    (void)fs.Remove(path);
    if (unchanged) return replaced;
  }
  return Status(Code::kUnavailable, StrCat(OwnerPath(run_dir), " keeps changing hands; try again"));
}

OwnerIs LookAtOwner(os::FileSystem& fs, const std::string& run_dir, const Owner& me, const JobAlive& job_alive) {
  const Result<Owner> owner = ReadOwner(fs, run_dir);
  if (owner.status().code() == Code::kNotFound) return OwnerIs::kNobody;
  if (!owner.ok() || SameProcess(*owner, me)) return OwnerIs::kThere;
  const bool other_job = !owner->job.empty() && owner->job != me.job && job_alive;
  if (other_job && job_alive(owner->job) == false) return OwnerIs::kOver;
  return KnownDead(*owner, me, {}) ? OwnerIs::kGone : OwnerIs::kThere;
}

Result<Owner> ReadOwner(os::FileSystem& fs, const std::string& run_dir) {
  Result<std::string> content = fs.Read(OwnerPath(run_dir), kLargestFile);
  if (!content.ok()) return content.status();
  return ParseOwner(*content);
}

Status ReleaseOwnership(os::FileSystem& fs, const std::string& run_dir) {
  Result<Owner> owner = ReadOwner(fs, run_dir);
  if (!owner.ok()) return owner.status();
  if (!SameProcess(*owner, ThisProcess(""))) return {};
  return fs.Remove(OwnerPath(run_dir));
}

}  // namespace harrow::run_dir
