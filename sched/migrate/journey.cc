#include "migrate/journey.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "migrate/compress.h"
#include "migrate/delta.h"
#include "migrate/pages.h"
#include "migrate/ring.h"
#include "store/hasher.h"

namespace harrow::migrate {
namespace {

constexpr size_t kPiece = 1u << 20;

const Status& Differs() {
  static const Status status(Code::kDamaged, "an image is not what was sent");
  return status;
}

class Measured {
 public:
  Measured(Phases* phases, const std::function<Duration()>& clock) : phases_(*phases), clock_(clock) {}

  Phases::Phase& Of(const std::string& name) {
    for (Phases::Phase& phase : phases_.phases) {
      if (phase.name == name) return phase;
    }
    phases_.phases.push_back({.name = name});
    return phases_.phases.back();
  }
  /// What one of several nodes does at the same time, in as many steps as it takes.
  template <class Work>
  auto By(const std::string& name, const Work& work) {
    const Duration before = clock_();
    auto result = work();
    const Duration took = clock_() - before;
    Duration& of_node = of_node_[name];
    of_node += took;
    Phases::Phase& phase = Of(name);
    phase.busy = std::max(phase.busy, of_node);
    phases_.processors += took;
    return result;
  }
  /// What follows another node does.
  void NextNode() { of_node_.clear(); }

 private:
  Phases& phases_;
  const std::function<Duration()>& clock_;
  std::map<std::string, Duration> of_node_;
};

Result<Phases> CarryPlainly(const std::vector<std::string_view>& images, bool compressed, const std::function<Duration()>& clock) {
  Phases phases;
  Measured measured(&phases, clock);
  for (const std::string_view image : images) {
    measured.NextNode();
    if (!compressed) {
      measured.Of("transfer").link += image.size();
      continue;
    }
    const std::string packed = measured.By("compression", [&] { return Compress(image); });
    measured.Of("transfer").link += packed.size();
    const Result<std::string> back = measured.By("decompression", [&] { return Decompress(packed, image.size()); });
    if (!back.ok() || *back != image) return Differs();
  }
  return phases;
}

/// A ring of so many nodes: the bytes past each of them.
Status Spread(std::string_view base, size_t nodes, std::vector<std::string>* at) {
  const store::ObjectId digest = store::IdOf(base, store::Kind::kFile);
  std::deque<RingNode> ring;
  Status status;
  for (size_t i = 0; i < nodes; ++i) {
    std::function<void(std::string_view)> next;
    if (i > 0) {
      next = [&ring, &status, i](std::string_view piece) {
        if (const Status taken = ring[i - 1].Take(piece); !taken.ok()) status = taken;
      };
    }
    ring.emplace_back(base.size(), digest, std::move(next));
  }
  for (size_t begin = 0; begin < base.size() && nodes > 0; begin += kPiece)
    HARROW_RETURN_IF_ERROR(ring.back().Take(base.substr(begin, kPiece)));
  for (const RingNode& node : ring) {
    if (!node.whole() && !base.empty()) return status.ok() ? Differs() : status;
    at->push_back(node.image());
  }
  return status;
}

Result<Phases> CarryByBase(const std::vector<std::string_view>& images, const std::function<Duration()>& clock) {
  Phases phases;
  Measured measured(&phases, clock);
  if (images.empty()) return phases;
  const std::string_view base = images.front();
  measured.Of("base_transfer").link += base.size();
  std::vector<std::string> at_sources, at_destinations;
  HARROW_RETURN_IF_ERROR(Spread(base, images.size() - 1, &at_sources));
  measured.Of("ring").ring += base.size();
  HARROW_RETURN_IF_ERROR(Spread(base, images.size(), &at_destinations));
  measured.Of("ring_at_destination").ring += base.size();
  for (size_t i = 1; i < images.size(); ++i) {
    measured.NextNode();
    const std::string delta = measured.By("difference", [&] { return DeltaOf(at_sources[i - 1], images[i]); });
    measured.Of("diff_transfer").link += delta.size();
    const Result<std::string> back = measured.By("patch", [&] { return Apply(at_destinations[i], delta); });
    if (!back.ok()) return back.status();
    if (*back != images[i]) return Differs();
  }
  return phases;
}

Result<Phases> CarryByPages(const std::vector<std::string_view>& images, const std::function<Duration()>& clock) {
  Phases phases;
  Measured measured(&phases, clock);
  const Way way = measured.By("sample", [&] { return ChooseWay(images); });
  PageStore store;
  for (const std::string_view image : images) {
    measured.NextNode();
    std::deque<std::string> to_receiver, to_sender;
    PageSender sender(image, way, [&](std::string message) { to_receiver.push_back(std::move(message)); });
    PageReceiver receiver(&store, [&](std::string message) { to_sender.push_back(std::move(message)); });
    measured.By("digests", [&] { return sender.Begin(), 0; });
    while (!to_receiver.empty() || !to_sender.empty()) {
      if (!to_receiver.empty()) {
        measured.Of("transfer").link += to_receiver.front().size();
        const Status taken = measured.By("arrival", [&] { return receiver.Take(to_receiver.front()); });
        if (!taken.ok()) return taken;
        to_receiver.pop_front();
      } else {
        measured.Of("transfer").link += to_sender.front().size();
        const Status taken = measured.By("pages", [&] { return sender.Take(to_sender.front()); });
        if (!taken.ok()) return taken;
        to_sender.pop_front();
      }
    }
    if (!sender.done() || !receiver.image() || *receiver.image() != image) return Differs();
  }
  return phases;
}

}  // namespace

uint64_t Phases::link() const {
  uint64_t bytes = 0;
  for (const Phase& phase : phases) bytes += phase.link;
  return bytes;
}

double Phases::Seconds(double link_rate, double ring_rate) const {
  double seconds = 0;
  for (const Phase& phase : phases)
    seconds += harrow::Seconds(phase.busy) + static_cast<double>(phase.link) / link_rate + static_cast<double>(phase.ring) / ring_rate;
  return seconds;
}

Result<Phases> CarryOver(Method method, const std::vector<std::string_view>& images, const std::function<Duration()>& clock) {
  switch (method) {
    case Method::kNaive:
    case Method::kNaiveZstd:
      return CarryPlainly(images, method == Method::kNaiveZstd, clock);
    case Method::kPaper:
      return CarryByBase(images, clock);
    case Method::kPages:
      return CarryByPages(images, clock);
  }
  return Status(Code::kInternal, "no such way to carry images over");
}

}  // namespace harrow::migrate
