#pragma once

namespace harrow::plugin {

struct Policy;

/// Where things lie on a node.
struct Places {
  const char* local;  // the site's disk: job directories lie in LOCAL/harrow
  const char*
      state;  // the notes of jobs (note.h): a directory of root's that needs no disk; "": LOCAL/harrow
};

/// As the site says; valid as long as `policy`. Where slurmd is not root's, notes lie in LOCAL/harrow.
Places PlacesOf(const Policy& policy);

/// Opens LOCAL/harrow; `make`: makes it where it is not there. -1 where that cannot be or is not safe, and
/// one line that begins with `without` was logged; without `make` none where it is not there.
int OpenBase(const char* local, bool make, const char* without);

}  // namespace harrow::plugin
