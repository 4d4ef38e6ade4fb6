#include "store/listing.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "base/text.h"

namespace harrow::store {
namespace {

constexpr std::string_view kMagic = "HRLIST 1";

void AppendNumber(std::string* out, uint64_t n, int bytes) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(n >> (8 * i)));
}

class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}
  bool AtEnd() const { return rest_.empty(); }
  bool Take(size_t size, std::string_view* out) {
    if (size > rest_.size()) return false;
    *out = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }
  bool Number(size_t bytes, uint64_t* out) {
    std::string_view text;
    if (!Take(bytes, &text)) return false;
    *out = 0;
    for (size_t i = bytes; i-- > 0;) *out = *out << 8 | static_cast<uint8_t>(text[i]);
    return true;
  }
  bool Text(size_t longest, std::string_view* out) {
    uint64_t size = 0;
    return Number(4, &size) && size <= longest && Take(static_cast<size_t>(size), out);
  }

 private:
  std::string_view rest_;
};

Status Damaged(std::string_view why, std::string_view path = {}) {
  return Status(Code::kDamaged, StrCat("a listing of a directory is damaged: ", why, path.empty() ? "" : ": ",
                                       Printable(path)));
}

/// What follows the path of an entry.
bool ReadRest(Input* in, Entry* entry) {
  std::string_view text;
  uint64_t bytes = 0;
  switch (entry->type) {
    case Entry::Type::kFile: {
      if (!in->Take(ObjectId::kSize, &text) || !in->Number(8, &bytes)) return false;
      const std::optional<ObjectId> id = ObjectId::FromBytes(text);
      if (!id || id->kind == Kind::kDirectory || bytes > std::numeric_limits<int64_t>::max()) return false;
      entry->id = *id;
      entry->bytes = static_cast<int64_t>(bytes);
      return true;
    }
    case Entry::Type::kDirectory:
      return true;
    case Entry::Type::kLink:
      if (!in->Text(kLongestTarget, &text) || text.empty() || text.find('\0') != text.npos) return false;
      entry->target = text;
      return true;
  }
  return false;
}

}  // namespace

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

bool IsPath(std::string_view path) {
  if (path.size() > kLongestPath) return false;
  for (;;) {
    const size_t slash = path.find('/');
    if (!IsName(path.substr(0, slash))) return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

std::string WriteListing(const std::vector<Entry>& entries) {
  std::string out(kMagic);
  for (const Entry& entry : entries) {
    out.push_back(static_cast<char>(entry.type));
    AppendNumber(&out, entry.path.size(), 4);
    out += entry.path;
    if (entry.type == Entry::Type::kFile) {
      out += entry.id.Bytes();
      AppendNumber(&out, static_cast<uint64_t>(entry.bytes), 8);
    } else if (entry.type == Entry::Type::kLink) {
      AppendNumber(&out, entry.target.size(), 4);
      out += entry.target;
    }
  }
  return out;
}

Result<std::vector<Entry>> ReadListing(std::string_view bytes) {
  if (bytes.size() > kLargestListing) return Damaged("it is too large");
  if (!bytes.starts_with(kMagic)) return Damaged("its beginning is not that of format 1");
  Input in(bytes.substr(kMagic.size()));
  std::vector<Entry> entries;
  // Positions in `bytes`, which stay; those of `entries` move as it grows.
  std::unordered_set<std::string_view> directories;
  std::string_view before;
  int64_t total = 0;
  while (!in.AtEnd()) {
    Entry entry;
    uint64_t type = 0;
    std::string_view path;
    if (!in.Number(1, &type) || type < 1 || type > 3 || !in.Text(kLongestPath, &path)) {
      return Damaged("an entry is not whole", before);
    }
    if (!IsPath(path)) return Damaged("a path that leads nowhere below it", path);
    if (!before.empty() && path <= before) return Damaged("a path that is not in order", path);
    const size_t slash = path.rfind('/');
    if (slash != path.npos && !directories.contains(path.substr(0, slash))) {
      return Damaged("a path below what is no directory", path);
    }
    entry.type = static_cast<Entry::Type>(type);
    entry.path = path;
    if (!ReadRest(&in, &entry)) return Damaged("an entry is not whole", path);
    if (entry.bytes > std::numeric_limits<int64_t>::max() - total) return Damaged("too many bytes", path);
    total += entry.bytes;
    if (entry.type == Entry::Type::kDirectory) directories.insert(path);
    entries.push_back(std::move(entry));
    before = path;
  }
  return entries;
}

std::vector<Object> FilesOf(const std::vector<Entry>& entries) {
  std::vector<Object> files;
  for (const Entry& entry : entries) {
    if (entry.type == Entry::Type::kFile) files.push_back({entry.id, entry.bytes});
  }
  std::sort(files.begin(), files.end());
  const auto same = [](const Object& a, const Object& b) { return a.id == b.id; };
  files.erase(std::unique(files.begin(), files.end(), same), files.end());
  return files;
}

int64_t BytesOf(const std::vector<Entry>& entries) {
  int64_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  return total;
}

}  // namespace harrow::store
