// harrow.conf is one TOML table. Before it was TOML its texts stood without quotes (order = rank+hrf), as
// they do in no TOML: such lines are refused one by one, each with its new form, so that a site's old file is
// brought up to date in one go.
#include "formats/settings_file.h"

#include "formats/toml_values_internal.h"

namespace harrow::formats {
namespace {

std::string_view Trim(std::string_view s) {
  const size_t begin = s.find_first_not_of(" \t\r");
  return begin == std::string_view::npos ? std::string_view()
                                         : s.substr(begin, s.find_last_not_of(" \t\r") + 1 - begin);
}

/// `key = value` whose value is no TOML: only it is looked at.
struct OldLine {
  std::string_view key, value;
};
std::optional<OldLine> AsOldLine(std::string_view line) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const OldLine old{Trim(line.substr(0, equals)),
                    Trim(line.substr(equals + 1, line.find('#', equals) - equals - 1))};
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  if (old.key.empty() || !std::all_of(old.key.begin(), old.key.end(), plain)) return std::nullopt;
  if (old.value.empty() || std::string_view("\"'[{").find(old.value.front()) != std::string_view::npos)
    return std::nullopt;
  if (toml::parse(StrCat("x = ", old.value))) return std::nullopt;
  return old;
}

std::string NewValue(std::string_view key, std::string_view value,
                     const std::function<Status(std::string_view, std::string_view)>& check) {
  const bool yes = value == "yes" || value == "on", no = value == "no" || value == "off";
  if ((yes || no) && check(key, "true").ok()) return yes ? "true" : "false";
  std::string quoted = "\"";
  for (char c : value) quoted += c == '"' || c == '\\' ? StrCat("\\", std::string(1, c)) : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

Result<std::vector<FlowSetting>> ReadSettingsFile(
    std::string_view name, std::string_view text,
    const std::function<Status(std::string_view key, std::string_view value)>& check) {
  graph::Graph names;
  names.AddSource(name);
  Problems problems(&names, 20);
  const size_t bad = std::min(FindInvalidUtf8(text), text.find('\0'));
  if (bad != std::string_view::npos) {
    problems.AddLast(PlaceAt(0, text, bad), "this is no UTF-8 text; save the file as UTF-8");
    return problems.status();
  }
  TomlPlaces places(0, text);
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = text.substr(begin, end - begin);
      if (const auto old = AsOldLine(line)) {
        const SourcePlace key = PlaceAt(0, text, static_cast<size_t>(old->key.data() - text.data()));
        const SourcePlace value = PlaceAt(0, text, static_cast<size_t>(old->value.data() - text.data()));
        const Status status = check(old->key, old->value);
        if (!status.ok()) {
          problems.Add(status.message().starts_with("unknown") ? key : value, status.message());
        } else {
          problems.Add(value, StrCat("texts stand between quotes; write ", old->key, " = ",
                                     Printable(NewValue(old->key, old->value, check), 80)));
        }
      }
      begin = end + 1;
    }
    if (problems.empty()) {
      problems.AddLast(
          places.At(parsed.error().source()),
          StrCat("this is no TOML: ", WhatIsWrong(parsed.error()), "; write key = \"text\" or key = 4"));
    }
    return problems.status();
  }
  for (const auto& [key, node] : InOrder(parsed.table())) {
    if (!node->is_table() && !node->is_array_of_tables()) continue;
    problems.Add(places.At(key->source()), StrCat("there are no tables here; write the settings without [",
                                                  Printable(key->str()), "]"));
  }
  std::vector<FlowSetting> settings;
  if (problems.empty()) settings = SettingsOf(parsed.table(), &places, names, check, "", &problems);
  if (!problems.empty()) return problems.status();
  return settings;
}

}  // namespace harrow::formats
