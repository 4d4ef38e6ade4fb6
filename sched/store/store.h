#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "store/object.h"

namespace harrow::store {

struct Options {
  // Bytes that objects, half ones included, may hold together (as the disk counts: whole blocks); 0: as many
  // as the disk has room for, but for `spare`.
  uint64_t limit = 0;
  // Of the disk's free room, what is left to others.
  uint64_t spare = 64u << 20;
  // What is not synced to disk is lost with the node anyway: false, but where a run after a crash is to find
  // it (harrow stage).
  bool durable = false;
};

/// What an open file of the store is read by (pread: the position is shared). Closed with it.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual int fd() const = 0;
  virtual int64_t bytes() const = 0;
  /// How much of it can be read by now; less than bytes() while it arrives (Arrival).
  virtual int64_t here() const = 0;
  /// Calls back, once, from whatever thread wrote it, when here() > `beyond` or it will not come any more
  /// (`failed`; so also when `beyond` is the end or more). At once, in this call, where that is so. Not any
  /// more when the Reader has gone, unless another thread is about to.
  virtual void WhenBeyond(int64_t beyond, std::function<void(bool failed)> then) = 0;
};

/// A file object that comes in pieces, in whatever order. Dropped without Finish: the next Begin of
/// the same id goes on with the pieces that are here, as long as the store is open and nobody wants their
/// room (and of a few at most).
/// Of one thread at a time, and gone before its store.
class Arrival {
 public:
  virtual ~Arrival() = default;
  virtual const Object& object() const = 0;
  /// kExhausted (the disk is full), kInvalid (beyond the end), kNotFound (dropped meanwhile). What is here
  /// already is left as it is.
  virtual Status Write(int64_t offset, std::string_view data) = 0;
  /// The first `limit` missing stretches.
  struct Stretch {
    int64_t offset = 0, length = 0;
  };
  virtual std::vector<Stretch> Missing(size_t limit = SIZE_MAX) const = 0;
  /// All pieces are here (else kInvalid, and it can go on): checks the content and gives the object its name.
  /// kDamaged: the content is not what the id says; all pieces are dropped. kNotFound: it was dropped
  /// meanwhile, or is a part that no listing here names any more.
  virtual Status Finish() = 0;
};

/// Who is told of a copy to outside of the store while it goes on.
struct CopyWatch {
  /// A temporary file is about to be made there; it goes or gets its name before CopyOut returns, unless this
  /// process dies.
  std::function<void(const std::string& path)> temporary{};
  /// Asked before a name is given: an error refuses it, and is what CopyOut returns.
  std::function<Status()> may_name{};
};

/// The objects of a node: contents of files and directories, on one file system, each once, read-only, whole
/// and checked. It knows no network and no names of the flow. Calls from any thread; those that read or write
/// contents take their time in the caller's.
class Store {
 public:
  virtual ~Store() = default;

  /// Opens the store that lies in `directory` (absolute; made if need be, 0700, refused when it is a link,
  /// somebody else's, open to others, or holds other things), alone: kUnavailable while another process has
  /// it. Whole objects that a former process left are there again; half ones and sandboxes are removed.
  static Result<std::unique_ptr<Store>> Open(const std::string& directory, const Options& options);

  // --- taking in
  /// A file or directory of whatever file system, as it is now: copied, each byte read once (reflinked where
  /// possible). A link at `path` itself is followed, those in a directory are kept as links. kNotFound,
  /// kExhausted, kInvalid (neither file nor directory; it changed while it was read).
  virtual Result<Object> CopyIn(const std::string& path) = 0;
  /// A file or directory of the store's own file system, which belongs to nobody else any more (a sandbox's
  /// output): renamed where possible. What is written through a descriptor that somebody still has open is
  /// found out by Unchanged. At an error what is there stays there. kInvalid also where it is a link, or a
  /// link leads to it within the sandbox.
  virtual Result<Object> MoveIn(const std::string& path) = 0;
  /// A file object that comes from elsewhere; a listing is one, too: there `object.bytes` is the listing's
  /// own length (Reader::bytes() of it). Room for all of it is taken at once: kExhausted. kExists: it is
  /// here. kNotFound: it is arriving. `part`: wanted only as a part of directory objects whose listings
  /// are here; it goes with the last of them. Without it what is here, or arriving, as a part stays by itself
  /// from now on, also where this gives kExists or kNotFound.
  virtual Result<std::unique_ptr<Arrival>> Begin(const Object& object, bool part = false) = 0;

