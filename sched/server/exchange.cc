#include "server/exchange.h"

#include <charconv>

#include "base/text.h"
#include "run_dir/names.h"

namespace harrow::server {
namespace {

constexpr std::string_view kAbsent = "absent";
constexpr size_t kObject = 17;  // bytes

template <class Number>
bool Take(std::string_view* text, int base, Number* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number, base);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

bool TakeDash(std::string_view* text) {
  if (!text->starts_with('-')) return false;
  text->remove_prefix(1);
  return true;
}

}  // namespace

std::string Exchanged::Name() const {
  if (absent()) return StrCat(file.value, "-", kAbsent);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string digits;
  for (const char c : object) {
    digits += kDigits[static_cast<uint8_t>(c) >> 4];
    digits += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return StrCat(file.value, "-", digits, "-", bytes);
}

std::optional<Exchanged> Exchanged::Of(std::string_view name) {
  std::string_view rest = name;
  uint32_t file = 0;
  if (!Take(&rest, 10, &file) || !TakeDash(&rest)) return {};
  Exchanged found{.file = FileId(file)};
  if (rest != kAbsent) {
    if (rest.size() < 2 * kObject) return {};
    for (size_t i = 0; i < kObject; ++i, rest.remove_prefix(2)) {
      std::string_view digits = rest.substr(0, 2);
      uint8_t byte = 0;
      if (!Take(&digits, 16, &byte) || !digits.empty()) return {};
      found.object += static_cast<char>(byte);
    }
    if (!TakeDash(&rest) || !Take(&rest, 10, &found.bytes) || !rest.empty() || found.bytes < 0) return {};
  }
  // Of several spellings one counts.
  return found.Name() == name ? std::optional(std::move(found)) : std::nullopt;
}

Result<std::vector<Exchanged>> ReadExchange(run_dir::RunDir& run, std::string_view flow_id) {
  std::vector<Exchanged> all;
  const Result<std::vector<std::string>> names = run.List(run_dir::ExchangePath(run.path(), flow_id));
  if (!names.ok()) return names.status().code() == Code::kNotFound ? Result(std::move(all)) : names.status();
  for (const std::string& name : *names) {
    if (auto found = Exchanged::Of(name)) all.push_back(*std::move(found));
  }
  return all;
}

}  // namespace harrow::server
