#include "agent/dispatcher.h"

#include <algorithm>

#include "agent/environment.h"
#include "base/text.h"

namespace harrow::agent {

Dispatcher::Dispatcher(const std::vector<uint32_t>& numa_of_slot, uint32_t gpus)
    : cores_(numa_of_slot), running_(numa_of_slot.size()), gpu_free_(gpus, true) {}

uint32_t Dispatcher::CoresOf(const LocalTask& task) const {
  const ProfileSpec& spec = task.profile->spec();
  return spec.whole_node ? slot_count() : std::max<uint32_t>(1, spec.cores);
}

std::string Dispatcher::WhyNever(const LocalTask& task) const {
  const ProfileSpec& spec = task.profile->spec();
  if (spec.ranks > 0 || spec.nodes > 1)
    return "MPI tasks and tasks of several nodes cannot be run by this version";
  if (CoresOf(task) > slot_count())
    return StrCat("the task asks for ", CoresOf(task), " cores, this node has ", slot_count());
  if (spec.gpus > gpu_free_.size())
    return StrCat("the task asks for ", spec.gpus, " GPUs, this node has ", gpu_free_.size());
  return {};
}

std::optional<LocalTask> Dispatcher::Remove(AttemptId attempt) {
  const auto it = std::find_if(queue_.begin(), queue_.end(),
                               [attempt](const LocalTask& t) { return t.attempt_id() == attempt; });
  if (it == queue_.end()) return std::nullopt;
  LocalTask removed = std::move(*it);
  queue_.erase(it);
  return removed;
}

void Dispatcher::Release(uint32_t slot) {
  for (uint32_t core : running_[slot]->slots) cores_.Free(core);
  for (uint32_t gpu : running_[slot]->gpus) gpu_free_[gpu] = true;
  running_[slot].reset();
}

void Dispatcher::Dispatch(std::optional<uint32_t> caller, std::vector<uint32_t>* given) {
  while (!queue_.empty()) {
    LocalTask& head = queue_.front();
    const uint32_t cores = CoresOf(head);
    const uint32_t gpus = head.profile->spec().gpus;
    if (cores > cores_.free_count()) return;
    if (gpus > std::count(gpu_free_.begin(), gpu_free_.end(), true)) return;
    std::vector<uint32_t> slots;
    uint32_t owner;
    // A free core's thread is idle: a busy thread's own core is always among those of its task.
    if (cores == 1 && caller && cores_.is_free(*caller)) {
      cores_.TakeSlot(*caller);
      slots.push_back(*caller);
      owner = *caller;
    } else {
      cores_.Take(cores, &slots);
      owner = caller && std::binary_search(slots.begin(), slots.end(), *caller) ? *caller : slots.front();
    }
    std::vector<uint32_t> devices;
    for (uint32_t i = 0; i < gpu_free_.size() && devices.size() < gpus; ++i) {
      if (!gpu_free_[i]) continue;
      gpu_free_[i] = false;
      devices.push_back(i);
    }
    running_[owner] =
        Assignment{.task = std::move(head), .slots = std::move(slots), .gpus = std::move(devices)};
    queue_.pop_front();
    given->push_back(owner);
  }
}

}  // namespace harrow::agent
