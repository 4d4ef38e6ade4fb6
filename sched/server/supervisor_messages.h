#pragma once

#include <optional>

#include "base/resources.h"
#include "supervisor/core/messages.h"
#include "wire/harrow.pb.h"

namespace harrow::server {

/// What servers say to their supervisor and it to them, as messages.
void Set(const supervisor::MoveId& id, pb::MoveNumber* out);
supervisor::MoveId IdOf(const pb::MoveNumber& message);
void Set(const Shape& shape, pb::QueueShape* out);
Shape ShapeOf(const pb::QueueShape& message);
std::optional<supervisor::Saving> SavingOf(const pb::MoveAsked& message);
pb::MoveAsked ToProto(const supervisor::MoveRequest& request);
pb::ServerReport ToProto(const supervisor::Report& report);
supervisor::Report FromProto(const pb::ServerReport& message);

}  // namespace harrow::server
