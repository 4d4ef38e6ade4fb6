#include "multiview/plan.h"

namespace harrow::multiview {

std::vector<Piece> Common(const BoxSpan& from, const BoxSpan& to) {
  std::vector<Piece> pieces;
  Box part;
  for (std::size_t f = 0; f < from.boxes.size(); ++f) {
    for (std::size_t t = 0; t < to.boxes.size(); ++t) {
      if (!Intersect(from.boxes[f], to.boxes[t], &part)) continue;
      pieces.push_back({static_cast<int>(f), static_cast<int>(t), std::move(part)});
    }
  }
  return pieces;
}

namespace {

// Ascending, each once.
std::vector<int> HoldersOf(const BoxSpan& mine, const Layout& other) {
  std::vector<int> found;
  for (const Box& box : mine.boxes) {
    other.ForEachHolder(box, [&](int p) {
      if (found.empty() || found.back() != p) found.push_back(p);
    });
  }
  if (!std::is_sorted(found.begin(), found.end())) std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// Without `process`; its neighbour comes first: not everyone shall turn to process 0 at once.
std::vector<int> InTurn(std::vector<int> ascending, int process, bool upwards) {
  std::erase(ascending, process);
  std::rotate(ascending.begin(), std::lower_bound(ascending.begin(), ascending.end(), process), ascending.end());
  if (!upwards) std::reverse(ascending.begin(), ascending.end());
  return ascending;
}

}  // namespace

BoxList::BoxList(std::vector<Box> list) : boxes(std::move(list)) {
  first.reserve(boxes.size());
  for (const Box& box : boxes) {
    first.push_back(volume);
    volume += box.volume();
  }
}

Plan::Plan(const Layout& from_layout, const Layout& to_layout, int process)
    : from_(from_layout.Boxes(process)),
      to_(to_layout.Boxes(process)),
      send_(InTurn(HoldersOf(from_, to_layout), process, true)),
      receive_(InTurn(HoldersOf(to_, from_layout), process, false)),
      keep_(Common(from_, to_)) {}

std::vector<Piece> Within(std::span<const Piece> pieces, const BoxSpan& from, Index first, Index last) {
  std::vector<std::vector<Box>> slabs(from.boxes.size());
  for (std::size_t b = 0; b < from.boxes.size(); ++b) {
    const Box& box = from.boxes[b];
    const Index begin = std::max<Index>(first - from.first[b], 0);
    const Index end = std::min(last - from.first[b], box.volume());
    if (begin >= end) continue;
    AppendRange(box.n, begin, end, &slabs[b]);
    for (Box& slab : slabs[b]) {
      for (std::size_t d = 0; d < slab.lo.size(); ++d) slab.lo[d] += box.lo[d];
    }
  }
  std::vector<Piece> within;
  Box part;
  for (const Piece& piece : pieces) {
    for (const Box& slab : slabs[piece.from]) {
      if (Intersect(piece.part, slab, &part)) within.push_back({piece.from, piece.to, part});
    }
  }
  return within;
}

namespace {

struct Overlap {
  Index elements;
  int process, role;
};

std::vector<Overlap> Overlaps(const Layout& from, const Layout& to) {
  std::vector<Overlap> overlaps;
  for (int p = 0; p < from.processes(); ++p) {
    const BoxList mine(from.Boxes(p));
    for (int role : HoldersOf(mine, to)) {
      Index elements = 0;
      for (const Piece& piece : Common(mine, BoxList(to.Boxes(role)))) elements += piece.part.volume();
      overlaps.push_back({elements, p, role});
    }
  }
  return overlaps;
}

// Largest overlaps first; of equal ones those that leave the process where it is.
std::vector<int> Greedy(std::vector<Overlap> overlaps, int n) {
  std::stable_sort(overlaps.begin(), overlaps.end(), [](const Overlap& a, const Overlap& b) {
    if (a.elements != b.elements) return a.elements > b.elements;
    return (a.process == a.role) > (b.process == b.role);
  });
  std::vector<int> role_of(n, -1), process_of(n, -1);
  for (const Overlap& o : overlaps) {
    if (role_of[o.process] >= 0 || process_of[o.role] >= 0) continue;
    role_of[o.process] = o.role;
    process_of[o.role] = o.process;
  }
  int free_role = 0;
  for (int p = 0; p < n; ++p) {
    if (role_of[p] >= 0) continue;
    while (process_of[free_role] >= 0) ++free_role;
    role_of[p] = free_role;
    process_of[free_role] = p;
  }
  return role_of;
}

// The Hungarian method with shortest augmenting paths (R. Jonker and A. Volgenant, Computing 38, 1987), O(n^3).
std::vector<int> Exact(const std::vector<Overlap>& overlaps, int n) {
  std::vector<Index> cost(static_cast<std::size_t>(n) * n, 0);
  for (const Overlap& o : overlaps) cost[static_cast<std::size_t>(o.process) * n + o.role] = -o.elements;
  constexpr Index kFar = INT64_MAX / 2;
  std::vector<Index> u(n + 1), v(n + 1);
  std::vector<int> row_of(n + 1), way(n + 1);  // 1-based; column 0 is where a new row starts
  for (int row = 1; row <= n; ++row) {
    row_of[0] = row;
    int column = 0;
    std::vector<Index> distance(n + 1, kFar);
    std::vector<char> done(n + 1);
    do {
      done[column] = 1;
      const int r = row_of[column];
      Index least = kFar;
      int next = 0;
      for (int c = 1; c <= n; ++c) {
        if (done[c]) continue;
        const Index reduced = cost[static_cast<std::size_t>(r - 1) * n + (c - 1)] - u[r] - v[c];
        if (reduced < distance[c]) {
          distance[c] = reduced;
          way[c] = column;
        }
        if (distance[c] < least) {
          least = distance[c];
          next = c;
        }
      }
      for (int c = 0; c <= n; ++c) {
        if (done[c]) {
          u[row_of[c]] += least;
          v[c] -= least;
        } else {
          distance[c] -= least;
        }
      }
      column = next;
    } while (row_of[column] != 0);
    while (column != 0) {
      row_of[column] = row_of[way[column]];
      column = way[column];
    }
  }
  std::vector<int> role_of(n);
  for (int c = 1; c <= n; ++c) role_of[row_of[c] - 1] = c - 1;
  return role_of;
}

}  // namespace

std::vector<int> LeastMovedRoles(const Layout& from, const Grid& to) {
  const int n = from.processes();
  const std::vector<Overlap> overlaps = Overlaps(from, Layout(to, n));
  return n <= kExactProcesses ? Exact(overlaps, n) : Greedy(overlaps, n);
}

}  // namespace harrow::multiview
