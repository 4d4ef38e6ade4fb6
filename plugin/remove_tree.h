#pragma once

namespace harrow::plugin {

struct Removal {
  bool complete = false;
  int error = 0;  // errno of what could not be removed
  unsigned long removed = 0;
};

/// Removes the directory `name` of the open directory `parent` with all it holds. Follows no link, enters no
/// mount (what is mounted inside is detached, never emptied), leaves `parent` untouched but for `name`, and
/// takes any depth.
Removal RemoveTree(int parent, const char* name);

}  // namespace harrow::plugin
