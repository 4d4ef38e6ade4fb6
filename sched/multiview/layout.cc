#include "multiview/layout.h"

namespace harrow::multiview {

Result<Grid> Grid::Make(std::span<const Index> shape, const Cuts& cuts, const char* call, const char* what) {
  const auto fail = [&](const std::string& why) { return Status(Code::kInvalid, std::string(call) + ": " + why); };
  if (cuts.size() != shape.size()) {
    return fail(std::string(what) + " has " + std::to_string(cuts.size()) + " entries, the store " +
                std::to_string(shape.size()) + " dimensions");
  }
  Indices blocks(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    blocks[d] = cuts[d] == kAll ? shape[d] : cuts[d] == kNone ? 1 : cuts[d].value();
    if (blocks[d] < 1 || blocks[d] > shape[d]) {
      return fail(std::string(what) + " asks for " + std::to_string(blocks[d]) + " blocks in dimension " + std::to_string(d) +
                  ", which has " + std::to_string(shape[d]) + " elements; from 1 to " + std::to_string(shape[d]) +
                  " are possible");
    }
  }
  return Grid(Indices(shape), std::move(blocks));
}

Grid::Grid(Indices shape, Indices blocks)
    : shape_(std::move(shape)), blocks_(std::move(blocks)), smaller_(shape_.size()), larger_(shape_.size()) {
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    smaller_[d] = shape_[d] / blocks_[d];
    larger_[d] = shape_[d] % blocks_[d];
  }
}

Index Grid::count() const {
  Index v = 1;
  for (Index b : blocks_) v *= b;
  return v;
}

Box Grid::Elements(const Box& of_blocks) const {
  Box box{Indices(shape_.size()), Indices(shape_.size())};
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    box.lo[d] = Start(d, of_blocks.lo[d]);
    box.n[d] = Start(d, of_blocks.lo[d] + of_blocks.n[d]) - box.lo[d];
  }
  return box;
}

Box Grid::Blocks(const Box& elements) const {
  Box box{Indices(shape_.size()), Indices(shape_.size())};
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    box.lo[d] = Holding(d, elements.lo[d]);
    box.n[d] = Holding(d, elements.lo[d] + elements.n[d] - 1) - box.lo[d] + 1;
  }
  return box;
}

Layout::Layout(Grid grid, int processes, std::vector<int> role_of_process)
    : grid_(std::move(grid)),
      processes_(processes),
      count_(grid_.count()),
      fewer_(count_ / processes),
      longer_(count_ % processes),
      inner_(grid_.blocks().size(), 1),
      role_of_process_(std::move(role_of_process)) {
  for (std::size_t d = inner_.size(); d-- > 1;) inner_[d - 1] = inner_[d] * grid_.blocks()[d];
  if (std::is_sorted(role_of_process_.begin(), role_of_process_.end())) role_of_process_.clear();  // each has its own
  process_of_role_.resize(role_of_process_.size());
  for (std::size_t p = 0; p < role_of_process_.size(); ++p) process_of_role_[role_of_process_[p]] = static_cast<int>(p);
}

int Layout::RoleOfBlock(Index block) const {
  const Index q = fewer_, r = longer_;
  return static_cast<int>(block < r * (q + 1) ? block / (q + 1) : r + (block - r * (q + 1)) / q);
}

int Layout::Owner(std::span<const Index> at) const {
  Index block = 0;
  for (std::size_t d = 0; d < at.size(); ++d) block += grid_.Holding(d, at[d]) * inner_[d];
  return ProcessOf(RoleOfBlock(block));
}

std::vector<Box> Layout::Boxes(int process) const {
  const int role = RoleOf(process);
  std::vector<Box> boxes;
  AppendRange(grid_.blocks(), FirstBlock(role), FirstBlock(role + 1), &boxes);
  for (Box& box : boxes) box = grid_.Elements(box);
  return boxes;
}

Index Layout::Volume(int process) const {
  Index v = 0;
  for (const Box& box : Boxes(process)) v += box.volume();
  return v;
}

// Block 0 is a largest one and role 0 has most blocks; with several blocks a role, this bounds every role's volume.
Index Layout::LargestVolume() const {
  Index block = 1;
  for (std::size_t d = 0; d < inner_.size(); ++d) block *= grid_.Start(d, 1);
  return block * FirstBlock(1);
}

void Layout::Visit(const Box& blocks, std::size_t d, Index before, const std::function<void(int)>& visit) const {
  // First and last block below each index of dimension d, relative to that index's first.
  Index low = 0, high = 0;
  for (std::size_t e = d + 1; e < inner_.size(); ++e) {
    low += blocks.lo[e] * inner_[e];
    high += (blocks.lo[e] + blocks.n[e] - 1) * inner_[e];
  }
  const Index end = blocks.lo[d] + blocks.n[d];
  for (Index i = blocks.lo[d]; i < end;) {
    const int role = RoleOfBlock(before + i * inner_[d] + low);
    const Index last_block = FirstBlock(role + 1) - 1;
    // As many indices as lie wholly in this role.
    const Index next = last_block < before + high ? i : std::min(end, (last_block - before - high) / inner_[d] + 1);
    if (next > i) {
      visit(ProcessOf(role));
      i = next;
    } else {
      Visit(blocks, d + 1, before + i * inner_[d], visit);
      ++i;
    }
  }
}

void Layout::ForEachHolder(const Box& box, const std::function<void(int)>& visit) const {
  Visit(grid_.Blocks(box), 0, 0, visit);
}

std::vector<int> Layout::Holders(const Box& box) const {
  std::vector<int> holders;
  ForEachHolder(box, [&](int p) {
    if (holders.empty() || holders.back() != p) holders.push_back(p);
  });
  std::sort(holders.begin(), holders.end());
  return holders;
}

}  // namespace harrow::multiview
