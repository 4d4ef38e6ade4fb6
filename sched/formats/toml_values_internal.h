#pragma once

// What the readers of TOML files share: types by name, values as text, entries in order, places; for .cc
// files of this folder.

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/source_place.h"
#include "base/text.h"
#include "formats/load.h"
#include "formats/problems.h"
#include "formats/toml_internal.h"

namespace harrow::formats {

inline std::string_view TypeName(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number with a point";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or time";
  }
}

/// The text of a number, flag or text; none for other types.
inline std::optional<std::string> ScalarText(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<int64_t>()) return StrCat(*number);
  if (const auto flag = node.value_exact<bool>()) return std::string(*flag ? "true" : "false");
  if (const auto real = node.value_exact<double>()) return StrCat(*real);
  return std::nullopt;
}

/// A table's entries as they stand in the file; toml++ keeps them by name.
inline std::vector<std::pair<const toml::key*, const toml::node*>> InOrder(const toml::table& table) {
  std::vector<std::pair<const toml::key*, const toml::node*>> entries;
  for (auto&& [key, node] : table) entries.emplace_back(&key, &node);
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    const auto& x = a.first->source().begin;
    const auto& y = b.first->source().begin;
    return x.line != y.line ? x.line < y.line : x.column < y.column;
  });
  return entries;
}

inline std::string WhatIsWrong(const toml::parse_error& error) {
  std::string_view what = error.description();
  if (const size_t colon = what.find(": ");
      what.starts_with("Error while parsing ") && colon != std::string_view::npos) {
    what.remove_prefix(colon + 2);
  }
  return Printable(what, 200);
}

/// toml++ counts columns in characters; places count them in bytes. The text has to outlive it.
class TomlPlaces {
 public:
  TomlPlaces(uint32_t source, std::string_view text) : source_(source), text_(text) {}

  SourcePlace At(const toml::source_region& region) {
    SourcePlace place{source_, region.begin.line, region.begin.column};
    if (place.line == 0 || place.column < 2) return place;
    if (line_begins_.empty()) {
      line_begins_.push_back(0);
      for (size_t at = text_.find('\n'); at != std::string_view::npos; at = text_.find('\n', at + 1))
        line_begins_.push_back(at + 1);
    }
    if (place.line > line_begins_.size()) return place;
    const size_t begin = line_begins_[place.line - 1];
    // A line may be long, with many values: counting goes on from the last one where it can.
    if (counted_.line != place.line || counted_.column > place.column) counted_ = {place.line, 1, begin};
    for (; counted_.column < place.column && counted_.at < text_.size(); ++counted_.column) {
      ++counted_.at;
      while (counted_.at < text_.size() && (static_cast<unsigned char>(text_[counted_.at]) & 0xC0u) == 0x80u)
        ++counted_.at;
    }
    place.column = static_cast<uint32_t>(counted_.at - begin + 1);
    return place;
  }

 private:
  uint32_t source_;
  std::string_view text_;
  std::vector<size_t> line_begins_;
  struct {
    uint32_t line, column;  // in characters
    size_t at;
  } counted_ = {0, 0, 0};
};

/// The settings of a table, each checked by `check`; what is wrong goes to `problems`. `known_elsewhere`: a
/// key to leave out.
inline std::vector<FlowSetting> SettingsOf(
    const toml::table& table, TomlPlaces* places, const graph::Graph& names,
    const std::function<Status(std::string_view, std::string_view)>& check, std::string_view known_elsewhere,
    Problems* problems) {
  std::vector<FlowSetting> settings;
  for (const auto& [key, value] : InOrder(table)) {
    if (key->str() == known_elsewhere) continue;
    const SourcePlace place = places->At(value->source());
    const std::optional<std::string> text = ScalarText(*value);
    if (!text) {
      problems->Add(place, StrCat(Printable(key->str()), " is ", TypeName(*value),
                                  "; settings are texts, numbers, true or false"));
      continue;
    }
    if (const Status status = check ? check(key->str(), *text) : Status(); !status.ok()) {
      problems->Add(status.message().starts_with("unknown") ? places->At(key->source()) : place,
                    status.message());
      continue;
    }
    settings.push_back({std::string(key->str()), *text, names.PlaceText(place)});
  }
  return settings;
}

}  // namespace harrow::formats
