#include <variant>
#include <vector>

#include "cost/meta_program.h"
#include "fuzz/check_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using harrow::fuzz::Require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = harrow::cost::ParseMetaProgram(text);
  if (const auto* problem = std::get_if<harrow::cost::MetaProblem>(&parsed)) {
    Require(problem->line >= 1 && problem->column >= 1, "a problem without a place", text);
    harrow::fuzz::CheckMessage(harrow::Status(harrow::Code::kInvalid, problem->text));
    return 0;
  }
  const auto& costs = std::get<harrow::cost::CostFunctions>(parsed);
  const std::vector<double> arguments = {3, 0, 2.5, 7};
  for (const harrow::cost::Expression* e : {&costs.in, &costs.compute, &costs.out}) {
    Require(!e->Text().empty(), "a formula without text", text);
    // Put in one after the other, or at once, values come to the same.
    const double value = e->Evaluate(arguments, 10);
    const double in_steps = e->Substitute(arguments, harrow::cost::kUnknown).Evaluate({}, 10);
    if (!harrow::cost::IsKnown(value) || !harrow::cost::IsKnown(in_steps)) continue;
    const double margin = 1e-6 * (1 + (value < 0 ? -value : value));
    Require(value - in_steps < margin && in_steps - value < margin, "two values", text);
  }
  return 0;
}
