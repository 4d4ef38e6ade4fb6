// The hash runs over fields with their lengths before them, so that no two different tasks feed it the same
// bytes. The order of declared files does not matter to a run, but is kept: to declare them anew is to change
// the task.
//
// A change of what is hashed makes every task of an older run a changed one: kVersion says so explicitly.
#include "formats/identity.h"

#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace harrow::formats {
namespace {

constexpr uint64_t kVersion = 1;

class Bytes {
 public:
  explicit Bytes(std::string* data) : data_(*data) {}
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
  std::string& data_;
};

}  // namespace

Identity Identifier::Next() {
  Bytes bytes(&bytes_);
  while (profiles_.size() < graph_.profile_count()) {
    const graph::Profile& profile = graph_.profile(ProfileId(static_cast<uint32_t>(profiles_.size())));
    bytes.Clear();
    bytes.Text(profile.shell);
    bytes.Text(profile.cwd);
    for (const auto& [name, value] : profile.env) {
      bytes.Text(name);
      bytes.Text(value);
    }
    profiles_.push_back(bytes.Hash());
  }
  const TaskId task(next_++);
  bytes.Clear();
  bytes.Number(kVersion);
  bytes.Text(graph_.given_name(task));
  bytes.Number(static_cast<uint64_t>(graph_.form(task)));
  bytes.Text(graph_.command(task));
  const Identity& profile = profiles_[graph_.profile_id(task).value];
  bytes.Number(profile.high);
  bytes.Number(profile.low);
  for (const auto& files : {graph_.inputs(task), graph_.outputs(task)}) {
    bytes.Number(files.size());
    for (FileId file : files) bytes.Text(graph_.file_name(file));
  }
  // Tasks without streams are what they were before there were any.
  for (const auto& ends : {graph_.streams_read(task), graph_.streams_written(task)}) {
    if (!graph_.has_streams(task)) break;
    bytes.Number(ends.size());
    for (const auto& [_, stream] : ends) {
      const graph::Stream& of = graph_.streams()[stream.value];
      bytes.Text(of.name);
      bytes.Number(of.split);
      bytes.Number(of.records);
    }
  }
  if (graph_.given_name(task).empty()) {
    bytes.Number(occurrences_[bytes.Hash()]++);
  }
  return bytes.Hash();
}

std::vector<Identity> Identities(const graph::Graph& graph) {
  Identifier identifier(graph);
  std::vector<Identity> identities;
  identities.reserve(graph.task_count());
  while (identities.size() < graph.task_count()) identities.push_back(identifier.Next());
  return identities;
}

}  // namespace harrow::formats
