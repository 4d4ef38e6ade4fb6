#include "agent/environment.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"

namespace harrow::agent {
namespace {

/// Set for every task by us, so not inherited from where the run was started.
constexpr std::array<std::string_view, 8> kOurs = {"HARROW_TASK_ID",
                                                   "HARROW_TASK_NAME",
                                                   "HARROW_ATTEMPT",
                                                   "HARROW_NODE",
                                                   "HARROW_SUBMIT_DIR",
                                                   "HARROW_LOCAL",
                                                   "OMP_NUM_THREADS",
                                                   "PWD"};

std::string_view NameOf(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

std::string Join(const std::string& directory, const std::string& path) {
  if (path.empty()) return directory;
  if (path.front() == '/' || directory.empty()) return path;
  return directory.back() == '/' ? directory + path : directory + "/" + path;
}

}  // namespace

BaseEnvironment::BaseEnvironment(const EnvList& submit_environment, Common common)
    : common_(std::move(common)) {
  for (const auto& [name, value] : submit_environment) {
    if (std::find(kOurs.begin(), kOurs.end(), name) != kOurs.end()) continue;
    if (common_.has_gpus && (name == "CUDA_VISIBLE_DEVICES" || name == "ROCR_VISIBLE_DEVICES")) continue;
    if (common_.own_tmp && name == "TMPDIR") continue;
    const bool names_node = name == "SLURMD_NODENAME";  // the one that harrow run was started on
    entries_.push_back(StrCat(name, "=", names_node ? common_.node_name : value));
  }
  entries_.push_back("HARROW_NODE=" + common_.node_name);
  entries_.push_back("HARROW_SUBMIT_DIR=" + common_.submit_dir);
  if (!common_.local.empty()) entries_.push_back("HARROW_LOCAL=" + common_.local);
}

int BaseEnvironment::Find(std::string_view name) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (NameOf(entries_[i]) == name) return static_cast<int>(i);
  }
  return -1;
}

TaskProfile::TaskProfile(ProfileSpec spec, std::shared_ptr<const BaseEnvironment> base)
    : spec_(std::move(spec)),
      base_(std::move(base)),
      directory_(Join(base_->common().submit_dir, spec_.cwd)) {
  const auto set = [this](std::string_view name, std::string_view value) {
    overrides_.push_back({.base_index = base_->Find(name), .entry = StrCat(name, "=", value)});
  };
  set("PWD", directory_);
  for (const auto& [name, value] : spec_.env) {
    sets_omp_threads_ = sets_omp_threads_ || name == "OMP_NUM_THREADS";
    sets_tmp_dir_ = sets_tmp_dir_ || name == "TMPDIR";
    std::erase_if(overrides_, [&name](const Override& o) { return NameOf(o.entry) == name; });
    set(name, value);
  }
  path_ = Variable("PATH");
  shell_ = spec_.shell.empty() ? base_->common().shell : spec_.shell;
  if (shell_.empty()) shell_ = "/bin/sh";
}

std::string_view TaskProfile::Variable(std::string_view name) const {
  for (const Override& o : overrides_) {
    if (NameOf(o.entry) == name) return std::string_view(o.entry).substr(name.size() + 1);
  }
  const int index = base_->Find(name);
  if (index < 0) return {};
  return std::string_view(base_->entries()[static_cast<size_t>(index)]).substr(name.size() + 1);
}

void EnvironmentBuilder::Add(std::string_view name, std::string_view value) {
  offsets_.push_back(text_.size());
  text_.append(name).append(1, '=').append(value).append(1, '\0');
}

void EnvironmentBuilder::Add(std::string_view name, uint64_t value) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  Add(name, std::string_view(digits.data(), static_cast<size_t>(end - digits.data())));
}

char* const* EnvironmentBuilder::Build(const TaskProfile& profile, const TaskVariables& task) {
  const BaseEnvironment& base = profile.base();
  text_.clear();
  offsets_.clear();
  pointers_.clear();
  for (const std::string& entry : base.entries()) pointers_.push_back(const_cast<char*>(entry.c_str()));
  for (const TaskProfile::Override& o : profile.overrides_) {
    char* entry = const_cast<char*>(o.entry.c_str());
    if (o.base_index < 0) {
      pointers_.push_back(entry);
    } else {
      pointers_[static_cast<size_t>(o.base_index)] = entry;
    }
  }
  Add("HARROW_TASK_ID", task.number);
  Add("HARROW_TASK_NAME", task.name);
  Add("HARROW_ATTEMPT", task.attempt);
  if (!profile.sets_omp_threads_) Add("OMP_NUM_THREADS", task.cores);
  if (base.common().has_gpus) {
    Add("CUDA_VISIBLE_DEVICES", task.cuda_devices);
    Add("ROCR_VISIBLE_DEVICES", task.rocr_devices);
  }
  if (base.common().own_tmp && !profile.sets_tmp_dir_) Add("TMPDIR", task.tmp_dir);
  for (size_t offset : offsets_) pointers_.push_back(text_.data() + offset);
  pointers_.push_back(nullptr);
  return pointers_.data();
}

}  // namespace harrow::agent
