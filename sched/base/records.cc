#include "base/records.h"

#include <cmath>
#include <optional>

#include "base/text.h"

namespace harrow {

Result<bool> ParseShare(std::string_view text) {
  if (text == "split" || text == "all") return text == "split";
  return Status(Code::kInvalid, StrCat("share cannot be \"", Printable(text, 40),
                                       "\"; write all (each reader gets every line) or split (each line goes to one)"));
}

Result<Records> ParseRecords(std::string_view text) {
  constexpr std::string_view kBytes = "bytes:";
  constexpr uint32_t kMostBytes = 1u << 20;
  if (text == "lines") return kLines;
  if (text == "zero") return kZeroEnded;
  const std::optional<double> bytes = text.starts_with(kBytes) ? ParseNumber(text.substr(kBytes.size())) : std::nullopt;
  if (bytes && *bytes >= 1 && *bytes <= kMostBytes && *bytes == std::floor(*bytes)) return OfBytes(static_cast<uint32_t>(*bytes));
  return Status(Code::kInvalid, StrCat("records cannot be \"", Printable(text, 40),
                                       "\"; write lines, zero (a NUL byte ends each) or bytes:N, N from 1 to ", kMostBytes));
}

}  // namespace harrow
