// The hash runs over fields with their lengths before them, so that no two different tasks feed it the same
// bytes. The order of declared files does not matter to a run, but is kept: to declare them anew is to change
// the task.
//
// A change of what is hashed makes every task of an older run a changed one: kVersion says so explicitly.
#include "formats/identity.h"

#include <string>
#include <unordered_map>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace harrow::formats {
namespace {

constexpr uint64_t kVersion = 1;

class Bytes {
 public:
  void Number(uint64_t n) { data_.append(reinterpret_cast<const char*>(&n), sizeof n); }
  void Text(std::string_view text) {
    Number(text.size());
    data_.append(text);
  }
  void Clear() { data_.clear(); }
  Identity Hash() const {
    const XXH128_hash_t hash = XXH3_128bits(data_.data(), data_.size());
    return {hash.high64, hash.low64};
  }

 private:
  std::string data_;
};

struct IdentityHash {
  size_t operator()(const Identity& id) const { return id.low; }
};

}  // namespace

std::vector<Identity> Identities(const graph::Graph& graph) {
  std::vector<Identity> identities(graph.task_count());
  std::vector<Identity> profiles;  // of shell, cwd and env
  Bytes bytes;
  for (uint32_t n = 0; n < graph.profile_count(); ++n) {
    const graph::Profile& profile = graph.profile(ProfileId(n));
    bytes.Clear();
    bytes.Text(profile.shell);
    bytes.Text(profile.cwd);
    for (const auto& [name, value] : profile.env) {
      bytes.Text(name);
      bytes.Text(value);
    }
    profiles.push_back(bytes.Hash());
  }
  std::unordered_map<Identity, uint64_t, IdentityHash>
      occurrences;  // of unnamed tasks that are otherwise alike
  for (uint32_t n = 0; n < identities.size(); ++n) {
    const TaskId task(n);
    bytes.Clear();
    bytes.Number(kVersion);
    bytes.Text(graph.given_name(task));
    bytes.Number(static_cast<uint64_t>(graph.form(task)));
    bytes.Text(graph.command(task));
    const Identity& profile = profiles[graph.profile_id(task).value];
    bytes.Number(profile.high);
    bytes.Number(profile.low);
    for (const auto& files : {graph.inputs(task), graph.outputs(task)}) {
      bytes.Number(files.size());
      for (FileId file : files) bytes.Text(graph.file_name(file));
    }
    if (graph.given_name(task).empty()) {
      bytes.Number(occurrences[bytes.Hash()]++);
    }
    identities[n] = bytes.Hash();
  }
  return identities;
}

}  // namespace harrow::formats
