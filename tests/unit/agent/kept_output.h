#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/steps/capture.h"

namespace harrow::agent {

/// What tasks wrote, as it was handed on.
class KeptOutput : public OutputSink {
 public:
  struct Piece {
    uint32_t task, attempt;
    output::Stream stream;
    std::string text;
    std::optional<uint32_t> rank;
  };
  uint64_t AddOutput(uint32_t task, uint32_t attempt, output::Stream stream, std::string_view data,
                     std::optional<uint32_t> rank) override {
    pieces.push_back({task, attempt, stream, std::string(data), rank});
    return next_offset += 100;
  }
  std::string Of(output::Stream stream) const {
    std::string all;
    for (const Piece& piece : pieces) all += piece.stream == stream ? piece.text : "";
    return all;
  }

  std::vector<Piece> pieces;
  uint64_t next_offset = 0;
};

}  // namespace harrow::agent
