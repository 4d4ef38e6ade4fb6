#include "multiview/gather.h"

#include <algorithm>
#include <cstring>

namespace harrow::multiview {

std::vector<std::byte> GatherBytes(const internal::Team& team, std::span<const std::byte> mine, std::int64_t at_once) {
  const auto processes = static_cast<std::size_t>(team.size());
  const auto size = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> sizes(processes), begins(processes);
  MPI_Allgather(&size, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, team.comm());
  std::int64_t total = 0, largest = 0;
  for (std::size_t p = 0; p < processes; ++p) {
    begins[p] = total;
    total += sizes[p];
    largest = std::max(largest, sizes[p]);
  }
  std::vector<std::byte> all(static_cast<std::size_t>(total)), some;
  const std::int64_t share = total <= at_once ? std::max<std::int64_t>(largest, 1)
                                              : std::max<std::int64_t>(at_once / static_cast<std::int64_t>(processes), 1);
  std::vector<int> counts(processes), places(processes);
  for (std::int64_t done = 0; done < largest; done += share) {
    int length = 0;
    for (std::size_t p = 0; p < processes; ++p) {
      counts[p] = static_cast<int>(std::clamp<std::int64_t>(sizes[p] - done, 0, share));
      places[p] = length;
      length += counts[p];
    }
    const bool whole = share >= largest;
    if (!whole) some.resize(static_cast<std::size_t>(length));
    const int own = counts[static_cast<std::size_t>(team.rank())];
    MPI_Allgatherv(own > 0 ? mine.data() + done : nullptr, own, MPI_BYTE, whole ? all.data() : some.data(), counts.data(),
                   places.data(), MPI_BYTE, team.comm());
    for (std::size_t p = 0; p < processes && !whole; ++p) {
      if (counts[p] > 0) std::memcpy(all.data() + begins[p] + done, some.data() + places[p], static_cast<std::size_t>(counts[p]));
    }
  }
  return all;
}

}  // namespace harrow::multiview
