#pragma once

#include <memory>
#include <string>
#include <vector>

#include "multiview/loose.h"
#include "multiview/team.h"

namespace harrow::multiview::internal {

/// What a store holds. The state, and where complete elements lie, is the same on every process.
struct Content {
  enum class State {
    kEmpty,
    kComplete,  // all elements, of fixed size, lie as `layout` says: `dense` holds this process's boxes one after the other
    kLoose,     // any elements anywhere; as `layout` says if it is set
  };
  State state = State::kEmpty;
  std::shared_ptr<const Layout> layout;
  BoxList boxes;
  std::shared_ptr<Segment> dense;
  LooseElements loose;
  bool distinct = true;  // loose: no element is on two processes
};

/// What a load or map adds on this process, before all have agreed to it.
struct Additions {
  std::vector<Entry> entries;
  std::vector<std::shared_ptr<Segment>> memory;  // that entries lie in besides the arena
  Arena arena;
  Status error;  // of the first impossible request
};

class Store {
 public:
  static constexpr int kRankBits = 24;  // of an Entry's order; the others number the calls

  Store(std::shared_ptr<Team> team, std::vector<Index> shape, std::size_t element_bytes, Target target);

  Team& team() const { return *team_; }
  const std::shared_ptr<Team>& shared_team() const { return team_; }
  const std::vector<Index>& shape() const { return shape_; }
  std::size_t element_bytes() const { return element_bytes_; }
  Target target() const { return target_; }
  const Split& split() const { return split_; }
  const std::shared_ptr<const Layout>& declared() const { return declared_; }
  Content& content() { return content_; }
  Index volume() const { return volume_; }

  /// "call: ..." if the library may not be called now.
  Status Callable(const char* call) const;
  Status CheckPlace(const char* call, Coordinates at) const;
  Status CheckElement(const char* call, Coordinates at, std::size_t size) const;

  Status SetSplit(const Split& split, Placement placement);
  Status Redistribute();                                           // redistribute.cc
  Status LoadParallel(const LoadFunction& load);                   // load.cc
  MapResult Map(Store* output, const MapFunction& task, const View& view);  // map.cc
  Status Put(Coordinates at, const void* bytes, std::size_t size);
  Result<std::vector<std::byte>> Get(Coordinates at);
  Status Remove(Coordinates at);
  Result<Index> Count();
  Status ForEach(const std::function<void(const Element&)>& visit);
  Elements Local();
  void Clear() { content_ = {}; }
  Status Sync();

  /// Memory for the boxes of this process under `layout`.
  Result<std::shared_ptr<Segment>> AllocateBoxes(const BoxList& boxes) const;
  Additions NewAdditions() const { return {{}, {}, Arena(&team_->memory(), target_), {}}; }
  /// Notes an element to be added; in `additions`, not in the store. Entries of different groups remain apart.
  Status Note(Additions* additions, const char* call, Coordinates at, const void* bytes, std::size_t size,
              std::uint64_t group = 0) const;
  /// Takes over what is added on this process. Local.
  void Adopt(std::vector<Entry> added, Additions* additions);
  /// Adds what every process has noted; what was there before is replaced. Collective. The caller's flags are or-ed over all
  /// processes on the way; if any is set, nothing is added and `additions` remain as they are.
  Status Commit(Additions* additions, std::uint64_t* flags_of_caller);
  /// Complete contents become loose ones, in the same memory. Local; all processes must do it.
  void Loosen();
  /// The complete form of entries that cover this process's boxes exactly. Local.
  Result<Content> Densified(const std::shared_ptr<const Layout>& layout, const std::vector<Entry>& entries) const;
  std::uint64_t NextOrder() { return (++calls_ << kRankBits) | static_cast<std::uint32_t>(team_->rank()); }
  void Become(Content content, std::uint64_t calls) {
    content_ = std::move(content);
    calls_ = calls;
  }
  std::uint64_t calls() const { return calls_; }
  /// The fragments of this process's elements within `box` (complete contents), or of loose entries first .. last - 1.
  void AddDenseFragments(const Box& box, std::vector<Fragment>* fragments) const;
  void AddLooseFragments(std::span<const Entry> entries, std::vector<Fragment>* fragments) const;

 private:
  Status RedistributeComplete(const std::shared_ptr<const Layout>& target);
  Status RedistributeLoose(const std::shared_ptr<const Layout>& target);
  Result<bool> ScatterIntoPlace(const std::shared_ptr<const Layout>& target, Content* result);
  Status ScatterLoosely(const std::shared_ptr<const Layout>& target, Content* result);
  Status PutLoosely(Coordinates at, const void* bytes, std::size_t size);
  std::byte* Place(Coordinates at) const;  // complete contents, on the owner
  int HolderOf(Coordinates at);

  std::shared_ptr<Team> team_;
  std::vector<Index> shape_;
  std::size_t element_bytes_;
  Target target_;
  Index volume_ = 1;
  Split split_;
  Placement placement_ = Placement::kInOrder;
  std::shared_ptr<const Layout> declared_;  // blocks in order
  Content content_;
  std::uint64_t calls_ = 0;
};

}  // namespace harrow::multiview::internal
