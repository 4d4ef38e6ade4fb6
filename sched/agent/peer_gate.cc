#include "agent/peer_gate.h"

#include <utility>

namespace harrow::agent {

PeerGate::PeerGate(os::EventLoop* near) {
  far_->near = std::make_shared<PostBack>(near);
}

PeerGate::~PeerGate() {
  far_->near->Stop();
}

void PeerGate::OnFar(std::function<void(Peers&)> work) {
  std::lock_guard lock(far_->mutex);
  if (!far_->post) {
    far_->early.push_back(std::move(work));
    return;
  }
  far_->post->Post([far = far_, work = std::move(work)] {
    if (far->peers != nullptr) work(*far->peers);
  });
}

void PeerGate::Open(os::EventLoop* far, Peers* peers) {
  far_->peers = peers;
  std::vector<std::function<void(Peers&)>> early;
  {
    std::lock_guard lock(far_->mutex);
    far_->post = std::make_unique<PostBack>(far);
    early.swap(far_->early);
  }
  for (const auto& work : early) work(*peers);
}

void PeerGate::Close() {
  far_->peers = nullptr;
  std::lock_guard lock(far_->mutex);
  if (far_->post) far_->post->Stop();
}

void PeerGate::Serve(Service service, Handler handler) {
  const bool ends = !handler.on_message;
  handlers_[static_cast<size_t>(service)] = std::move(handler);
  OnFar([this, service, ends, near = far_->near, alive = std::weak_ptr(alive_)](Peers& peers) {
    if (ends) return peers.Serve(service, {});
    // Whom this is called for is looked up on the near side, which may have ended by then.
    const auto on_near = [this, service, near, alive](std::function<void(const Handler&)> call) {
      near->Post([this, service, alive, call = std::move(call)] {
        if (!alive.expired()) call(handlers_[static_cast<size_t>(service)]);
      });
    };
    peers.Serve(service, {.on_message =
                              [on_near](NodeId from, std::string_view message, bool sealed) {
                                on_near([from, message = std::string(message), sealed](const Handler& own) {
                                  if (own.on_message) own.on_message(from, message, sealed);
                                });
                              },
                          .on_gone =
                              [on_near](NodeId node, const Status& why) {
                                on_near([node, why](const Handler& own) {
                                  if (own.on_gone) own.on_gone(node, why);
                                });
                              },
                          .on_sent = {}});
  });
}

void PeerGate::Send(NodeId to, Service service, std::string_view message) {
  OnFar([to, service, message = std::string(message)](Peers& peers) { peers.Send(to, service, message); });
}

void PeerGate::SendBulk(NodeId to, Service service, std::string_view head, wire::FilePiece piece) {
  OnFar([to, service, head = std::string(head), piece = std::move(piece)](Peers& peers) {
    peers.SendBulk(to, service, head, piece);
  });
}

void PeerGate::HangUp(NodeId node, const Status& why) {
  OnFar([node, why](Peers& peers) { peers.HangUp(node, why); });
}

}  // namespace harrow::agent
