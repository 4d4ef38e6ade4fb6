#include "run_dir/rendezvous.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "os/flat_json.h"
#include "os/random.h"
#include "run_dir/names.h"

namespace harrow::run_dir {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr uint64_t kLargestRendezvous = 64u << 10;
constexpr uint32_t kFileVersion = 1;

/// Empty when it is not hexadecimal.
std::string FromHex(std::string_view hex) {
  auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  std::string out;
  if (hex.size() % 2 != 0) return out;
  for (size_t i = 0; i < hex.size(); i += 2) {
    int high = digit(hex[i]), low = digit(hex[i + 1]);
    if (high < 0 || low < 0) return {};
    out.push_back(static_cast<char>(high * 16 + low));
  }
  return out;
}

}  // namespace

Status WriteRendezvous(os::FileSystem& fs, const std::string& run_dir, const Rendezvous& r) {
  os::FlatJson json;
  json.Set("version", int64_t{kFileVersion});
  json.Set("run_id", r.run_id);
  json.Set("epoch", static_cast<int64_t>(r.epoch));
  json.Set("addresses", r.addresses);
  json.Set("key", HexDigits(r.key));
  json.Set("host", r.host);
  json.Set("pid", r.pid);
  return fs.WriteWhole(ServerPath(run_dir), json.Text(), 0600);
}

Result<Rendezvous> ParseRendezvous(std::string_view text) {
  Result<os::FlatJson> json = os::FlatJson::Parse(text);
  if (!json.ok()) return json.status();
  Rendezvous r;
  int64_t version = json->Number("version");
  HARROW_RETURN_IF_ERROR(json->status());
  if (version != kFileVersion) {
    return Status(Code::kRefused,
                  StrCat("version ", version, " of another Harrow; this one knows version ", kFileVersion));
  }
  r.version = kFileVersion;
  r.run_id = json->String("run_id");
  int64_t epoch = json->Number("epoch");
  r.addresses = json->List("addresses");
  r.key = FromHex(json->String("key"));
  r.host = json->String("host");
  r.pid = json->Number("pid");
  HARROW_RETURN_IF_ERROR(json->status());
  if (r.key.size() != kKeyBytes) return Status(Code::kDamaged, "the key is not 32 bytes in hexadecimal");
  if (epoch < 0) return Status(Code::kDamaged, "the epoch is negative");
  r.epoch = static_cast<uint64_t>(epoch);
  return r;
}

Result<Rendezvous> ReadRendezvous(os::FileSystem& fs, const std::string& run_dir) {
  std::string path = ServerPath(run_dir);
  Result<std::string> text = fs.ReadPrivate(path, kLargestRendezvous);
  if (!text.ok()) return text.status();
  Result<Rendezvous> r = ParseRendezvous(*text);
  if (!r.ok()) return Status(r.status().code(), StrCat(path, ": ", r.status().message()));
  return r;
}

std::string NewKey() {
  std::string key(kKeyBytes, '\0');
  if (!os::RandomBytes(key.data(), key.size())) {
    perror("harrow: getrandom");  // a weak key must never be used
    abort();
  }
  return key;
}

}  // namespace harrow::run_dir
