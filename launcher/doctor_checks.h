#pragma once

#include <string>
#include <vector>

namespace harrow::launcher {

enum class Health { kOk, kWarning, kBad };

struct Check {
  std::string name;
  Health health = Health::kOk;
  std::string text;    // what was found
  std::string advice;  // what to do; empty when ok
};

/// Where PATH finds a program; empty: nowhere.
std::string InPath(const std::string& program);

// Each looks at one thing that runs depend on, and leaves nothing behind.
std::vector<Check> CheckCores();   // cores, memory, devices
std::vector<Check> CheckCgroup();  // quotas, memory limit, whether tasks can have their own
std::vector<Check> CheckDirectory(const std::string& path);  // file system, space, durability, its clock
std::vector<Check> CheckProcesses();                         // starting programs, limits, shell, TMPDIR
std::vector<Check> CheckCriu();                              // whether CRIU can dump and restore here
std::vector<Check> CheckNetwork();                           // loopback, TLS with itself, a wrong key
std::vector<Check> CheckBatch();                             // Slurm
std::vector<Check> CheckSite();                              // what the site's plugin for Slurm says
std::vector<Check> CheckSettings();                          // configuration files and environment
std::vector<Check> CheckRun(const std::string& run_dir);     // its journal and owner, when it is a run

}  // namespace harrow::launcher
