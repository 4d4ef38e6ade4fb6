#include "reference.h"

#include <cstring>

namespace reference {
namespace {

long BlocksIn(long n, long cut) { return cut == kAll ? n : cut == kNone ? 1 : cut; }

// Each process sends one string to every other; returns what came, by rank.
std::vector<std::string> Exchange(MPI_Comm comm, const std::vector<std::string>& out) {
  int size;
  MPI_Comm_size(comm, &size);
  std::vector<int> out_sizes(size), in_sizes(size), out_begin(size), in_begin(size);
  std::string all_out;
  for (int p = 0; p < size; ++p) {
    out_sizes[p] = static_cast<int>(out[p].size());
    out_begin[p] = static_cast<int>(all_out.size());
    all_out += out[p];
  }
  MPI_Alltoall(out_sizes.data(), 1, MPI_INT, in_sizes.data(), 1, MPI_INT, comm);
  int total = 0;
  for (int p = 0; p < size; ++p) {
    in_begin[p] = total;
    total += in_sizes[p];
  }
  std::string all_in(total, '\0');
  MPI_Alltoallv(all_out.data(), out_sizes.data(), out_begin.data(), MPI_CHAR, all_in.data(), in_sizes.data(), in_begin.data(),
                MPI_CHAR, comm);
  std::vector<std::string> in;
  for (int p = 0; p < size; ++p) in.push_back(all_in.substr(in_begin[p], in_sizes[p]));
  return in;
}

}  // namespace

long BlockOf(long n, long cut, long i) {
  const long blocks = BlocksIn(n, cut);
  long begin = 0;
  for (long b = 0;; ++b) {
    begin += n / blocks + (b < n % blocks ? 1 : 0);
    if (i < begin) return b;
  }
}

Place KeyOf(const Place& shape, const std::vector<long>& cuts, const Place& at) {
  Place key;
  for (std::size_t d = 0; d < shape.size(); ++d) key.push_back(BlockOf(shape[d], cuts[d], at[d]));
  return key;
}

int OwnerOf(const Place& shape, const std::vector<long>& cuts, int processes, const Place& at) {
  long block = 0, blocks = 1;
  const Place key = KeyOf(shape, cuts, at);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    block = block * BlocksIn(shape[d], cuts[d]) + key[d];
    blocks *= BlocksIn(shape[d], cuts[d]);
  }
  return static_cast<int>(blocks <= processes ? block : BlockOf(blocks, processes, block));
}

std::vector<Place> Places(const Place& shape) {
  std::vector<Place> places{{}};
  for (long n : shape) {
    std::vector<Place> longer;
    for (const Place& place : places) {
      for (long i = 0; i < n; ++i) {
        longer.push_back(place);
        longer.back().push_back(i);
      }
    }
    places = std::move(longer);
  }
  return places;
}

void Array::Redistribute(const std::vector<long>& split) {
  int size;
  MPI_Comm_size(comm_, &size);
  std::vector<std::string> out(size);
  for (const auto& [at, value] : elements_) {
    std::string& to = out[OwnerOf(shape_, split, size, at)];
    const long bytes = static_cast<long>(value.size());
    to.append(reinterpret_cast<const char*>(at.data()), at.size() * sizeof(long));
    to.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
    to += value;
  }
  elements_.clear();
  for (const std::string& in : Exchange(comm_, out)) {
    for (std::size_t i = 0; i < in.size();) {
      Place at(shape_.size());
      std::memcpy(at.data(), in.data() + i, at.size() * sizeof(long));
      i += at.size() * sizeof(long);
      long bytes;
      std::memcpy(&bytes, in.data() + i, sizeof bytes);
      i += sizeof bytes;
      elements_[at] = in.substr(i, bytes);
      i += bytes;
    }
  }
}

std::map<Place, std::set<int>> Array::Holders(const std::vector<long>& view) const {
  int size;
  MPI_Comm_size(comm_, &size);
  std::set<Place> keys;
  for (const auto& [at, value] : elements_) keys.insert(KeyOf(shape_, view, at));
  std::string mine;
  for (const Place& key : keys) mine.append(reinterpret_cast<const char*>(key.data()), key.size() * sizeof(long));
  const auto all = Exchange(comm_, std::vector<std::string>(size, mine));
  std::map<Place, std::set<int>> holders;
  for (int p = 0; p < size; ++p) {
    for (std::size_t i = 0; i < all[p].size(); i += shape_.size() * sizeof(long)) {
      Place key(shape_.size());
      std::memcpy(key.data(), all[p].data() + i, key.size() * sizeof(long));
      holders[key].insert(p);
    }
  }
  return holders;
}

}  // namespace reference
