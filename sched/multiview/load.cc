#include <cstring>

#include "multiview/guard.h"
#include "multiview/store.h"

namespace harrow::multiview::internal {

class LoadRun {
 public:
  explicit LoadRun(Store* store) : store_(store), additions_(store->NewAdditions()) {}

  Status Put(Coordinates at, const void* bytes, std::size_t size) {
    return Fail(Guarded("load_parallel: put",
                        [&] { return store_->Note(&additions_, "load_parallel: put", at, bytes, size); }));
  }
  Status PutBlock(Coordinates origin, Coordinates extent, const void* elements);
  Result<Elements> Block();
  Status Commit(Status status);

  /// Notes what went wrong: the load fails even if the load function does not look at it.
  Status Fail(Status s) {
    if (!s.ok() && additions_.error.ok()) additions_.error = s;
    return s;
  }

 private:
  bool InPlace() const {
    const Content& content = store_->content();
    return content.state == Content::State::kComplete && *content.layout == *store_->declared();
  }

  Store* store_;
  Additions additions_;
  std::shared_ptr<Segment> block_;
  BoxList boxes_;
};

Status LoadRun::PutBlock(Coordinates origin, Coordinates extent, const void* elements) {
  constexpr const char* kCall = "load_parallel: put_block";
  const std::size_t bytes = store_->element_bytes();
  if (bytes == 0) return Fail(Status(Code::kInvalid, std::string(kCall) + ": the store's elements have sizes of their own"));
  if (Status s = store_->CheckPlace(kCall, origin); !s.ok()) return Fail(s);
  if (extent.size() != origin.size()) return Fail(Status(Code::kInvalid, std::string(kCall) + ": extent of other dimensions"));
  Box box{Indices(origin), Indices(extent)};
  for (std::size_t d = 0; d < extent.size(); ++d) {
    if (extent[d] < 0) return Fail(Status(Code::kInvalid, std::string(kCall) + ": negative extent"));
  }
  if (std::find(extent.begin(), extent.end(), 0) != extent.end()) return {};
  for (std::size_t d = 0; d < extent.size(); ++d) {
    if (extent[d] > store_->shape()[d] - origin[d]) {
      return Fail(Status(Code::kInvalid, std::string(kCall) + ": " + std::to_string(extent[d]) + " elements from " +
                                             std::to_string(origin[d]) + " on in dimension " + std::to_string(d) +
                                             ", which has " + std::to_string(store_->shape()[d])));
    }
  }
  // Entries that point into the caller's array, in the order of its memory.
  const auto* data = static_cast<const std::byte*>(elements);
  BoxList one(std::vector<Box>{box});
  for (const Entry& e : BoxesAsEntries(one, store_->shape(), const_cast<std::byte*>(data), bytes, 0)) {
    if (Status s = Append(&additions_.arena, &additions_.entries, e.index, e.count, 0, e.data, e.bytes, true); !s.ok()) {
      return Fail(s);
    }
  }
  return {};
}

Result<Elements> LoadRun::Block() {
  const auto fail = [&](const char* why) { return Fail(Status(Code::kInvalid, std::string("load_parallel: block: ") + why)); };
  if (store_->element_bytes() == 0) return fail("the store's elements have sizes of their own");
  if (InPlace()) return store_->Local();
  if (store_->content().state != Content::State::kEmpty) {
    return fail("the store has elements that do not lie as its Split says");
  }
  if (!block_) {
    boxes_ = BoxList(store_->declared()->Boxes(store_->team().rank()));
    auto block = store_->AllocateBoxes(boxes_);
    if (!block) return Fail(block.status());
    block_ = std::move(*block);
  }
  std::vector<Fragment> fragments;
  for (std::size_t b = 0; b < boxes_.boxes.size(); ++b) {
    const Box& box = boxes_.boxes[b];
    Fragment f;
    f.origin.assign(box.lo.begin(), box.lo.end());
    f.extent.assign(box.n.begin(), box.n.end());
    f.stride.resize(box.n.size());
    f.element_bytes = store_->element_bytes();
    std::ptrdiff_t step = static_cast<std::ptrdiff_t>(f.element_bytes);
    for (std::size_t d = box.n.size(); d-- > 0; step *= box.n[d]) f.stride[d] = step;
    f.data = block_->data() + static_cast<std::size_t>(boxes_.first[b]) * f.element_bytes;
    fragments.push_back(std::move(f));
  }
  return Elements(std::move(fragments));
}

Status LoadRun::Commit(Status status) {
  constexpr std::uint64_t kFailed = 1, kBlock = 2, kOthers = 4, kNoBlock = 8;
  if (!additions_.error.ok()) status = additions_.error;
  const bool empty = store_->content().state == Content::State::kEmpty;
  // So that a process whose part is empty need not ask for it. Without memory even for that, it will be told if it is needed.
  if (empty && !block_ && store_->declared()->Volume(store_->team().rank()) == 0) {
    if (auto block = store_->AllocateBoxes(boxes_)) block_ = std::move(*block);
  }
  std::uint64_t flags = status.ok() ? 0 : kFailed;
  if (block_ && boxes_.volume > 0) flags |= kBlock;
  if (!block_) flags |= kNoBlock;
  if (!additions_.entries.empty()) flags |= kOthers;
  const Vote vote = store_->team().Agree({flags, 0});
  if (vote.flags & kFailed) return store_->team().FirstError(status);
  if ((vote.flags & kBlock) && !(vote.flags & (kOthers | kNoBlock))) {
    Content content;
    content.state = Content::State::kComplete;
    content.layout = store_->declared();
    content.boxes = boxes_;
    content.dense = block_;
    store_->Become(std::move(content), store_->calls());
    return {};
  }
  if (!(vote.flags & (kBlock | kOthers))) return {};
  if (block_) {
    // Single elements take precedence over the block.
    for (Entry& e : additions_.entries) ++e.sequence;
    const auto block = BoxesAsEntries(boxes_, store_->shape(), block_->data(), store_->element_bytes(), 0);
    additions_.entries.insert(additions_.entries.end(), block.begin(), block.end());
    additions_.memory.push_back(block_);
  }
  std::uint64_t none = 0;
  return store_->Commit(&additions_, &none);
}

Status Store::LoadParallel(const LoadFunction& load) {
  if (Status s = Callable("load_parallel"); !s.ok()) return s;
  LoadRun run(this);
  Loader loader(&run);
  team_->in_task = true;
  int code = 0;
  Status status = Caught("load_parallel", [&] { code = load(loader); });
  team_->in_task = false;
  if (code != 0) {
    status = Status(Code::kTaskFailed, "load_parallel: the load function returned " + std::to_string(code) + " on process " +
                                           std::to_string(team_->rank()));
  }
  return run.Commit(status);
}

}  // namespace harrow::multiview::internal

namespace harrow::multiview {

Status Loader::Put(Coordinates at, const void* bytes, std::size_t size) { return run_->Put(at, bytes, size); }
Status Loader::PutBlock(Coordinates origin, Coordinates extent, const void* elements) {
  return run_->Fail(Guarded("load_parallel: put_block", [&] { return run_->PutBlock(origin, extent, elements); }));
}
Result<Elements> Loader::Block() {
  auto block = Guarded("load_parallel: block", [&] { return run_->Block(); });
  if (!block) (void)run_->Fail(block.status());
  return block;
}

}  // namespace harrow::multiview
