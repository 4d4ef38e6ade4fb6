#pragma once

#include <slurm/spank.h>

namespace harrow::plugin {

// local.cc: srun
void LocalInit(spank_t spank);
// allocator.cc: sbatch, salloc
void AllocatorInit(spank_t spank);
void AllocatorPostOptions(spank_t spank, int argc, char** argv);
// remote.cc: slurmstepd
void RemoteInit(spank_t spank);
void RemotePostOptions(spank_t spank, int argc, char** argv);  // as root
void RemoteTaskInit(spank_t spank);                            // as the user, in the task's mount namespace
// slurmd.cc
void SlurmdInit(int argc, char** argv);
// job_script.cc
void JobEpilog(spank_t spank, int argc, char** argv);

}  // namespace harrow::plugin
