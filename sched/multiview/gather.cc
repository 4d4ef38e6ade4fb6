#include "multiview/gather.h"

#include <algorithm>
#include <cstring>

namespace harrow::multiview {

std::vector<std::byte> GatherBytes(const internal::Team& team, std::span<const std::byte> mine, std::int64_t at_once) {
  const auto processes = static_cast<std::size_t>(team.size());
  const auto size = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> sizes(processes), ends(processes);
  MPI_Allgather(&size, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, team.comm());
  std::vector<int> counts(processes), places(processes);
  // Of everyone's what follows the first `done` bytes, `share` at most.
  const auto gather = [&](std::int64_t done, std::int64_t share) {
    int length = 0;
    for (std::size_t p = 0; p < processes; ++p) {
      counts[p] = static_cast<int>(std::clamp<std::int64_t>(sizes[p] - done, 0, share));
      places[p] = length;
      length += counts[p];
    }
    std::vector<std::byte> got(static_cast<std::size_t>(length));
    MPI_Allgatherv(mine.data() + std::min(done, size), counts[static_cast<std::size_t>(team.rank())], MPI_BYTE, got.data(),
                   counts.data(), places.data(), MPI_BYTE, team.comm());
    return got;
  };
  std::int64_t total = 0, largest = 0;
  for (std::size_t p = 0; p < processes; ++p) {
    ends[p] = total;
    total += sizes[p];
    largest = std::max(largest, sizes[p]);
  }
  if (total <= at_once) return gather(0, largest);
  std::vector<std::byte> all(static_cast<std::size_t>(total));
  const std::int64_t share = std::max<std::int64_t>(at_once / team.size(), 1);
  for (std::int64_t done = 0; done < largest; done += share) {
    const std::vector<std::byte> some = gather(done, share);
    for (std::size_t p = 0; p < processes; ++p) {
      std::memcpy(all.data() + ends[p], some.data() + places[p], static_cast<std::size_t>(counts[p]));
      ends[p] += counts[p];
    }
  }
  return all;
}

}  // namespace harrow::multiview
