#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "batch/slurm_environment.h"

namespace harrow::batch {

/// The words that a user gave for sbatch. All of them are passed on as they are; of a few it is looked
/// whether they are there, so that nothing is added beside them.
class SbatchWords {
 public:
  explicit SbatchWords(std::vector<std::string> words) : words_(std::move(words)) {}

  const std::vector<std::string>& words() const { return words_; }
  /// Is an option there: "--nodes", "--nodes=4", and "-N", "-N4" where it has a short name?
  bool Has(std::string_view name, char letter = 0) const;
  /// What the last of that name was given; none: it is not there.
  std::optional<std::string> Value(std::string_view name, char letter = 0) const;
  /// Several jobs in one: "sbatch A : B".
  bool heterogeneous() const;
  /// Does something say how many nodes the job has?
  bool says_nodes() const;

 private:
  std::vector<std::string> words_;
};

struct SbatchDefaults {
  std::string job_name;  // empty: sbatch's own
  uint32_t nodes = 0;    // 0: not to be said
};
/// The options that go before the user's, whose own come later and hold: whole nodes where nothing is said of
/// CPUs and memory, a job that outlives a node, is not begun again by Slurm, and has a name and an output
/// file beside its run's directory.
std::vector<std::string> AddedToSbatch(const SbatchWords& given, const Environment& environment,
                                       const SbatchDefaults& defaults);

/// A batch script that becomes `command`, with `input` as its standard input where there is some. `comment`: one line, of what
/// it is.
std::string SbatchScript(const std::vector<std::string>& command, std::string_view comment, std::string_view input = {});

/// The job that sbatch says it has submitted, in whole words or with --parsable; none: nothing of the kind.
std::optional<std::string> SubmittedJob(std::string_view said);

/// What a partition's nodes are like, by `sinfo` with the format below; of several kinds the one of which
/// there are most.
struct Partition {
  std::string name;
  uint32_t most_nodes = 0;  // of a job
  uint32_t cpus = 0;        // of a node
  uint64_t memory = 0;      // bytes
  uint32_t gpus = 0;
  uint32_t most_cpus = 0, most_gpus = 0;  // of any of its nodes
  uint64_t most_memory = 0;
  Duration default_time{0};  // of a job that does not say; 0: without a limit, or not told
  Duration most_time{0};     // of a job; 0: without a limit
};
inline constexpr const char* kPartitionFormat = "%P|%c|%m|%D|%G|%s|%L|%l";
/// `wanted`: a name, or names of which the first counts ("a,b"); empty: the default one. None: it is not
/// there.
std::optional<Partition> ParsePartitions(std::string_view sinfo, std::string_view wanted);
/// The names in what `sinfo` tells, the default one first.
std::vector<std::string> PartitionNames(std::string_view sinfo);

/// A length of time as Slurm's --time takes it, whole minutes and never less: "1-02:03:00".
std::string SlurmTime(Duration time);

/// What became of asking sbatch for a job, or with --test-only when it would begin.
struct SbatchAnswer {
  enum class What : uint8_t { kTaken, kRefused, kNoAnswer };
  What what = What::kTaken;
  std::string job = {};                       // that was submitted
  std::optional<WallTime> begins = {};        // of --test-only
  std::string why = {};                       // in a line; what was refused, or who does not answer
};
/// By its exit status and what it printed, with SLURM_TIME_FORMAT=%s.
SbatchAnswer ReadSbatchAnswer(int status, std::string_view out, std::string_view err);

/// Whether a job that waits for that reason (`squeue -o %r`) waits for something that does not come by itself: what it is, in
/// words; empty: it may begin yet.
std::string NeverBegins(std::string_view reason);

}  // namespace harrow::batch
