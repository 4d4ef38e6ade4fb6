#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <sys/stat.h>

#include "base/status.h"
#include "store/files.h"

namespace harrow::store {

/// Goes to directories below a root, name by name, and follows no link. Keeps the last one open: going to its
/// neighbours' files or further down costs nothing again.
class Descent {
 public:
  enum class Make { kNo, kYes };
  /// `root` stays its owner's; `shown` is its name in messages; directories are made with `mode`.
  Descent(int root, std::string shown, Make make, mode_t mode = 0755)
      : root_(root), shown_(std::move(shown)), make_(make), mode_(mode) {}

  /// The descriptor (O_PATH) of the directory "a/b" below the root, of "" the root's. kInvalid where a link
  /// is in the way, kExists where something else is, kNotFound.
  Result<int> To(std::string_view path);
  /// Calls back for each directory that is made, with where it lies.
  std::function<void(int parent, const std::string& name)> made;

 private:
  const int root_;
  const std::string shown_;
  const Make make_;
  const mode_t mode_;
  std::string path_;
  Fd current_;
};

/// The part of a path before its last name ("" if there is none), and that name.
std::string_view ParentOf(std::string_view path);
std::string_view NameOf(std::string_view path);

/// Everything below a directory, in no order, a directory before what is in it. However deep, it holds two
/// descriptors.
struct Found {
  int directory;            // that it lies in
  const std::string& name;  // there
  const std::string& path;  // from where the walk began
  const struct stat& info;
};
using Visitor = std::function<Status(const Found&)>;
/// `mend`: directories that their owner (us) cannot enter are made such that he can.
Status WalkTree(int root, const std::string& shown, bool mend, const Visitor& visit);

/// Makes a file or directory of ours usable that its mode keeps us from.
void MakeUsable(int parent, const char* name, mode_t mode);
/// A directory of ours, on the same mount, made usable where need be.
Fd OpenOwnDirectory(int parent, const char* name);
/// Removes what is in a directory, also what is write-protected. Follows no link; what cannot be removed
/// stays (the first such error).
Status RemoveContents(int directory, const std::string& shown);
/// Removes a name, whatever it is; none is no error.
Status RemoveAll(int parent, const std::string& name, const std::string& shown);

}  // namespace harrow::store
