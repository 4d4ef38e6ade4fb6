#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace harrow::cost {

/// What is learnt from tasks that have ended: seconds a unit of each program, one factor each, and how fast
/// nodes are beside each other. A node's speed counts only where it is more than chance: the tasks of a
/// program differ from its model as well.
class Factors {
 public:
  /// What is expected as long as nothing is known.
  Factors(double seconds_a_unit, double bytes_a_unit)
      : expected_(seconds_a_unit), expected_bytes_(bytes_a_unit) {}

  /// A task of that program and of so many units (more than 0) took so many seconds on the node.
  void Learn(uint32_t program, uint32_t node, double units, double seconds);
  /// So many tasks of that program took so many seconds for so many units, on average, and wrote so many bytes (below 0: not known) for
  /// so many units of output, in another run.
  void Know(uint32_t program, double tasks, double units, double seconds, double out_units, double bytes);
  /// One of that program, and of so many units of output, wrote so many bytes.
  void LearnBytes(uint32_t program, double units, double bytes);
  /// Of a program of which none has ended: as those of others on average (their geometric mean).
  double seconds_a_unit(uint32_t program) const;
  /// The same of output.
  double bytes_a_unit(uint32_t program) const;
  /// Of 1, an average node's.
  double speed(uint32_t node) const;
  size_t memory() const { return programs_.capacity() * sizeof(Program) + nodes_.capacity() * sizeof(Node); }

 private:
  struct Program {
    double units = 0, seconds = 0;  // seconds: as on a node of speed 1
    uint64_t ended = 0;
    double out_units = 0, bytes = 0;
  };
  struct Node {
    double log = 0;     // of its speed: the mean of what its last tasks say
    double weight = 0;  // of how many
  };

  double expected_, expected_bytes_;
  std::vector<Program> programs_;
  std::vector<Node> nodes_;
  double logs_ = 0, known_ = 0;              // their sum, and of how many nodes
  double scatter_ = 0, scatter_weight_ = 0;  // of what tasks say, squared
};

}  // namespace harrow::cost
