#include "policy.h"

#include <charconv>
#include <string.h>

namespace harrow::plugin {
namespace {

template <class T>
bool ReadNumber(std::string_view text, T* out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

template <size_t N>
bool Copy(std::string_view text, char (&out)[N]) {
  if (text.size() >= N) return false;
  memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return true;
}

// An absolute path without control characters and without a way up; "/" itself holds no job directories.
bool IsDirectoryName(std::string_view path) {
  if (path.size() < 2 || path[0] != '/') return false;
  for (char c : path) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 127) return false;
  }
  for (size_t at = path.find("/.."); at != std::string_view::npos; at = path.find("/..", at + 1)) {
    if (at + 3 == path.size() || path[at + 3] == '/') return false;
  }
  return true;
}

template <size_t N>
bool ReadDirectory(std::string_view text, char (&out)[N]) {
  return text.size() <= 500 && IsDirectoryName(text) && Copy(text, out);
}

bool ReadSize(std::string_view text, uint64_t* out) {
  int shift = 0;
  if (!text.empty()) {
    size_t unit = std::string_view("KMGTP").find(text.back());
    if (unit != std::string_view::npos) {
      shift = 10 * (static_cast<int>(unit) + 1);
      text.remove_suffix(1);
    }
  }
  uint64_t n;
  if (!ReadNumber(text, &n) || n > (UINT64_MAX >> shift)) return false;
  *out = n << shift;
  return true;
}

bool ReadPorts(std::string_view text, uint32_t* first, uint32_t* last) {
  size_t dash = text.find('-');
  if (dash == std::string_view::npos) return false;
  uint32_t a, b;
  std::string_view left(text.data(), dash), right(text.data() + dash + 1, text.size() - dash - 1);
  if (!ReadNumber(left, &a) || !ReadNumber(right, &b) || a < 1024 || b > 65535 || a > b) return false;
  *first = a;
  *last = b;
  return true;
}

bool IsListOfNames(std::string_view text) {
  char previous = ',';
  for (char c : text) {
    bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                c == '-' || c == '.';
    if (!word && (c != ',' || previous == ',')) return false;
    previous = c;
  }
  return !text.empty() && previous != ',';
}

struct Key {
  std::string_view name;
  const char* expected;
  bool (*read)(std::string_view, Policy*);
};

constexpr Key kKeys[] = {
    {"local", "local=DIR with an absolute path of at most 500 letters",
     [](std::string_view v, Policy* p) { return ReadDirectory(v, p->local); }},
    {"state", "state=DIR with an absolute path of at most 500 letters",
     [](std::string_view v, Policy* p) { return ReadDirectory(v, p->state); }},
    {"local_limit", "local_limit=SIZE such as 200G",
     [](std::string_view v, Policy* p) { return ReadSize(v, &p->local_limit); }},
    {"ports", "ports=FIRST-LAST within 1024-65535",
     [](std::string_view v, Policy* p) { return ReadPorts(v, &p->port_first, &p->port_last); }},
    {"tasks_per_node", "tasks_per_node=NUMBER",
     [](std::string_view v, Policy* p) { return ReadNumber(v, &p->tasks_per_node); }},
    {"move_partitions", "move_partitions=NAME,NAME,...",
     [](std::string_view v, Policy* p) { return IsListOfNames(v) && Copy(v, p->move_partitions); }},
    {"order", "order=auto, fifo, lifo, hrf, lifo+hrf, rank+hrf or cost",
     [](std::string_view v, Policy* p) { return IsOrder(v) && Copy(v, p->order); }},
    {"files", "files=shared or local",
     [](std::string_view v, Policy* p) { return IsFiles(v) && Copy(v, p->files); }},
    {"epilog_time", "epilog_time=SECONDS, 1-86400",
     [](std::string_view v, Policy* p) {
       return ReadNumber(v, &p->epilog_time) && p->epilog_time >= 1 && p->epilog_time <= 86400;
     }},
};

}  // namespace

bool IsOrder(std::string_view text) {
  for (std::string_view order : kOrders) {
    if (text == order) return true;
  }
  return false;
}

bool IsFiles(std::string_view text) {
  for (std::string_view files : kFiles) {
    if (text == files) return true;
  }
  return false;
}

Policy ParsePolicy(int argc, char** argv, Complain complain) {
  Policy policy;
  for (int i = 0; i < argc; ++i) {
    if (argv == nullptr || argv[i] == nullptr) continue;
    std::string_view argument = argv[i];
    size_t equals = argument.find('=');
    std::string_view name(argument.data(), equals == std::string_view::npos ? argument.size() : equals);
    const char* expected =
        "one of local, state, local_limit, ports, tasks_per_node, move_partitions, order, files, epilog_time";
    bool good = false;
    for (const Key& key : kKeys) {
      if (name != key.name) continue;
      expected = key.expected;
      // Read into a copy: a broken value must not leave half of itself.
      Policy changed = policy;
      good = equals != std::string_view::npos &&
             key.read({argument.data() + equals + 1, argument.size() - equals - 1}, &changed);
      if (good) policy = changed;
    }
    if (!good && complain != nullptr) complain(argv[i], expected);
  }
  return policy;
}

}  // namespace harrow::plugin
