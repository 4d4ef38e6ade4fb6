#pragma once

#include "multiview/store.h"

namespace harrow::multiview::internal {

/// This process's elements, in order.
std::vector<Entry> AllEntries(Store& store);

/// Copies this process's elements first .. last - 1 (in row-major order) of all `entries_of` has to `to`, `shift` elements
/// further on. Local.
Status CopyOut(Store& from, const std::vector<Entry>& entries_of, Index first, Index last, Index shift, Store& to);

}  // namespace harrow::multiview::internal
