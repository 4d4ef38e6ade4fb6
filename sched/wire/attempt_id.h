#pragma once

#include "base/ids.h"
#include "wire/harrow.pb.h"

namespace harrow::wire {

inline AttemptId IdOf(const pb::AttemptId& message) {
  return {TaskId(message.task()), message.number()};
}
inline AttemptId IdOf(const pb::Attempt& message) {
  return {TaskId(message.task()), message.attempt()};
}
inline void SetId(AttemptId id, pb::AttemptId* out) {
  out->set_task(id.task.value);
  out->set_number(id.number);
}

}  // namespace harrow::wire
