#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "base/status.h"
#include "base/text.h"

namespace harrow::migrate {

/// "WHAT: REASON" of an errno; kExhausted where there is no room, else kUnavailable.
inline Status FileError(const std::string& what, int error) {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return Status(full ? Code::kExhausted : Code::kUnavailable, StrCat(what, ": ", strerror(error)));
}

}  // namespace harrow::migrate
