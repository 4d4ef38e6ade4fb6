#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/text.h"

namespace harrow::fuzz {

/// Ends the process with a message when something that must hold does not.
inline void Require(bool holds, const char* what, std::string_view text = {}) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s: %s\n", what, Printable(text, 2000).c_str());
  std::abort();
}

/// What users are told has to be fit for a terminal and a log, whatever they wrote.
inline void CheckMessage(const Status& status) {
  if (status.ok()) return;
  const std::string& text = status.message();
  Require(!text.empty(), "an error without a message");
  Require(FindInvalidUtf8(text) == std::string::npos, "a message that is no UTF-8", text);
  for (const char c : text)
    Require(c == '\n' || static_cast<unsigned char>(c) >= 0x20, "a control character in a message", text);
  Require(text.size() < 200'000, "a message without end");
}

}  // namespace harrow::fuzz
