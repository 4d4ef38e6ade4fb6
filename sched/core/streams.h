#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace harrow::core {

/// What is known of tasks that are joined by streams, beside their states; of others there is nothing here.
struct Streams {
  struct Writer {
    // The attempt that has begun; 0: none, or none is known.
    uint32_t attempt = 0;
    // Where what it writes is; none: nowhere.
    NodeId node;
    // It has succeeded, and its node holds all that it wrote.
    bool held = false;
    // What readers at nodes were told last.
    uint32_t told = 0;
    NodeId told_node;
    // The attempt that was told that all who read it have ended well.
    uint32_t closed = 0;
  };
  struct Reader {
    // The attempt that was told what it reads, and where it is.
    uint32_t told = 0;
    // Writers of which it was told that what it gets of them is void, or lost.
    std::set<TaskId> awaited = {};
    // Writers that were connected to an open stream while it was at a node, and have not begun: no reason to give its slot up.
    std::set<TaskId> to_come = {};
    // A writer that keeps it from beginning: as long as it does, nobody counts how many others do, so that thousands that begin one after
    // the other are not all looked at each time.
    TaskId waits_for = {};
    // Something has changed since it was told first, so that it may have to begin anew.
    bool changed = false;
    // It holds a slot that others want: it is to begin anew, and will.
    bool ending = false;
    // Of one that has succeeded: what it read, by the word of its agent; and it read on until it was told that there is no more.
    std::vector<AttemptId> read = {};
    bool to_end = false;
    // It has left its slot to others, as a stream that it reads is open; and it waits until none of them wants one.
    bool yielded = false, yields = false;
  };
  // Ordered, as what follows from them is to be the same each time.
  std::map<TaskId, Writer> writers;
  std::map<TaskId, Reader> readers;
  // Of the instant: what those have read whose ends are told.
  std::vector<std::pair<AttemptId, AttemptId>> told_read;
  std::vector<AttemptId> told_to_end;
  // Those that are held by somebody, as readers know.
  std::set<StreamId> open;
  // How often they are kept from ending, as something is being connected.
  std::map<StreamId, uint32_t> kept;
  // Readers at nodes that read one of these.
  std::set<TaskId> open_readers;
  // Readers with that mark.
  std::set<TaskId> yielded;
  // Readers at nodes of which some writer has not begun, or is lost.
  std::set<TaskId> starved;
  // Of a split stream: the place among its readers of one that was waited for.
  mutable std::map<StreamId, size_t> waits_for;
  // Writers that are done, and of which a reader that is to begin has to have what nobody holds.
  std::vector<TaskId> lost;

  bool any() const { return !writers.empty() || !readers.empty(); }
};

}  // namespace harrow::core
