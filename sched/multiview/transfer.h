#pragma once

#include "multiview/team.h"

namespace harrow::multiview {

/// Redistribution of one complete array of fixed-size elements, between two layouts that all processes know.
struct Move {
  const Plan& plan;
  const Layout& from_layout;
  const Layout& to_layout;
  std::size_t element_bytes;
  std::size_t largest_bytes;  // that any process holds in either layout: sizes messages, so the same everywhere
  bool bounded;               // no message larger than the staging memory, because arrays may be files
  Segment* from;
  Segment* to;
};

/// Collective. When it fails nothing is lost unless the world's rounds are more than one; the error is agreed on.
Status Execute(internal::Team& team, const Move& move);

}  // namespace harrow::multiview
