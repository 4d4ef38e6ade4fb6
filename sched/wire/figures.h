#pragma once

#include "base/figures.h"
#include "wire/harrow.pb.h"

namespace harrow::wire {

void FiguresToProto(const Figures& figures, pb::Progress* out);
Figures FiguresOf(const pb::Progress& progress);

}  // namespace harrow::wire
