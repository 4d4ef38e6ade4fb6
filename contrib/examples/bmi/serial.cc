// The whole search in one process, best bound first.
//
// usage: bmi-serial INSTANCE [--gap G] [--record FILE]
//
// --record writes the search tree, a line a node in the order in which they were looked at: number, number of its parent (-1), seconds
// of processor time, bound, number of children, separated by tabs.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <queue>

#include "node.h"

namespace {

struct Open {
  double bound;
  int made;  // the older of two with the same bound goes first
  int parent;
  bmi::Box box;
};

struct Later {
  bool operator()(const Open& a, const Open& b) const { return a.bound != b.bound ? a.bound > b.bound : a.made > b.made; }
};

/// Of this thread: what else the machine does is not recorded.
double ProcessorSeconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

int Usage() {
  std::fprintf(stderr, "usage: bmi-serial INSTANCE [--gap G] [--record FILE]\nINSTANCE: RD05-01 to RD05-05, RD06-01 to RD06-04\n");
  return 2;
}

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

int main(int count, char** words) {
  double gap = 0.05;
  const char* record = nullptr;
  if (count < 2 || count % 2 != 0) return Usage();
  for (int i = 2; i < count; i += 2) {
    if (std::strcmp(words[i], "--gap") == 0) {
      gap = std::atof(words[i + 1]);
    } else if (std::strcmp(words[i], "--record") == 0) {
      record = words[i + 1];
    } else {
      return Usage();
    }
  }
  const auto instance = bmi::Instance::Named(words[1]);
  if (!instance) return Usage();
  std::FILE* tree = record != nullptr ? std::fopen(record, "w") : nullptr;
  if (record != nullptr && tree == nullptr) {
    std::perror(record);
    return 1;
  }
  const double began = Seconds();
  double best = INFINITY;
  bmi::Point solution;
  std::priority_queue<Open, std::vector<Open>, Later> open;
  open.push({-INFINITY, 0, -1, instance->Whole()});
  double least = INFINITY;  // bound of all that was not halved further
  int nodes = 0, made = 1;
  while (!open.empty() && !bmi::Pointless(open.top().bound, best, gap)) {
    const Open node = open.top();
    open.pop();
    const double since = ProcessorSeconds();
    const auto looked = bmi::Look(*instance, node.box, node.bound, best, gap);
    const double took = ProcessorSeconds() - since;
    if (!looked) {
      std::fprintf(stderr, "bmi-serial: node %d: the semidefinite program was not solved: %s\n", nodes, ToText(node.box).c_str());
      return 1;
    }
    if (looked->better) {
      best = looked->better->value;
      solution = looked->better->point;
    }
    if (looked->children.empty()) least = std::min(least, looked->bound);
    for (const bmi::Box& child : looked->children) open.push({looked->bound, made++, nodes, child});
    if (tree != nullptr) {
      std::fprintf(tree, "%d\t%d\t%.6f\t%.9g\t%zu\n", nodes, node.parent, took, looked->bound, looked->children.size());
    }
    ++nodes;
  }
  if (tree != nullptr && std::fclose(tree) != 0) {
    std::perror(record);
    return 1;
  }
  if (!open.empty()) least = std::min(least, open.top().bound);
  std::printf("%s: %.6f at %s\n%d nodes, %.1f s; nothing is below %.6f\n", words[1], best, bmi::ToText(solution).c_str(), nodes, Seconds() - began,
              std::min(least, best));
}
