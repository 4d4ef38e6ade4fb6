#pragma once

#include <mpi.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace reference {

// The paper's rules, element by element and with nothing in common with the library: slow, and plain enough to be trusted.

using Place = std::vector<long>;
constexpr long kAll = -1, kNone = -2;

// The block of one dimension that holds index i: blocks differ by one at most, larger ones first.
long BlockOf(long n, long cut, long i);
// The blocks' coordinates of an element: a task's key when `cuts` is a View.
Place KeyOf(const Place& shape, const std::vector<long>& cuts, const Place& at);
// The process that holds an element: row-major blocks in runs over the processes, larger runs first.
int OwnerOf(const Place& shape, const std::vector<long>& cuts, int processes, const Place& at);
// Every place of an array, in row-major order.
std::vector<Place> Places(const Place& shape);

// What one process holds of an array.
class Array {
 public:
  Array(MPI_Comm comm, Place shape) : comm_(comm), shape_(std::move(shape)) {}
  void Put(const Place& at, std::string value) { elements_[at] = std::move(value); }
  void Remove(const Place& at) { elements_.erase(at); }
  const std::map<Place, std::string>& elements() const { return elements_; }
  // Sends every element to its owner, each for itself; of several for one place that of the highest rank remains.
  void Redistribute(const std::vector<long>& split);
  // For each key of a View the processes that hold elements of it. Collective.
  std::map<Place, std::set<int>> Holders(const std::vector<long>& view) const;

 private:
  MPI_Comm comm_;
  Place shape_;
  std::map<Place, std::string> elements_;
};

}  // namespace reference
