#pragma once

#include <functional>
#include <vector>

#include "multiview/loose.h"
#include "multiview/team.h"

namespace harrow::multiview {

/// Takes one entry of another process (or of this one), whose data it must copy.
using Receiver = std::function<Status(const Entry&)>;

/// Sends every element to the process that `layout` gives it. Only processes with something to send or receive talk, and
/// nobody needs to know who they are. Collective; the error is this process's own.
Status Scatter(internal::Team& team, const Layout& layout, const std::vector<Entry>& entries, std::size_t element_bytes,
               const Receiver& receive);

/// Passes byte strings to any processes. Collective; received strings come in no particular order.
struct Letter {
  int process;
  std::vector<std::byte> bytes;
};
Status SendLetters(internal::Team& team, const std::vector<Letter>& letters,
                   const std::function<Status(int process, const std::byte* bytes, std::size_t size)>& receive);

}  // namespace harrow::multiview
