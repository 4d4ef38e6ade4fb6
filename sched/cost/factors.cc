#include "cost/factors.h"

#include <algorithm>
#include <cmath>

namespace harrow::cost {
namespace {

// So many of a node's last tasks count, more or less.
constexpr double kLastTasks = 12;
// The first tasks of a program say little of a node: with them the program's factor is learnt.
constexpr uint64_t kFirstTasks = 2;
// Of a normal distribution: what is farther from its mean is no chance.
constexpr double kDeviations = 2.5;
constexpr double kMostSpeed = 20;

}  // namespace

void Factors::Learn(uint32_t program, uint32_t node, double units, double seconds) {
  if (!(units > 0) || !(seconds > 0)) return;
  if (program >= programs_.size()) programs_.resize(program + 1);
  if (node >= nodes_.size()) nodes_.resize(node + 1);
  Program& of = programs_[program];
  if (of.ended >= kFirstTasks) {
    // What the node does, beside what an average one would.
    const double said =
        std::clamp(std::log(units * (of.seconds / of.units) / seconds), -std::log(kMostSpeed), std::log(kMostSpeed));
    Node& at = nodes_[node];
    const double off = said - at.log;
    if (at.weight == 0) ++known_;
    at.weight = std::min(kLastTasks, at.weight + 1);
    at.log += off / at.weight;
    logs_ += off / at.weight;
    if (at.weight > 2) {
      scatter_weight_ = std::min(8 * kLastTasks, scatter_weight_ + 1);
      scatter_ += (off * off - scatter_) / scatter_weight_;
    }
  }
  of.units += units;
  of.seconds += seconds * speed(node);
  ++of.ended;
}

void Factors::Know(uint32_t program, double tasks, double units, double seconds, double out_units, double bytes) {
  if (program >= programs_.size()) programs_.resize(program + 1);
  Program& of = programs_[program];
  if (units > 0 && seconds > 0) {
    of.units += tasks * units;
    of.seconds += tasks * seconds;
    of.ended = std::max(of.ended, kFirstTasks);
  }
  if (out_units > 0 && bytes >= 0) {
    of.out_units += tasks * out_units;
    of.bytes += tasks * bytes;
  }
}

void Factors::LearnBytes(uint32_t program, double units, double bytes) {
  if (!(units > 0) || !(bytes >= 0)) return;
  if (program >= programs_.size()) programs_.resize(program + 1);
  programs_[program].out_units += units;
  programs_[program].bytes += bytes;
}

double Factors::bytes_a_unit(uint32_t program) const {
  if (program < programs_.size() && programs_[program].out_units > 0)
    return programs_[program].bytes / programs_[program].out_units;
  double logs = 0, count = 0;
  for (const Program& each : programs_) {
    if (each.bytes <= 0) continue;
    logs += std::log(each.bytes / each.out_units / expected_bytes_);
    count += 1;
  }
  return count == 0 ? expected_bytes_ : expected_bytes_ * std::exp(logs / count);
}

double Factors::seconds_a_unit(uint32_t program) const {
  if (program < programs_.size() && programs_[program].ended > 0)
    return programs_[program].seconds / programs_[program].units;
  double logs = 0, count = 0;
  for (const Program& each : programs_) {
    if (each.ended == 0) continue;
    logs += std::log(each.seconds / each.units / expected_);
    count += 1;
  }
  return count == 0 ? expected_ : expected_ * std::exp(logs / count);
}

double Factors::speed(uint32_t node) const {
  if (node >= nodes_.size() || nodes_[node].weight < 3) return 1;
  const Node& at = nodes_[node];
  const double chance = kDeviations * std::sqrt(scatter_ / at.weight) + 0.05;
  const double log = at.log - logs_ / known_;
  return std::abs(log) <= chance ? 1 : std::exp(log);
}

}  // namespace harrow::cost
