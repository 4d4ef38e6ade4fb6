// Multi-View: multi-dimensional arrays spread over the processes of an MPI program, redistributed to fit each task.
//
// A DataStore is an array of elements (opaque bytes, all of one size or each of its own). A Split says how it is cut into
// blocks that lie on processes, a View how it is cut into what one task sees. Map moves the data to fit the Split, then runs
// every task of the View on the processes that hold its data.
//
// Conventions
// - Coordinates count from 0. The first dimension varies slowest: blocks, elements and memory are in row-major order.
// - Along a dimension blocks differ by at most one element, larger ones first. Blocks in row-major order lie on processes in
//   runs that differ by at most one block, larger ones first; with more processes than blocks the last ones hold nothing.
// - The main program is written as if it were sequential: every process makes the same calls in the same order with the same
//   arguments. Every call of World and DataStore is collective unless its comment says "local".
// - A call that fails changes nothing and returns the same error on every process. No exception leaves the library, but
//   std::bad_alloc from LocalElements and from copying what it returned. A process that is out of memory in the middle of a
//   collective call gets kMemory alone; the others may wait for it, so that it should call MPI_Abort.
// - One thread of a process calls the library (MPI_THREAD_FUNNELED is enough).
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace harrow::multiview {

using Index = std::int64_t;
using Coordinates = std::span<const Index>;

enum class Code {
  kOk,
  kInvalid,     // the call's arguments, or what a task asked for
  kNotFound,    // no element there
  kTaskFailed,  // some tasks failed; MapResult names them
  kMemory,
  kStorage,     // a file on node-local disk: no space, no permission
  kInternal,
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  /// Starts with the name of the call, as in "set_split: 3 entries for a store of 5 dimensions".
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status) : v_(std::in_place_index<1>, std::move(status)) {}
  bool ok() const { return v_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() & { return std::get<0>(v_); }
  const T& operator*() const& { return std::get<0>(v_); }
  T&& operator*() && { return std::get<0>(std::move(v_)); }
  T* operator->() { return &std::get<0>(v_); }
  const T* operator->() const { return &std::get<0>(v_); }
  Status status() const { return ok() ? Status() : std::get<1>(v_); }

 private:
  std::variant<T, Status> v_;
};

/// How one dimension is cut: kAll (every index on its own), kNone (not at all), or a number of blocks.
class Cut {
 public:
  constexpr Cut(Index blocks) : blocks_(blocks) {}  // implicit, so that Split{kAll, 8, 8, 4, 4} reads as the paper writes it
  constexpr Index value() const { return blocks_; }
  friend constexpr bool operator==(Cut, Cut) = default;

 private:
  Index blocks_;
};
inline constexpr Cut kAll{-1};
inline constexpr Cut kNone{-2};

/// One Cut a dimension.
class Cuts {
 public:
  Cuts() = default;
  Cuts(std::initializer_list<Cut> cuts) : cuts_(cuts) {}
  explicit Cuts(std::vector<Cut> cuts) : cuts_(std::move(cuts)) {}
  std::size_t size() const { return cuts_.size(); }
  Cut operator[](std::size_t d) const { return cuts_[d]; }
  friend bool operator==(const Cuts&, const Cuts&) = default;

 private:
  std::vector<Cut> cuts_;
};
class Split : public Cuts {
  using Cuts::Cuts;
};
class View : public Cuts {
  using Cuts::Cuts;
};

/// A rectangular part of an array in memory: the element at origin + i lies at data + sum of i[d] * stride[d].
struct Fragment {
  std::vector<Index> origin;
  std::vector<Index> extent;
  std::vector<std::ptrdiff_t> stride;  // bytes
  std::byte* data = nullptr;
  std::size_t element_bytes = 0;

  Index count() const;
  /// Whether the elements follow each other in memory, in row-major order.
  bool contiguous() const;
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

struct Element {
  Coordinates coordinates;
  std::span<std::byte> bytes;

  template <class T>
  T& as() const {
    return *reinterpret_cast<T*>(bytes.data());
  }
};

/// Elements on this process, in place: writing to their bytes changes the store. Valid while the task runs, or, for
/// DataStore::LocalElements, until the next call on the store.
class Elements {
 public:
  explicit Elements(std::vector<Fragment> fragments) : fragments_(std::move(fragments)) {}
  const std::vector<Fragment>& fragments() const { return fragments_; }
  Index count() const;

  class Iterator {
   public:
    using value_type = Element;
    using difference_type = std::ptrdiff_t;
    Iterator(const std::vector<Fragment>* fragments, std::size_t fragment);
    Element operator*() const { return {at_, {data_, (*fragments_)[fragment_].element_bytes}}; }
    Iterator& operator++();
    bool operator==(const Iterator& o) const { return fragment_ == o.fragment_ && data_ == o.data_; }

   private:
    void Enter();
    const std::vector<Fragment>* fragments_;
    std::size_t fragment_;
    std::vector<Index> at_;
    std::byte* data_ = nullptr;
  };
  Iterator begin() const { return Iterator(&fragments_, 0); }
  Iterator end() const { return Iterator(&fragments_, fragments_.size()); }

 private:
  std::vector<Fragment> fragments_;
};

enum class Target {
  kAutomatic,  // memory, up to WorldOptions::memory_limit, then files
  kMemory,
  kFile,       // a file without a name in WorldOptions::directory, which should be on a node-local disk
};

enum class Placement {
  kInOrder,    // block runs lie on processes in order
  kLeastMoved, // block runs change processes among themselves so that the least data moves
};

struct WorldOptions {
  /// Bytes a process may hold in memory for stores whose target is automatic.
  std::size_t memory_limit = SIZE_MAX;
  std::string directory;  // of files; empty: HARROW_MULTIVIEW_DIR, TMPDIR, /tmp
  /// Freed memory of stores is kept for the next ones, up to this many bytes a process.
  std::size_t keep_bytes = SIZE_MAX;
  /// Redistribution moves the data in so many rounds and frees what has moved after each: 1 is fastest, more need less memory;
  /// at most 4096.
  int rounds = 1;
  /// Read memory of other processes of the node directly where the system allows it; off: everything goes through messages.
  bool direct_reads = true;
  /// At most so many processes are taken for one node; 0: as many as share memory. For tests.
  int node_size = 0;
  /// Largest message that is packed; contiguous data goes in messages of up to 1 GiB. 0: chosen from the data's size.
  std::size_t packed_message_bytes = 0;
};

/// What this process has done for redistribution so far.
struct Statistics {
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;       // in messages
  std::uint64_t bytes_read = 0;       // directly from other processes of the node
  std::uint64_t bytes_copied = 0;     // within this process
  std::uint64_t bytes_kept = 0;       // stayed on this process without being copied
  std::uint64_t plans_made = 0;
  std::uint64_t redistributions = 0;
  std::uint64_t elements_examined = 0;  // one by one, because the layout was not known
  double planning_seconds = 0;
};

namespace internal {
class Team;
class Store;
class TaskRun;
class LoadRun;
}  // namespace internal

/// Block index in each dimension of the View; 0 where it is kNone.
using Key = std::vector<Index>;

struct FailedTask {
  Key key;
  int code = 0;         // what the task returned, or -1 when it threw or asked for something impossible
  std::string message;  // empty, or why
};

/// kTaskFailed when tasks failed; the other tasks' results are in place.
struct MapResult {
  Status status;
  std::vector<FailedTask> failed;  // in order of keys, the same on every process
  bool ok() const { return status.ok(); }
};

class DataStore;

/// The processes that share stores. Collective; ends, collectively, with the last of World and its stores, before MPI_Finalize.
class World {
 public:
  static Result<World> Create(MPI_Comm comm, const WorldOptions& options = {});
  int rank() const;                     // local
  int size() const;                     // local
  const Statistics& statistics() const; // local
  /// Ok if this process reads directly what it needs of other processes of its node; else its message tells why what they
  /// have comes in messages. Local.
  const Status& DirectReads() const;
  /// Gives freed memory back to the system. Local.
  void Trim();

  /// `element_bytes` 0: every element has a size of its own.
  Result<DataStore> CreateStore(std::vector<Index> shape, std::size_t element_bytes, Target target = Target::kAutomatic);

 private:
  friend class DataStore;
  explicit World(std::shared_ptr<internal::Team> team) : team_(std::move(team)) {}
  std::shared_ptr<internal::Team> team_;
};

/// Handed to a load function: this process adds what it has.
class Loader {
 public:
  explicit Loader(internal::LoadRun* run) : run_(run) {}
  Status Put(Coordinates at, const void* bytes, std::size_t size);
  template <class T>
  Status Put(std::initializer_list<Index> at, const T& value) {
    return Put(Coordinates(at.begin(), at.size()), &value, sizeof(T));
  }
  /// The elements origin .. origin + extent - 1, which follow each other in row-major order. Fixed element size only.
  Status PutBlock(Coordinates origin, Coordinates extent, const void* elements);
  /// The store's own memory of this process's part under the declared Split, to be filled in place: nothing is copied. The
  /// store must be empty, or complete under that Split. In an empty one contents start undefined; all of it counts as put. What
  /// is written into a complete one stays, even if the load function fails.
  Result<Elements> Block();

 private:
  internal::LoadRun* run_;
};

/// Handed to a task.
class Task {
 public:
  explicit Task(internal::TaskRun* run) : run_(run) {}
  const Key& key() const;
  /// What of the task's elements lies on this process. Members of a task have disjoint parts.
  const Elements& elements() const;
  /// The processes that hold the task's elements, in order of rank. Not to be freed.
  MPI_Comm comm() const;
  const Split& split() const;
  const View& view() const;
  const std::vector<Index>& shape() const;  // of the input store
  bool has_output() const;
  const std::vector<Index>& shape_of_output() const;  // empty without one
  /// Adds an element to the output store; it stays on this process. It is there when Map has returned, unless the task failed.
  Status Put(Coordinates at, const void* bytes, std::size_t size);
  template <class T>
  Status Put(std::initializer_list<Index> at, const T& value) {
    return Put(Coordinates(at.begin(), at.size()), &value, sizeof(T));
  }

 private:
  internal::TaskRun* run_;
};

/// Returns 0, or another number when it failed. Every process of the task calls it.
using MapFunction = std::function<int(Task&)>;
using LoadFunction = std::function<int(Loader&)>;

/// A handle; copies mean the same store.
class DataStore {
 public:
  const std::vector<Index>& shape() const;  // local
  std::size_t element_bytes() const;        // local; 0: variable
  const Split& split() const;               // local; at first kAll in the first dimension and kNone in the others

  /// Runs `load` on every process; what it puts stays there. If it fails anywhere, nothing is added.
  Status LoadParallel(const LoadFunction& load);
  /// Declares how the store is to lie; data moves at the next Map.
  Status SetSplit(const Split& split, Placement placement = Placement::kInOrder);
  /// Moves the data to fit the Split and runs every task of `view` that has elements. `output` may be null, or this store.
  /// What is put replaces; other elements stay.
  MapResult Map(DataStore* output, const MapFunction& task, const View& view);
  MapResult Map(const MapFunction& task, const View& view) { return Map(nullptr, task, view); }
  /// Moves the data to fit the Split now.
  Status Redistribute();

  Status Put(Coordinates at, const void* bytes, std::size_t size);
  Result<std::vector<std::byte>> Get(Coordinates at) const;
  Status Remove(Coordinates at);
  /// How many elements there are.
  Result<Index> Count() const;
  /// Calls `visit` for every element, in row-major order, on every process. Data is passed on in pieces of some MB, or of one
  /// element that is larger. Once `visit` has thrown on a process it is not called there any more, and kTaskFailed is returned.
  Status ForEach(const std::function<void(const Element&)>& visit) const;
  /// What lies on this process. Local.
  Elements LocalElements() const;
  /// Removes all elements. Local.
  void Clear();
  /// Waits until a file target is on disk. Local.
  Status Sync();

  /// One store for each index of the first dimension, with one dimension less. Elements stay on their processes.
  Result<std::vector<DataStore>> SplitUp() const;
  /// The inverse: stores of one shape become one store with a first dimension more.
  static Result<DataStore> Join(const std::vector<DataStore>& stores);

 private:
  friend class World;
  explicit DataStore(std::shared_ptr<internal::Store> store) : store_(std::move(store)) {}
  std::shared_ptr<internal::Store> store_;
};

}  // namespace harrow::multiview
