#include "contexts.h"
#include "options.h"

namespace harrow::plugin {

void LocalInit(spank_t spank) {
  RegisterOptions(spank);
}

}  // namespace harrow::plugin
