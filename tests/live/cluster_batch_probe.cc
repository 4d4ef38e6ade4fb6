// What batch::FindBatch tells here, as lines for cluster_batch.py: usage: cluster_batch_probe PROGRAM RUN_DIR

#include <cstdio>
#include <string>
#include <unistd.h>
#include <vector>

#include "base/text.h"
#include "batch/slurm.h"

extern char** environ;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
  auto batch = harrow::batch::FindBatch({.program = argv[1], .nodes = 1, .slots = 0}, environment);
  std::printf("batch %s job %s name %s\n", batch->name().c_str(), batch->job_id().c_str(),
              batch->job_name().c_str());
  auto nodes = batch->Nodes();
  if (!nodes.ok()) std::printf("error %s\n", nodes.status().message().c_str());
  if (nodes.ok()) {
    for (const auto& node : *nodes) {
      std::printf("node %s cpus %u memory %llu gpus %u partition %s\n", node.name.c_str(), node.cpus,
                  static_cast<unsigned long long>(node.memory), node.devices, node.partition.c_str());
    }
  }
  auto end = batch->EndTime();
  std::printf("end %lld\n",
              end ? static_cast<long long>(
                        std::chrono::duration_cast<std::chrono::seconds>(end->time_since_epoch()).count())
                  : 0LL);
  for (const std::string& host : batch->ListenHosts()) std::printf("listen %s\n", host.c_str());
  auto commands = batch->AgentCommands(argv[2]);
  if (commands.ok()) {
    for (const auto& command : *commands) {
      std::string line;
      for (const std::string& word : command) line += (line.empty() ? "" : " ") + harrow::ShellQuote(word);
      std::printf("command %s\n", line.c_str());
    }
  }
  return 0;
}
