#include "run/added.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "run/flow_builder.h"
#include "run/flow_frames.h"
#include "run_dir/names.h"

// A submission is acknowledged when its group, one frame, is on disk. So a crash can leave no more than a last
// frame that is not whole, which nobody was told of: it is passed over, and cut off before more is written. A
// frame that is not whole and not the last one is damage.
//
// A resume writes the whole flow anew (run/resume.cc), what was submitted with it, and this file goes. If a
// crash comes in between, its head does not fit the flow any more: that has more tasks, or another id.

namespace harrow::run {
namespace {

constexpr char kAddedMagic[] = "HARROWAD";
constexpr uint32_t kAddedVersion = 1;
constexpr size_t kAddedHeader = 12;  // magic and version

struct Walked {
  bool fits = false;  // it is for that flow
  size_t whole = 0;   // bytes up to the end of the last whole frame
};

Status Damaged(const std::string& path, std::string_view what) {
  return Status(Code::kDamaged, StrCat(path, ": what was submitted to the run is damaged (", what,
                                       "); start a new run in another directory"));
}

bool IsZero(std::string_view data) {
  return std::all_of(data.begin(), data.end(), [](char c) { return c == 0; });
}

/// From `at` on, where a frame begins; with `head` the one that says of which flow the file is.
Status WalkFrames(const std::string& path, std::string_view data, size_t at, bool head, const std::string& flow_id, uint32_t tasks,
                  const std::function<Status(const pb::AddedGroup&)>& take, Walked* walked) {
  bool first = head;
  std::string raw;
  for (walked->whole = at; at < data.size(); walked->whole = at) {
    FrameHeader header;
    const FrameState state = TakeFrame(data, &at, &raw, &header);
    if (state != FrameState::kWhole) {
      const bool last = state == FrameState::kCut || at == data.size() || IsZero(data.substr(walked->whole));
      if (!last || first) return Damaged(path, "a part is not whole");
      return {};
    }
    if (std::exchange(first, false)) {
      pb::AddedHead of;
      if (!of.ParseFromString(raw)) return Damaged(path, "its head does not read");
      walked->fits = of.flow_id() == flow_id && of.tasks() == tasks;
      if (!walked->fits) return {};
      continue;
    }
    pb::AddedGroup group;
    if (!group.ParseFromString(raw)) return Damaged(path, "a part does not read");
    HARROW_RETURN_IF_ERROR(take(group));
  }
  return first ? Damaged(path, "it has no head") : Status();
}

Result<Walked> Walk(const std::string& path, std::string_view data, const std::string& flow_id,
                    uint32_t tasks, const std::function<Status(const pb::AddedGroup&)>& take) {
  if (data.size() < kAddedHeader || data.substr(0, 8) != std::string_view(kAddedMagic, 8))
    return Damaged(path, "it does not begin as such a file does");
  if (GetInteger<uint32_t>(data, 8) != kAddedVersion) {
    return Status(Code::kDamaged, StrCat(path, ": version ", GetInteger<uint32_t>(data, 8),
                                         " of what was submitted to the run; this harrow reads version ", kAddedVersion));
  }
  Walked walked;
  HARROW_RETURN_IF_ERROR(WalkFrames(path, data, kAddedHeader, true, flow_id, tasks, take, &walked));
  return walked;
}

Status TakeSubmissions(const std::string& path, const pb::AddedGroup& group, uint32_t tasks,
                       std::vector<Submission>* submissions) {
  for (const pb::AddedSubmission& told : group.submission()) {
    Submission submission{.id = told.id(), .tasks = {}};
    for (const uint32_t task : told.task()) {
      if (task >= tasks) return Damaged(path, "a task is missing");
      submission.tasks.push_back(TaskId(task));
    }
    if (submissions != nullptr) submissions->push_back(std::move(submission));
  }
  return {};
}

}  // namespace

Status ReadAddedChunks(run_dir::RunDir& dir, const std::string& flow_id, uint32_t tasks,
                       const std::function<Status(const pb::AddedGroup&)>& take) {
  const std::string path = run_dir::AddedPath(dir.path());
  const Result<std::string> data = dir.Read(path);
  if (data.status().code() == Code::kNotFound) return {};
  if (!data.ok()) return data.status();
  return Walk(path, *data, flow_id, tasks, take).status();
}

Status ReadAddedOn(run_dir::RunDir& dir, const std::string& flow_id, uint32_t tasks, uint64_t* at,
                   const std::function<Status(const pb::AddedGroup&)>& take) {
  const std::string path = run_dir::AddedPath(dir.path());
  const Result<std::string> data = *at == 0 ? dir.Read(path) : dir.ReadRange(path, *at, UINT64_MAX);
  if (data.status().code() == Code::kNotFound) return {};
  if (!data.ok()) return data.status();
  if (*at == 0) {
    const Result<Walked> walked = Walk(path, *data, flow_id, tasks, take);
    if (!walked.ok()) return walked.status();
    if (walked->fits) *at = walked->whole;
    return {};
  }
  Walked walked;
  const Status went = WalkFrames(path, *data, 0, false, flow_id, tasks, take, &walked);
  *at += walked.whole;  // what was taken is not taken again, whatever follows it
  return went;
}

Status ReadAdded(run_dir::RunDir& dir, const std::string& flow_id, FlowBuilder* builder,
                 std::vector<Submission>* submissions) {
  const uint32_t before = builder->tasks();
  const std::string path = run_dir::AddedPath(dir.path());
  HARROW_RETURN_IF_ERROR(ReadAddedChunks(dir, flow_id, before, [&](const pb::AddedGroup& group) {
    if (group.chunk().has_settings()) return Damaged(path, "a part is of another file");
    if (const Status added = builder->AddGroup(group); !added.ok()) return Damaged(path, added.message());
    return TakeSubmissions(path, group, builder->tasks(), submissions);
  }));
  if (const Status sealed = builder->Seal(); !sealed.ok()) return Damaged(path, sealed.message());
  return {};
}

Result<std::vector<Submission>> ReadSubmissions(run_dir::RunDir& first_part, const std::string& flow_id, uint32_t flow_tasks) {
  std::vector<Submission> submissions;
  uint32_t tasks = flow_tasks;
  const Status read = ReadAddedChunks(first_part, flow_id, flow_tasks, [&](const pb::AddedGroup& group) {
    tasks += static_cast<uint32_t>(group.chunk().task_size());
    return TakeSubmissions(run_dir::AddedPath(first_part.path()), group, tasks, &submissions);
  });
  if (!read.ok()) return read;
  return submissions;
}

Status AddedFile::Open() {
  const std::string path = run_dir::AddedPath(dir_.path());
  const Result<std::string> data = dir_.Read(path);
  bool goes_on = false;
  if (data.ok()) {
    const Result<Walked> walked =
        Walk(path, *data, flow_id_, tasks_, [](const pb::AddedGroup&) { return Status(); });
    if (!walked.ok()) return walked.status();
    goes_on = walked->fits;
    if (goes_on && walked->whole < data->size())
      HARROW_RETURN_IF_ERROR(dir_.WriteWhole(path, std::string_view(*data).substr(0, walked->whole), 0600));
  } else if (data.status().code() != Code::kNotFound) {
    return data.status();
  }
  if (!goes_on) {
    std::string head(kAddedMagic, 8);
    PutInteger<uint32_t>(&head, kAddedVersion);
    pb::AddedHead fits;
    fits.set_flow_id(flow_id_);
    fits.set_tasks(tasks_);
    HARROW_RETURN_IF_ERROR(AppendFrame(fits, &head));
    HARROW_RETURN_IF_ERROR(dir_.WriteWhole(path, head, 0600));
  }
  Result<std::unique_ptr<os::AppendFile>> file = dir_.OpenAppend(path, 0600);
  if (!file.ok()) return file.status();
  file_ = *std::move(file);
  return {};
}

Status AddedFile::Append(const pb::AddedGroup& group) {
  std::string frame;
  HARROW_RETURN_IF_ERROR(AppendFrame(group, &frame));
  if (file_ == nullptr) HARROW_RETURN_IF_ERROR(Open());
  HARROW_RETURN_IF_ERROR(file_->Append(frame));
  return file_->Sync();
}

}  // namespace harrow::run
