#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace harrow {

/// "0-3,8" of ascending numbers.
std::string NumberList(std::span<const uint32_t> numbers);
/// The numbers of such a list, all of them below `end`; none: it is no such list, or its numbers do not rise.
std::optional<std::vector<uint32_t>> ParseNumberList(std::string_view list, uint32_t end);

}  // namespace harrow
