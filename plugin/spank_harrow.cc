// The SPANK plugin: this file only switches on the context, each context has a file of its own.
//
// Every function returns success, whatever happened: a failing one would abort srun, kill slurmstepd or drain
// a node. Only a wrong value of an option is refused, in srun, sbatch and salloc, where the user typed it.
// Nothing can be thrown: the plugin is compiled without exceptions and linked without the C++ runtime
// (CMakeLists.txt).
//
// There is no slurm_spank_job_prolog: with one, slurmd would start another program for every job of the site,
// and it runs where a step or the batch script starts, so slurmstepd can do the same when the option is used.

extern "C" {
#include <slurm/spank.h>  // declares the slurm_spank_ functions outside of its own extern "C"
}

#include "contexts.h"

#define HARROW_EXPORT __attribute__((visibility("default")))

extern "C" {

// What SPANK_PLUGIN defines; C++ would keep these constants in this file.
HARROW_EXPORT extern const char plugin_name[];
HARROW_EXPORT extern const char plugin_type[];
HARROW_EXPORT extern const unsigned int plugin_version;
HARROW_EXPORT extern const unsigned int spank_plugin_version;
SPANK_PLUGIN(harrow, 1)

// For harrow-plugin-check; the plugin exports no symbol for it.
[[gnu::used]] static const char built_for[] = "harrow-plugin-built-for-slurm-" HARROW_SLURM_VERSION;

HARROW_EXPORT int slurm_spank_init(spank_t spank, int argc, char** argv) {
  const spank_context_t context = spank_context();
  if (context == S_CTX_LOCAL) harrow::plugin::LocalInit(spank);
  if (context == S_CTX_ALLOCATOR) harrow::plugin::AllocatorInit(spank);
  if (context == S_CTX_REMOTE) harrow::plugin::RemoteInit(spank);
  if (context == S_CTX_SLURMD) harrow::plugin::SlurmdInit(argc, argv);
  return ESPANK_SUCCESS;
}

HARROW_EXPORT int slurm_spank_init_post_opt(spank_t spank, int argc, char** argv) {
  const spank_context_t context = spank_context();
  if (context == S_CTX_ALLOCATOR) harrow::plugin::AllocatorPostOptions(spank, argc, argv);
  if (context == S_CTX_REMOTE) harrow::plugin::RemotePostOptions(spank, argc, argv);
  return ESPANK_SUCCESS;
}

HARROW_EXPORT int slurm_spank_task_init(spank_t spank, int, char**) {
  harrow::plugin::RemoteTaskInit(spank);
  return ESPANK_SUCCESS;
}

HARROW_EXPORT int slurm_spank_job_epilog(spank_t spank, int argc, char** argv) {
  harrow::plugin::JobEpilog(spank, argc, argv);
  return ESPANK_SUCCESS;
}
}
