// What loading and calling the SPANK plugin costs a process of Slurm that does not use it: CPU time of the
// loader's steps (dlopen, the symbols that Slurm looks up, the calls of a step without the option, dlclose),
// each time in a new process. usage: plugin_cost SPANK_HARROW.SO local|remote N; prints the median in
// microseconds.

extern "C" {
#include <slurm/spank.h>
}

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string_view>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vector>

struct spank_handle {
  int none;
};

namespace {

spank_context_t context = S_CTX_LOCAL;

double Cpu() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double Once(const char* file) {
  spank_handle spank = {};
  char argument[] = "local=/tmp";
  char* arguments[] = {argument, nullptr};
  double began = Cpu();
  void* plugin = dlopen(file, RTLD_LAZY);
  if (plugin == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::_Exit(1);
  }
  for (const char* name : {"plugin_name", "plugin_type", "plugin_version", "init"}) dlsym(plugin, name);
  for (const char* name :
       {"slurm_spank_init", "slurm_spank_job_prolog", "slurm_spank_init_post_opt",
        "slurm_spank_local_user_init", "slurm_spank_user_init", "slurm_spank_task_init_privileged",
        "slurm_spank_user_task_init", "slurm_spank_task_init", "slurm_spank_task_post_fork",
        "slurm_spank_task_exit", "slurm_spank_job_epilog", "slurm_spank_slurmd_exit", "slurm_spank_exit"}) {
    auto* call = reinterpret_cast<spank_f*>(dlsym(plugin, name));
    if (call != nullptr && std::string_view(name) != "slurm_spank_job_epilog") call(&spank, 1, arguments);
  }
  dlsym(plugin, "spank_options");
  dlclose(plugin);
  return Cpu() - began;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)
spank_context_t spank_context() {
  return context;
}
const char* spank_strerror(spank_err_t) {
  return "";
}
spank_err_t spank_option_register(spank_t, spank_option*) {
  return static_cast<spank_err_t>(ESPANK_SUCCESS);
}
spank_err_t spank_get_item(spank_t, spank_item_t, ...) {
  return ESPANK_NOT_AVAIL;
}
spank_err_t spank_getenv(spank_t, const char*, char*, int) {
  return ESPANK_ENV_NOEXIST;
}
spank_err_t spank_setenv(spank_t, const char*, const char*, int) {
  return static_cast<spank_err_t>(ESPANK_SUCCESS);
}
spank_err_t spank_unsetenv(spank_t, const char*) {
  return static_cast<spank_err_t>(ESPANK_SUCCESS);
}
void slurm_error(const char*, ...) {}
void slurm_info(const char*, ...) {}
#pragma GCC visibility pop
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  context = std::string_view(argv[2]) == "remote" ? S_CTX_REMOTE : S_CTX_LOCAL;
  std::vector<double> times;
  for (int i = std::atoi(argv[3]); i > 0; --i) {
    int fds[2];
    if (pipe(fds) != 0) return 1;
    pid_t child = fork();
    if (child == 0) {
      Once(argv[1]);  // a process of Slurm has loaded other plugins before; after fork each page written
                      // costs a copy
      double t = Once(argv[1]);
      std::_Exit(write(fds[1], &t, sizeof t) == sizeof t ? 0 : 1);
    }
    close(fds[1]);
    double t = 0;
    if (read(fds[0], &t, sizeof t) != sizeof t) return 1;
    close(fds[0]);
    waitpid(child, nullptr, 0);
    times.push_back(t);
  }
  std::sort(times.begin(), times.end());
  std::printf("%.1f\n", times[times.size() / 2]);
}
