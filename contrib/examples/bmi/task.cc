// One node of the search as a task of a run: it bounds a box, offers a value that is better than the best, and submits the halves of the
// box with their bound. Harrow starts the least bound first, and drops what a better value makes pointless.
//
// usage: bmi-node INSTANCE [--gap G] [BOUND BOX]
//
// The search begins with the whole box, as the first task of the run.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <harrow/client.h>

#include "node.h"

namespace {

int Failed(const std::string& why) {
  std::fprintf(stderr, "bmi-node: %s\n", why.c_str());
  return 1;
}

}  // namespace

int main(int count, char** words) {
  double gap = 0.05;
  int at = 2;
  if (count > 3 && std::strcmp(words[2], "--gap") == 0) {
    gap = std::atof(words[3]);
    at = 4;
  }
  const auto instance = count > 1 ? bmi::Instance::Named(words[1]) : std::nullopt;
  if (!instance || (count != at && count != at + 2)) return Failed("usage: bmi-node INSTANCE [--gap G] [BOUND BOX]");
  const double bound = count > at ? std::atof(words[at]) : -INFINITY;
  const auto box = count > at ? bmi::BoxOf(words[at + 1], *instance) : instance->Whole();
  if (!box) return Failed("no box: " + std::string(words[at + 1]));

  auto run = harrow::client::Run::Open();
  if (!run) return Failed(run.error().message);
  const auto known = run->BestValue();
  if (!known && known.error().code != harrow::client::Code::kNone) return Failed(known.error().message);
  const auto looked = bmi::Look(*instance, *box, bound, known ? known->value : INFINITY, gap);
  if (!looked) return Failed("the semidefinite program was not solved");
  if (looked->better) {
    const auto offered = run->Offer(looked->better->value, bmi::ToText(looked->better->point));
    if (!offered) return Failed(offered.error().message);
  }
  for (const bmi::Box& child : looked->children) {
    char known_bound[40];
    std::snprintf(known_bound, sizeof known_bound, "%.17g", looked->bound);
    std::vector<std::string> arguments{std::filesystem::read_symlink("/proc/self/exe"), words[1], "--gap", std::to_string(gap), known_bound, bmi::ToText(child)};
    const auto task = run->Submit({.arguments = std::move(arguments), .bound = looked->bound});
    if (!task) return Failed(task.error().message);
  }
  const auto closed = run->Close();
  return closed ? 0 : Failed(closed.message);
}