  // --- giving out
  /// A whole object is here; of a directory: its listing and every file in it.
  virtual bool Has(const ObjectId& id) const = 0;
  /// Of the files of a directory object whose listing is here, those that are not; each once. kNotFound.
  virtual Result<std::vector<Object>> MissingOf(const ObjectId& directory) const = 0;
  /// Reading one file object (or a listing), also one that is arriving. kNotFound.
  virtual Result<std::unique_ptr<Reader>> Read(const ObjectId& id) = 0;
  /// Puts it at `path`, below a sandbox of this store (its absolute path): hard links or reflinks, copies
  /// where neither can be. Directories of `path` are made; directories that are there are merged. `inside`:
  /// of a directory object, only what lies at that path in it; empty: all. kNotFound, kExists (something else
  /// is at `path`), kInvalid (no path below a sandbox; a link is in the way), kDamaged (it was no more what
  /// it was, and is dropped), kExhausted.
  virtual Status Place(const ObjectId& id, std::string_view inside, const std::string& path) = 0;
  /// Puts it at `path` of whatever file system: temporary name beside it, written, synced (fdatasync; a
  /// directory: everything in it), renamed. Directories of `path` are made. A file that is there is replaced;
  /// a directory's files are replaced one by one, and what else lies in it stays. No link below `path` is
  /// followed (kInvalid). Ordinary modes (0666, 0777 where it may be executed, less `umask`).
  virtual Status CopyOut(const ObjectId& id, const std::string& path, uint32_t umask,
                         const CopyWatch& watch = {}) = 0;
  /// Whether the content of an object is what it was when it came, by size and times of its inode: a hard
  /// link that a task wrote through (which root can) is found out. False: it has been dropped, and every
  /// directory object that holds it is here no more. Of a directory: of every file in it that is here. A mode
  /// that was changed is set right again. What is not here is false.
  virtual bool Unchanged(const ObjectId& id) = 0;

  // --- sandboxes
  /// An empty directory of an attempt, on the store's disk (its absolute path; kExists); RemoveSandbox takes
  /// it away with all that is in it (also what is write-protected), following no link and into no other
  /// mount.
  virtual Result<std::string> MakeSandbox(const std::string& name) = 0;
  virtual void RemoveSandbox(const std::string& path) = 0;

  // --- room
  /// Drops it, whole or arriving; what is placed in sandboxes stays there. A file that is also in a directory
  /// object that is here stays for that one.
  virtual void Drop(const ObjectId& id) = 0;
  /// Its bytes are not what its id says, though its inode shows no sign of it (a disk that rots): it goes,
  /// whoever needs it, and every directory object that holds it. Of a directory: with all files in it, as
  /// nobody has told which of them it is.
  virtual void Damaged(const ObjectId& id) = 0;
  /// Keeps an object that was asked for by itself until its room is wanted: of several the one that was
  /// spared first goes first. Whoever takes it in or begins it again keeps it as any other.
  virtual void Spare(const ObjectId& id) = 0;
  struct Room {
    uint64_t used = 0;   // bytes of objects and arrivals, but for spare ones
    uint64_t limit = 0;  // that they may hold; never more than the disk has
    uint64_t objects = 0;
  };
  virtual Room room() const = 0;
  /// Of Options::limit, what others hold now: the store may hold so much less. Spare objects give way.
  virtual void SetOthers(uint64_t bytes) = 0;
  /// All objects that are whole (Has) and were asked for by themselves: not the files of directories.
  virtual std::vector<Object> All() const = 0;

  /// Removes everything in it, and the directory, when no other call is under way; none is allowed after it
  /// but the destructor. Open Readers can be read to the end.
  virtual void Erase() = 0;
};

}  // namespace harrow::store
