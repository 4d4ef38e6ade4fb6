#pragma once

#include <string_view>

#include "base/status.h"
#include "wire/harrow.pb.h"

namespace harrow::wire {

/// Reads a message into `out` (which keeps its memory from the one before) and checks what the schema cannot
/// say: lists that belong together are of one length, numbers that stand for something stand for something
/// known, ids are ids. kDamaged; `out` is then of no use. What ids mean is for the receiver to check.
Status Decode(std::string_view bytes, pb::FromAgent* out);
Status Decode(std::string_view bytes, pb::ToAgent* out);
Status Decode(std::string_view bytes, pb::FromClient* out);
Status Decode(std::string_view bytes, pb::ToClient* out);
Status Decode(std::string_view bytes, pb::PeerHello* out);
Status Decode(std::string_view bytes, pb::PeerRanks* out);
Status Decode(std::string_view bytes, pb::RankWord* out);
Status Decode(std::string_view bytes, pb::BetweenServers* out);
Status Decode(std::string_view bytes, pb::MadeFiles* out);
/// `data`: what comes after the message; pieces have as many bytes together.
Status Decode(std::string_view bytes, size_t data, pb::PeerTransfer* out);
Status Decode(std::string_view bytes, size_t data, pb::PeerStreams* out);

}  // namespace harrow::wire
