// Lengths of time, bytes, and the helpers that see whatever a user wrote.
#include <cmath>

#include "base/text.h"
#include "formats/command_form.h"
#include "formats/pattern.h"
#include "fuzz/check_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace harrow;
  using fuzz::Require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);

  const Result<Duration> time = ParseDuration(text);
  fuzz::CheckMessage(time.status());
  if (time) {
    Require(time->count() >= 0 && Seconds(*time) <= 100.0 * 366 * 86400, "a time out of bounds", text);
    Require(!FormatDuration(*time).empty(), "a time that cannot be shown");
  }
  const Result<uint64_t> bytes = ParseBytes(text);
  fuzz::CheckMessage(bytes.status());
  if (bytes) {
    Require(*bytes <= uint64_t{1} << 62, "bytes out of bounds", text);
    const Result<uint64_t> again = ParseBytes(FormatBytes(*bytes));
    Require(again.ok() && std::fabs(static_cast<double>(*again) - static_cast<double>(*bytes)) <=
                              0.06 * static_cast<double>(*bytes) + 1,
            "bytes do not read back", FormatBytes(*bytes));
  }
  fuzz::CheckMessage(Status(Code::kInvalid, "x" + Printable(text, 50)));
  (void)Suggest(text, {"cores", "memory", "order", "in"});

  std::string argv;
  const graph::CommandForm form = formats::Classify(text, &argv);
  const std::string_view command = form == graph::CommandForm::kArgv ? std::string_view(argv) : text;
  (void)formats::ProgramName(command, form);
  (void)formats::CheckCommandSize(command, form);
  (void)formats::CommandText(command, form);
  if (form == graph::CommandForm::kWords)
    Require(text.find_first_of("|&;<>()$`'\"\\*?[\n") == std::string_view::npos, "words with shell syntax");

  const size_t half = size / 2;
  (void)formats::MatchesPattern(text.substr(0, half), text.substr(half));
  return 0;
}
