#include "topology/fabric.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/text.h"

namespace harrow::topology {
namespace {

/// The first entry of the directory whose name begins so; empty: there is none.
std::string EntryOf(const std::string& directory, std::string_view begins) {
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.starts_with(begins)) return name;
  }
  if (!error || error == std::errc::no_such_file_or_directory) return {};
  return StrCat("what cannot be seen (", directory, ": ", error.message(), ")");
}

}  // namespace

std::string Fabric(const std::string& root) {
  struct Place {
    const char* directory;
    const char* begins;
  };
  constexpr Place kPlaces[] = {{"/sys/class/infiniband", ""}, {"/sys/class/cxi", ""}, {"/sys/class/usnic_verbs", ""}, {"/dev/infiniband", "uverbs"}, {"/dev", "hfi1"}, {"/dev", "kgni"}};
  for (const Place& place : kPlaces) {
    if (const std::string name = EntryOf(StrCat(root, place.directory), place.begins); !name.empty()) return name;
  }
  return {};
}

}  // namespace harrow::topology
