#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "graph/graph.h"

namespace harrow::formats {

/// An option of sbatch(1).
struct BatchOption {
  enum class Argument : uint8_t { kNone, kRequired, kOptional };
  enum class Of : uint8_t {
    // It says what each element of an array asks for or does.
    kElement,
    // It says what is allocated, when, and to whom it counts: a matter of the job that harrow runs in.
    kAllocation,
    // It says what each element asks for or does, and Harrow has no such thing.
    kUnmet,
    // It changes nothing of what runs.
    kSubmission,
  };
  constexpr BatchOption(std::string_view called, Argument takes, Of kind = Of::kAllocation)
      : name(called), argument(takes), of(kind) {}
  constexpr BatchOption(std::string_view called, char short_name, Argument takes, Of kind = Of::kAllocation)
      : name(called), letter(short_name), argument(takes), of(kind) {}

  std::string_view name;
  char letter = '\0';  // that: it has none
  Argument argument;
  Of of;
};
std::span<const BatchOption> BatchOptions();

/// An option as somebody gave it.
struct GivenOption {
  std::string name;   // without dashes
  std::string value;  // empty: none
  std::string place;  // "job.sh:3", "--array": begins messages
};

/// What a batch script says to its batch system.
struct BatchScript {
  std::vector<GivenOption> options;  // of #SBATCH lines, in their order; sbatch(1)'s and others
  // An array of PBS or Grid Engine: "job.sh:3", and its elements; empty: none.
  std::string foreign_place, foreign_array;
  // It reads SLURM_JOB_ID, which is each element's own where each is a job.
  bool uses_job_id = false;
};

/// Reads the #SBATCH lines as sbatch does: those before the first line that is a command. `path` is for
/// places. kInvalid: a line "PLACE: what is wrong; what would be right" a problem, among them a first line
/// that names no interpreter.
Result<BatchScript> ReadBatchScript(std::string_view path, std::string_view text);

/// What each element of an array asks for, as sbatch(1)'s options say it.
struct ElementRequest {
  std::string array;                                          // as written; empty: not said
  std::string array_place;                                    // where it was said
  uint32_t cpus_per_task = 0, tasks = 0, tasks_per_node = 0;  // 0: not said
  uint64_t memory = 0, memory_per_cpu = 0;                    // bytes; 0: not said
  uint32_t gpus = 0, gpus_per_task = 0;
  bool whole_node = false, all_memory = false;
  Duration time{0};  // 0: no limit
  std::string input, output, error;
  bool append = false;
  std::string job_name, chdir;
  std::string wrap;  // the command of --wrap
  // --export: whether the environment goes along, and what is set or named besides. A name without a value is
  // taken from the environment.
  bool export_all = true, export_nothing = false;  // of the submit environment; nothing: what a login finds neither
  std::vector<std::pair<std::string, std::optional<std::string>>> exported;
  int32_t signal = 0;  // before the time limit; 0: none
  Duration signal_before{0};
  bool signal_alone = false;
  std::vector<std::string> unmet;  // "--container": asked for, and not given

  uint32_t all_tasks() const { return tasks > 0 ? tasks : tasks_per_node > 0 ? tasks_per_node : 1; }
};

/// Applies options in order: later ones win. What is of the allocation, or not known, is appended to
/// `others`, once each, as "--partition". kInvalid: one line a problem.
Status ApplyBatchOptions(std::span<const GivenOption> options, ElementRequest* request,
                         std::vector<std::string>* others);

/// An array as it is to be run.
struct ArrayPlan {
  ElementRequest request;
  std::string job_id;    // %A, and the first part of elements' names: 17_4
  std::string job_name;  // %x
  std::string submit_dir;
  std::string script;  // the program of each element
  std::vector<std::string> arguments;
};

/// Adds a task an element to an empty graph and seals it. `limit`: of elements that run at once, 0: none.
/// What the user should know is appended to `notices`. kInvalid: the array, or what an element asks for,
/// cannot be.
Status AddArray(const ArrayPlan& plan, graph::Graph* graph, uint64_t* limit,
                std::vector<std::string>* notices);

/// Is it what AddArray makes?
bool IsArray(const graph::Graph& graph);

/// Makes the elements of an array execute `script`, and tells them `submit_dir`, wherever these were before:
/// they may have been moved. Another graph is left as it is.
Status ExecuteScript(const std::string& script, const std::string& submit_dir, graph::Graph* graph);

/// Is it an element's name, "17_4"?
bool IsElementName(std::string_view name);
/// The names that an element's name in the batch system's notation stands for: "17_[3-5,9]" is 17_3, 17_4,
/// 17_5, 17_9; any other name is itself.
std::vector<std::string> ExpandElementNames(const std::vector<std::string>& names);

}  // namespace harrow::formats
