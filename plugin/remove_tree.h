#pragma once

namespace harrow::plugin {

struct Removal {
  bool complete = false;
  int error = 0;  // errno of what could not be removed
  unsigned long removed = 0;
};

/// Opens `name` of the open directory `parent`, no link, on the same mount as that: -1 with EXDEV where
/// something is mounted. What is mounted is not even looked at: a file system of the user's own (FUSE) may
/// never answer.
int OpenOnThisMount(int parent, const char* name, int flags);

/// Detaches whatever is mounted on `name`.
void DetachMounts(int parent, const char* name);

/// Removes the directory `name` of the open directory `parent` with all it holds. Follows no link, enters no
/// mount (what is mounted on it or inside is detached, never emptied), leaves `parent` untouched but for
/// `name`, and takes any depth. After `seconds` it stops, and what is left is left (error ETIME).
Removal RemoveTree(int parent, const char* name, unsigned seconds);

}  // namespace harrow::plugin
