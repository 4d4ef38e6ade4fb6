#include "os/flat_json.h"

#include <cstdio>
#include <simdjson.h>

#include "base/text.h"

namespace harrow::os {
namespace {

void AppendQuoted(std::string_view text, std::string* out) {
  out->push_back('"');
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(c));
      out->append(escaped);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

Status NotFlat(std::string_view what) {
  return Status(Code::kDamaged, StrCat("not the JSON expected: ", what));
}

}  // namespace

Result<FlatJson> FlatJson::Parse(std::string_view text) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  if (auto error = parser.parse(text.data(), text.size()).get(object))
    return NotFlat(simdjson::error_message(error));
  FlatJson out;
  for (auto [name, value] : object) {
    std::string key(name);
    if (out.strings_.contains(key) || out.numbers_.contains(key) || out.lists_.contains(key)) {
      return NotFlat(StrCat("\"", Printable(key), "\" is there twice"));
    }
    std::string_view string;
    int64_t number = 0;
    simdjson::dom::array array;
    if (value.get(string) == simdjson::SUCCESS) {
      out.Set(key, string);
    } else if (value.get(number) == simdjson::SUCCESS) {
      out.Set(key, number);
    } else if (value.get(array) == simdjson::SUCCESS) {
      auto& list = out.lists_[key];
      for (auto element : array) {
        if (element.get(string) != simdjson::SUCCESS)
          return NotFlat(StrCat("\"", Printable(key), "\" is no list of texts"));
        list.emplace_back(string);
      }
    } else {
      return NotFlat(StrCat("\"", Printable(key), "\" is no text, number or list"));
    }
  }
  return out;
}

std::string FlatJson::Text() const {
  std::string out = "{";
  auto begin = [&](const std::string& key) {
    out += out.size() == 1 ? "\n  " : ",\n  ";
    AppendQuoted(key, &out);
    out += ": ";
  };
  for (const auto& [key, value] : strings_) {
    begin(key);
    AppendQuoted(value, &out);
  }
  for (const auto& [key, value] : numbers_) {
    begin(key);
    out += StrCat(value);
  }
  for (const auto& [key, list] : lists_) {
    begin(key);
    out += "[";
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out += ", ";
      AppendQuoted(list[i], &out);
    }
    out += "]";
  }
  out += "\n}\n";
  return out;
}

std::string FlatJson::String(const std::string& key) {
  auto it = strings_.find(key);
  if (it != strings_.end()) return it->second;
  Missing(key, "text");
  return {};
}

int64_t FlatJson::Number(const std::string& key) {
  auto it = numbers_.find(key);
  if (it != numbers_.end()) return it->second;
  Missing(key, "number");
  return 0;
}

std::vector<std::string> FlatJson::List(const std::string& key) {
  auto it = lists_.find(key);
  if (it != lists_.end()) return it->second;
  Missing(key, "list");
  return {};
}

void FlatJson::Missing(const std::string& key, std::string_view what) {
  if (status_.ok()) status_ = NotFlat(StrCat("no ", what, " \"", key, "\""));
}

}  // namespace harrow::os
