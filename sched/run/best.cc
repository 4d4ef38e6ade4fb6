#include "run/best.h"

#include <cmath>
#include <utility>

#include "base/text.h"
#include "run/flow_frames.h"
#include "run_dir/names.h"
#include "wire/harrow.pb.h"

namespace harrow::run {
namespace {

constexpr char kBestMagic[] = "HARROWBV";
constexpr uint32_t kBestVersion = 1;
constexpr size_t kBestHeader = 12;  // magic and version

Result<BestValue> ReadPart(run_dir::RunDir& part) {
  const std::string path = run_dir::BestPath(part.path());
  const auto damaged = [&](std::string_view what) {
    return Status(Code::kDamaged, StrCat(path, ": the best value of the run is damaged (", what, "); without the file the run forgets it"));
  };
  const Result<std::string> data = part.Read(path, 2 * kMostSolution);
  if (!data.ok()) return data.status();
  if (data->size() < kBestHeader || data->substr(0, 8) != std::string_view(kBestMagic, 8)) return damaged("it does not begin as such a file does");
  if (GetInteger<uint32_t>(*data, 8) != kBestVersion) return damaged(StrCat("version ", GetInteger<uint32_t>(*data, 8)));
  size_t at = kBestHeader;
  std::string raw;
  FrameHeader header;
  pb::BestValue best;
  if (TakeFrame(*data, &at, &raw, &header) != FrameState::kWhole || !best.ParseFromString(raw) || std::isnan(best.value()))
    return damaged("it does not read");
  return BestValue{best.value(), std::move(*best.mutable_solution())};
}

}  // namespace

Status WriteBest(run_dir::RunDir& part, const BestValue& best) {
  pb::BestValue message;
  message.set_value(best.value);
  message.set_solution(best.solution);
  std::string data(kBestMagic, 8);
  PutInteger<uint32_t>(&data, kBestVersion);
  HARROW_RETURN_IF_ERROR(AppendFrame(message, &data));
  return part.WriteWhole(run_dir::BestPath(part.path()), data, 0600);
}

Result<std::optional<BestValue>> ReadBest(const std::shared_ptr<run_dir::RunDir>& run) {
  const Result<std::vector<uint32_t>> numbers = run_dir::PartNumbers(*run);
  if (!numbers.ok()) return numbers.status();
  std::optional<BestValue> best;
  Status damage;
  for (const uint32_t number : *numbers) {
    const Result<run_dir::Part> part = run_dir::OpenPart(run, StrCat(number));
    if (!part.ok()) continue;  // one that is being made
    Result<BestValue> read = ReadPart(*part->dir);
    if (read.ok() && (!best || read->value < best->value)) best = *std::move(read);
    if (!read.ok() && read.status().code() != Code::kNotFound) damage = read.status();
  }
  if (!best && !damage.ok()) return damage;
  return best;
}

}  // namespace harrow::run
