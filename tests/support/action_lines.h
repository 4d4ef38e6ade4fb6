#pragma once

#include <string>

#include "base/text.h"
#include "core/event.h"

namespace harrow::test {

inline std::string Line(AttemptId id) { return StrCat(id.task.value, "/", id.number); }
inline std::string Line(NodeId node) { return node ? StrCat("@", node.value) : "@-"; }

struct ActionLine {
  std::string operator()(const core::StartTask& a) const {
    return StrCat(a.ahead ? "ahead " : "start ", Line(a.attempt), Line(a.node), " ", a.local_bytes, " ", a.remote_bytes, " ", a.home_bytes);
  }
  std::string operator()(const core::TakeBack& a) const { return StrCat("back ", Line(a.attempt), Line(a.node)); }
  std::string operator()(const core::CancelTask& a) const {
    return StrCat(a.as_lost ? "lost " : "cancel ", Line(a.attempt), Line(a.node));
  }
  std::string operator()(const core::TaskSettled& a) const {
    return StrCat("settled ", a.task.value, " ", static_cast<int>(a.state), " ", a.because.value, " ", static_cast<int>(a.reason));
  }
  std::string operator()(const core::RunComplete&) const { return "complete"; }
  std::string operator()(const core::JoinGang& a) const { return StrCat("join ", a.task.value, Line(a.node)); }
  std::string operator()(const core::NodePutAside& a) const {
    return StrCat("aside ", Line(a.node), " ", a.failures, a.cut_off ? " cut off" : "");
  }
  std::string operator()(const core::WakeAt& a) const { return StrCat("wake ", a.time.time_since_epoch().count()); }
  std::string operator()(const core::CopyFile& a) const {
    return StrCat("copy ", a.file.value, Line(a.to), Line(a.from), " ", a.reader.value);
  }
  std::string operator()(const core::AskOthers& a) const { return StrCat("others ", a.task.value); }
  std::string operator()(const core::DropFile& a) const {
    return StrCat("drop ", a.file.value, Line(a.node), a.damaged ? " damaged" : "");
  }
  std::string operator()(const core::RefuseFile& a) const { return StrCat("refuse ", a.file.value, Line(a.node)); }
  std::string operator()(const core::ReadFrom& a) const {
    return StrCat("read ", Line(a.reader), Line(a.at), " ", a.stream.value, " ", Line(a.writer), Line(a.from), a.gone ? " gone" : "");
  }
  std::string operator()(const core::StreamOpen& a) const {
    return StrCat("stream ", Line(a.reader), Line(a.at), " ", a.stream.value, a.open ? " open" : "", a.yield ? " yield" : "");
  }
  std::string operator()(const core::CloseOutput& a) const { return StrCat("close ", Line(a.writer), Line(a.node)); }
  std::string operator()(const core::DropWritten& a) const { return StrCat("written ", Line(a.writer), Line(a.node)); }
  std::string operator()(const core::AskCheckpoint& a) const { return StrCat("ask ", Line(a.attempt), Line(a.node)); }
};

/// All that a scheduler's action says, in numbers.
inline std::string Line(const core::Action& action) { return std::visit(ActionLine(), action); }

}  // namespace harrow::test
