#include "formats/pattern.h"

#include <algorithm>

#include "base/text.h"

namespace harrow::formats {
namespace {

/// One set "[...]" at the start of *pattern against c; takes it from the pattern. An unclosed one is a plain
/// "[".
bool MatchSet(std::string_view* pattern, char c) {
  std::string_view p = pattern->substr(1);
  bool negated = false;
  if (!p.empty() && (p.front() == '!' || p.front() == '^')) {
    negated = true;
    p.remove_prefix(1);
  }
  const size_t close = p.find(']', 1);  // a "]" in first place is a member
  if (p.empty() || close == std::string_view::npos ||
      p.substr(0, close).find('/') != std::string_view::npos) {
    pattern->remove_prefix(1);
    return c == '[';
  }
  const std::string_view members = p.substr(0, close);
  bool found = false;
  const auto byte = [](char x) { return static_cast<unsigned char>(x); };
  for (size_t i = 0; i < members.size(); ++i) {
    if (i + 2 < members.size() && members[i + 1] == '-') {
      found |= byte(members[i]) <= byte(c) && byte(c) <= byte(members[i + 2]);
      i += 2;
    } else {
      found |= members[i] == c;
    }
  }
  *pattern = p.substr(close + 1);
  return found != negated;
}

/// Bytes of the character that begins at the start of `s`: ? stands for a whole one.
size_t CharLength(std::string_view s) {
  size_t n = 1;
  while (n < s.size() && n < 4 && (static_cast<unsigned char>(s[n]) & 0xC0u) == 0x80u) ++n;
  return n;
}

/// Within one directory level. Linear: only the last * is ever tried again.
bool MatchComponent(std::string_view pattern, std::string_view name) {
  if (!name.empty() && name.front() == '.' && (pattern.empty() || pattern.front() != '.')) return false;
  std::string_view star_pattern, star_name;
  bool star = false;
  while (true) {
    if (!pattern.empty() && pattern.front() == '*') {
      pattern.remove_prefix(1);
      star = true;
      star_pattern = pattern;
      star_name = name;
      continue;
    }
    if (name.empty() && pattern.empty()) return true;
    bool matched = false;
    if (!name.empty() && !pattern.empty()) {
      if (pattern.front() == '?') {
        matched = true;
        name.remove_prefix(CharLength(name));
        pattern.remove_prefix(1);
      } else if (pattern.front() == '[') {
        matched = MatchSet(&pattern, name.front());
        name.remove_prefix(1);
      } else if (pattern.front() == name.front()) {
        matched = true;
        name.remove_prefix(1);
        pattern.remove_prefix(1);
      }
    }
    if (matched) continue;
    if (!star || star_name.empty()) return false;
    star_name.remove_prefix(1);
    name = star_name;
    pattern = star_pattern;
  }
}

std::string_view TakeComponent(std::string_view* path) {
  const size_t slash = path->find('/');
  const std::string_view part = path->substr(0, slash);
  path->remove_prefix(slash == std::string_view::npos ? path->size() : slash + 1);
  return part;
}

std::string Join(const std::string& directory, std::string_view name) {
  if (directory.empty() || name.starts_with("/")) return std::string(name);
  if (name.empty()) return directory;
  return directory.back() == '/' ? StrCat(directory, name) : StrCat(directory, "/", name);
}

}  // namespace

bool IsPattern(std::string_view text) {
  return text.find_first_of("*?[") != std::string_view::npos;
}

bool MatchesPattern(std::string_view pattern, std::string_view name) {
  while (pattern.starts_with("./")) pattern.remove_prefix(2);
  while (true) {
    const bool more_pattern = pattern.find('/') != std::string_view::npos,
               more_name = name.find('/') != std::string_view::npos;
    if (more_pattern != more_name) return false;
    if (!MatchComponent(TakeComponent(&pattern), TakeComponent(&name))) return false;
    if (!more_pattern) return true;
  }
}

void FileMatcher::SetOutputs(std::vector<std::string_view> names) {
  outputs_ = PatternIndex(std::move(names));
}

std::vector<std::string_view> FileMatcher::MatchOutputs(std::string_view pattern) const {
  while (pattern.starts_with("./")) pattern.remove_prefix(2);
  std::vector<std::string_view> found = outputs_.Candidates(pattern);
  std::erase_if(found, [pattern](std::string_view name) { return !MatchesPattern(pattern, name); });
  return found;
}

const PatternIndex& FileMatcher::List(const std::string& directory) {
  auto [at, added] = listings_.try_emplace(directory);
  if (added) {
    const std::string path = Join(directory_, directory);
    if (Result<std::vector<std::string>> names = fs_.List(path.empty() ? "." : path)) {
      at->second.names = std::move(*names);
      at->second.index = PatternIndex({at->second.names.begin(), at->second.names.end()});
    }
  }
  return at->second.index;
}

std::vector<std::string> FileMatcher::MatchExisting(std::string_view pattern) {
  while (pattern.starts_with("./")) pattern.remove_prefix(2);
  std::vector<std::string> found = {""};
  if (pattern.starts_with("/")) {
    found = {"/"};
    pattern.remove_prefix(1);
  }
  while (!pattern.empty() && !found.empty()) {
    const bool last = pattern.find('/') == std::string_view::npos;
    const std::string_view part = TakeComponent(&pattern);
    if (part.empty()) continue;
    std::vector<std::string> next;
    for (const std::string& base : found) {
      const std::string prefix = base.empty() || base.back() == '/' ? base : base + "/";
      if (!IsPattern(part) && !last) {
        next.push_back(StrCat(prefix, part));
        continue;
      }
      for (std::string_view name : List(base).Candidates(part)) {
        if (MatchComponent(part, name)) next.push_back(StrCat(prefix, name));
      }
    }
    found = std::move(next);
  }
  return found;
}

bool FileMatcher::Exists(std::string_view name) {
  while (name.size() > 1 && name.ends_with("/")) name.remove_suffix(1);
  const size_t slash = name.rfind('/');
  const std::string_view base = slash == std::string_view::npos ? name : name.substr(slash + 1);
  if (base.empty() || base == "." || base == "..") return fs_.Stat(Join(directory_, name)).ok();
  return List(std::string(slash == std::string_view::npos ? ""
                          : slash == 0                    ? "/"
                                                          : name.substr(0, slash)))
      .Contains(base);
}

}  // namespace harrow::formats
