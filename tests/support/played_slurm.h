// A Slurm for the plugin: it is loaded by a program that plays slurmd, slurmstepd or srun. For one file of a
// program, which is linked with ENABLE_EXPORTS and told where the plugin lies (HARROW_PLUGIN).
#pragma once

extern "C" {
#include <slurm/spank.h>
}

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <map>
#include <stdarg.h>
#include <stdio.h>
#include <string>
#include <unistd.h>
#include <vector>

struct spank_handle {
  spank_context_t context = S_CTX_ERROR;
  std::map<std::string, std::string> environment;
  std::vector<spank_option> options;
  bool broken = false;  // every call fails
  int missing = -1;     // the one item that is not told
  uint32_t job = 12;
};

namespace {

// In the header it is an int.
constexpr spank_err_t kGood = static_cast<spank_err_t>(ESPANK_SUCCESS);

spank_handle* current = nullptr;
std::vector<std::string> slurm_log;

void Log(const char* kind, const char* format, va_list arguments) {
  char line[2048];
  vsnprintf(line, sizeof line, format, arguments);
  slurm_log.push_back(std::string(kind) + line);
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

spank_context_t spank_context() {
  return current->context;
}
const char* spank_strerror(spank_err_t) {
  return "because";
}
spank_err_t spank_option_register(spank_t spank, spank_option* option) {
  if (spank->broken) return ESPANK_ERROR;
  spank->options.push_back(*option);
  return kGood;
}
spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...) {
  if (spank->broken || item == spank->missing) return ESPANK_NOT_AVAIL;
  va_list arguments;
  va_start(arguments, item);
  void* out = va_arg(arguments, void*);
  va_end(arguments);
  switch (item) {
    case S_JOB_ID:
      *static_cast<uint32_t*>(out) = spank->job;
      break;
    case S_JOB_UID:
      *static_cast<uid_t*>(out) = getuid();
      break;
    case S_JOB_GID:
      *static_cast<gid_t*>(out) = getgid();
      break;
    default:
      return ESPANK_NOT_AVAIL;
  }
  return kGood;
}
spank_err_t spank_getenv(spank_t spank, const char* name, char* buffer, int size) {
  if (spank->broken) return ESPANK_NOT_REMOTE;
  auto it = spank->environment.find(name);
  if (it == spank->environment.end()) return ESPANK_ENV_NOEXIST;
  return snprintf(buffer, static_cast<size_t>(size), "%s", it->second.c_str()) < size ? kGood
                                                                                      : ESPANK_NOSPACE;
}
spank_err_t spank_setenv(spank_t spank, const char* name, const char* value, int overwrite) {
  if (spank->broken) return ESPANK_NOT_REMOTE;
  if (overwrite == 0 && spank->environment.count(name) != 0) return ESPANK_ENV_EXISTS;
  spank->environment[name] = value;
  return kGood;
}
spank_err_t spank_unsetenv(spank_t spank, const char* name) {
  spank->environment.erase(name);
  return spank->broken ? ESPANK_NOT_REMOTE : kGood;
}
void slurm_error(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Log("error: ", format, arguments);
  va_end(arguments);
}
void slurm_info(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Log("info: ", format, arguments);
  va_end(arguments);
}

#pragma GCC visibility pop
}

namespace {

/// The plugin, loaded afresh, in one process of Slurm.
class Process {
 public:
  Process(spank_context_t context, std::vector<std::string> arguments) : arguments_(std::move(arguments)) {
    spank.context = context;
    current = &spank;
    for (std::string& argument : arguments_) argv_.push_back(argument.data());
    plugin_ = dlopen(HARROW_PLUGIN, RTLD_LAZY);
    EXPECT_NE(plugin_, nullptr) << dlerror();
  }
  ~Process() { dlclose(plugin_); }

  int Call(const char* function) {
    auto* f = reinterpret_cast<spank_f*>(dlsym(plugin_, function));
    return f == nullptr ? 0 : f(&spank, static_cast<int>(argv_.size()), argv_.data());
  }
  int Option(const std::string& name, const char* value) {
    for (const spank_option& option : spank.options) {
      if (option.name == name) return option.cb(option.val, value, spank.context == S_CTX_REMOTE);
    }
    return -99;
  }
  void* Symbol(const char* name) { return dlsym(plugin_, name); }
  /// A step of a job, up to its first task.
  void Step(bool with_option) {
    EXPECT_EQ(Call("slurm_spank_init"), 0);
    if (with_option) Option("harrow", nullptr);
    EXPECT_EQ(Call("slurm_spank_init_post_opt"), 0);
    EXPECT_EQ(Call("slurm_spank_user_init"), 0);
    EXPECT_EQ(Call("slurm_spank_task_init_privileged"), 0);
    EXPECT_EQ(Call("slurm_spank_task_init"), 0);
    EXPECT_EQ(Call("slurm_spank_exit"), 0);
  }

  spank_handle spank;

 private:
  std::vector<std::string> arguments_;
  std::vector<char*> argv_;
  void* plugin_ = nullptr;
};

}  // namespace
