// What an authenticated peer may send: frames, messages, and what they mean. The first byte says which kind
// of peer.
#include <cstdint>
#include <vector>

#include "fuzz/check_message.h"
#include "wire/decode.h"
#include "wire/frame.h"

namespace {

template <class Message>
harrow::Status Decoded(std::string_view bytes, Message* message) {
  return harrow::wire::Decode(bytes, message);
}
// As if all bytes that its pieces announce came with it.
harrow::Status Decoded(std::string_view bytes, harrow::pb::PeerTransfer* message) {
  size_t data = 0;
  if (message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    for (const harrow::pb::Piece& piece : message->piece()) data += piece.length();
  }
  return harrow::wire::Decode(bytes, data, message);
}
harrow::Status Decoded(std::string_view bytes, harrow::pb::PeerStreams* message) {
  size_t data = 0;
  if (message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    for (const harrow::pb::Written& written : message->written()) data += written.length();
  }
  return harrow::wire::Decode(bytes, data, message);
}

template <class Message>
void Read(std::string_view bytes) {
  using harrow::fuzz::Require;
  Message message;
  harrow::Status status = Decoded(bytes, &message);
  harrow::fuzz::CheckMessage(status);
  if (!status.ok()) return;
  Message again;
  Require(Decoded(message.SerializeAsString(), &again).ok(), "what was read cannot be sent on");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using harrow::fuzz::Require;
  if (size < 2) return 0;
  std::string_view stream(reinterpret_cast<const char*>(data + 2), size - 2);
  size_t piece = data[1] + size_t{1};
  constexpr uint32_t kMost = 5000;
  harrow::wire::FrameReader frames(kMost);
  size_t taken = 0;
  while (!stream.empty()) {
    frames.buffer()->append(stream.substr(0, piece));
    stream.remove_prefix(std::min(piece, stream.size()));
    std::string_view message;
    while (frames.Next(&message)) {
      Require(message.size() <= kMost, "a message above the limit");
      taken += message.size() + 4;
      switch (data[0] % 10) {
        case 0:
          Read<harrow::pb::FromAgent>(message);
          break;
        case 1:
          Read<harrow::pb::ToAgent>(message);
          break;
        case 2:
          Read<harrow::pb::FromClient>(message);
          break;
        case 3:
          Read<harrow::pb::ToClient>(message);
          break;
        case 4:
          Read<harrow::pb::PeerHello>(message);
          break;
        case 5:
          Read<harrow::pb::PeerTransfer>(message);
          break;
        case 6:
          Read<harrow::pb::PeerRanks>(message);
          break;
        case 7:
          Read<harrow::pb::RankWord>(message);
          break;
        case 8:
          Read<harrow::pb::BetweenServers>(message);
          break;
        default:
          Read<harrow::pb::PeerStreams>(message);
          break;
      }
    }
    harrow::fuzz::CheckMessage(frames.status());
    if (!frames.status().ok()) break;
  }
  Require(taken <= size, "more messages than bytes");
  return 0;
}
