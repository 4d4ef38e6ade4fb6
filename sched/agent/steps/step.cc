#include "agent/steps/step.h"

#include "base/text.h"

namespace harrow::agent {

std::string Below(const std::string& directory, const std::string& path) {
  return !path.empty() && path.front() == '/' ? path : StrCat(directory, "/", path);
}

}  // namespace harrow::agent
