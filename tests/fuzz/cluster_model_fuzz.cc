#include <cmath>

#include "formats/cluster_model.h"
#include "fuzz/check_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using harrow::fuzz::Require;
  const auto model = harrow::formats::ReadClusterModel(
      "c.toml", std::string_view(reinterpret_cast<const char*>(data), size));
  harrow::fuzz::CheckMessage(model.ok() ? harrow::Status() : model.status());
  if (!model.ok()) return 0;
  Require(model->node_count() > 0 && model->slot_count() >= model->node_count(), "a cluster without cores");
  for (const auto& nodes : model->nodes)
    Require(std::isfinite(nodes.speed) && nodes.speed > 0, "a speed that is none");
  for (const double value :
       {model->read_local_disk, model->read_local_cache, model->read_remote_disk, model->read_remote_cache,
        model->write, model->server, model->nic, model->hub, model->hub_loss, model->latency, model->jitter,
        model->overhead, model->rate, model->mtbf, model->repair}) {
    Require(std::isfinite(value) && value >= 0, "a rate or time that is none");
  }
  return 0;
}
