// The hash runs over fields with their lengths before them, so that no two different tasks feed it the same
// bytes. The order of declared files does not matter to a run, but is kept: to declare them anew is to change
// the task.
//
// A change of what is hashed makes every task of an older run a changed one: kVersion says so explicitly.
#include "formats/identity.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace harrow::formats {
namespace {

constexpr uint64_t kVersion = 1;

Identity HashOf(const PackedBytes& packed) {
  const XXH128_hash_t hash = XXH3_128bits(packed.bytes().data(), packed.size());
  return {hash.high64, hash.low64};
}

}  // namespace

Identity Identifier::Next() {
  while (profiles_.size() < graph_.profile_count()) {
    const graph::Profile& profile = graph_.profile(ProfileId(static_cast<uint32_t>(profiles_.size())));
    packed_.Clear();
    packed_.Add(profile.shell);
    packed_.Add(profile.cwd);
    for (const auto& [name, value] : profile.env) {
      packed_.Add(name);
      packed_.Add(value);
    }
    profiles_.push_back(HashOf(packed_));
  }
  const TaskId task(next_++);
  packed_.Clear();
  packed_.Add(kVersion);
  packed_.Add(graph_.given_name(task));
  packed_.Add(static_cast<uint64_t>(graph_.form(task)));
  packed_.Add(graph_.command(task));
  const Identity& profile = profiles_[graph_.profile_id(task).value];
  packed_.Add(profile.high);
  packed_.Add(profile.low);
  for (const auto& files : {graph_.inputs(task), graph_.outputs(task)}) {
    packed_.Add(files.size());
    for (FileId file : files) packed_.Add(graph_.file_name(file));
  }
  // Tasks without streams are what they were before there were any.
  for (const auto& ends : {graph_.streams_read(task), graph_.streams_written(task)}) {
    if (!graph_.has_streams(task)) break;
    packed_.Add(ends.size());
    for (const auto& [_, stream] : ends) {
      const graph::Stream& of = graph_.streams()[stream.value];
      packed_.Add(of.name);
      packed_.Add(uint64_t{of.split});
      packed_.Add(uint64_t{of.records});
    }
  }
  if (graph_.given_name(task).empty()) {
    packed_.Add(occurrences_[HashOf(packed_)]++);
  }
  return HashOf(packed_);
}

std::vector<Identity> Identities(const graph::Graph& graph) {
  Identifier identifier(graph);
  std::vector<Identity> identities;
  identities.reserve(graph.task_count());
  while (identities.size() < graph.task_count()) identities.push_back(identifier.Next());
  return identities;
}

}  // namespace harrow::formats
