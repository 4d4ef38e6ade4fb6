#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "os/posix_files.h"
#include "run_dir/run_dir.h"

namespace harrow::agent {

/// A directory as it was made: later its path may lead to another one, and that is neither used nor emptied.
struct TmpRoot {
  std::string path{};
  uint64_t device = 0, inode = 0;

  bool empty() const { return path.empty(); }
};

/// As the directory is now; empty when it is none of ours.
TmpRoot TmpRootAt(const std::string& path);
/// A descriptor (O_PATH) of it; none when its path leads to something else.
os::Fd OpenTmpRoot(const TmpRoot& root);

/// Where a node's temporary files may go.
struct TmpBases {
  std::string asked{};  // there and nowhere else; empty: nobody has said
  std::string job{};    // the job's directory, made by the batch system; empty: none
};

/// Makes the directory of a warden on its node's disk, below which tasks have their TMPDIRs: where it was
/// asked for, else in the first of the job's directory, TMPDIR and /tmp in which nobody else can put another
/// in its place. What an earlier warden of this run and node, one that was killed, has left is removed first.
/// Empty when none can be made.
TmpRoot MakeTmpRoot(run_dir::RunDir& dir, const std::string& node, const TmpBases& bases);
/// Removes it with all that is in it; as all here, only what this user made, and following no link.
void RemoveTmpRoot(run_dir::RunDir& dir, const std::string& node, const TmpRoot& root);
/// Removes what wardens of a run that were killed on this machine have left.
void RemoveLeftTmpRoots(run_dir::RunDir& dir);

/// A directory that is called after it in /dev/shm, for what ranks of one node map: a file on a disk would be
/// written there again and again. Made anew, and whatever bears its name and is ours removed first. Where
/// there can be none, `root` itself. It goes with `root`.
TmpRoot MakeSharedMemoryRoot(const TmpRoot& root);

/// Makes a file there that holds the text, for its owner to read; its path, empty when it cannot be made
/// whole (errno tells why).
std::string MakeTextFile(const TmpRoot& root, const std::string& name, std::string_view text);
/// The same, of a line so many times.
std::string MakeLinesFile(const TmpRoot& root, const std::string& name, std::string_view line,
                          uint32_t times);

/// Gives the directory `fd` (O_PATH will do) mode 0700.
void OpenToUs(int fd);
/// Empties the directory `fd` (O_PATH will do) of whatever it holds, but `keep`. False when something else
/// stays.
bool EmptyDirectory(int fd, std::string_view keep = {});
/// Of all but `keep`, a name in it.
bool EmptyTmpRoot(const TmpRoot& root, std::string_view keep = {});
/// Can nobody but us (and root) put another directory in place of one that we make in `base`?
bool IsSafeBase(const std::string& base);

}  // namespace harrow::agent
