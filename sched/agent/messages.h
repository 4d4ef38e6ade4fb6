#pragma once

#include "agent/steps/environment.h"
#include "agent/steps/gang.h"
#include "agent/steps/task.h"
#include "wire/harrow.pb.h"

// Between the messages of wire/harrow.proto and the agent's own values.

namespace harrow::agent {

ProfileSpec ProfileFromProto(const pb::Profile& message);
StreamSource SourceFromProto(const pb::StreamSource& message);
/// Without its profile. Moves the texts out of the message.
LocalTask TaskFromProto(pb::Task& message);
void ResultToProto(TaskResult result, pb::Attempt* out);
void GangToProto(const Gang& gang, pb::Gang* out);
int64_t Nanoseconds(WallTime time);

}  // namespace harrow::agent
