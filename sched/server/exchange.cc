#include "server/exchange.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/text.h"
#include "wire/decode.h"
#include "wire/harrow.pb.h"

namespace harrow::server {
namespace {

constexpr std::string_view kList = "made-";

}  // namespace

std::string OutFile::Name() const {
  return StrCat(file.value, "-", HexDigits(object), "-", bytes);
}

const OutFile* MadeFiles::Find(FileId file) const {
  const auto at = std::lower_bound(files.begin(), files.end(), file, [](const OutFile& one, FileId other) { return one.file < other; });
  return at != files.end() && at->file == file ? &*at : nullptr;
}

void MadeFiles::Add(const MadeFiles& other) {
  std::vector<OutFile> all;
  std::set_union(files.begin(), files.end(), other.files.begin(), other.files.end(), std::back_inserter(all),
                 [](const OutFile& a, const OutFile& b) { return a.file < b.file; });
  files = std::move(all);
}

void MadeFiles::Write(pb::MadeFiles* out) const {
  out->set_task(task.value);
  for (const OutFile& each : files) {
    pb::MadeFile* const told = out->add_file();
    told->set_file(each.file.value);
    told->set_object(each.object);
    told->set_bytes(each.bytes);
    told->set_shared(each.in_submit_dir);
  }
}

MadeFiles MadeFiles::Of(const pb::MadeFiles& message) {
  MadeFiles made{.task = TaskId(message.task()), .files = {}};
  for (const pb::MadeFile& each : message.file())
    made.files.push_back({.file = FileId(each.file()), .object = each.object(), .bytes = each.bytes(), .in_submit_dir = each.shared()});
  return made;
}

Result<MadeFiles> MadeFiles::Parse(std::string_view bytes) {
  pb::MadeFiles message;
  HARROW_RETURN_IF_ERROR(wire::Decode(bytes, &message));
  return Of(message);
}

std::string ListName(TaskId task, std::string_view unique) {
  return StrCat(kList, task.value, "-", unique);
}

std::optional<TaskId> TaskOfList(std::string_view name) {
  if (!name.starts_with(kList)) return {};
  name.remove_prefix(kList.size());
  uint32_t task = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), task);
  // What is being written has more dots than a list.
  if (error != std::errc() || end == name.data() + name.size() || *end != '-' || name.find('.') != name.npos) return {};
  return TaskId(task);
}

}  // namespace harrow::server
