#pragma once

#include <cstdint>

namespace harrow::perf {

/// What a server holds of a file with two replicas, on average of that many and without their names: in the
/// graph, the scheduler and the catalogue, as far as it holds none of that for the same tasks without files.
double BytesAFile(uint32_t files);

}  // namespace harrow::perf
