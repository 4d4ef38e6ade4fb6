#pragma once

#include "multiview/store.h"

namespace harrow::multiview::internal {

/// Copies this process's elements first .. last - 1 (in row-major order) to `to`, `shift` elements further on. Local.
Status CopyOut(Store& from, Index first, Index last, Index shift, Store& to);

}  // namespace harrow::multiview::internal
