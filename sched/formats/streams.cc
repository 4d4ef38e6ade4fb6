#include "formats/streams.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "formats/pattern.h"
#include "formats/pattern_index.h"
#include "formats/text_rules.h"

namespace harrow::formats {

void StreamEnds::Add(TaskId task, std::string name, SourcePlace place, bool writer, bool split, Records records) {
  const std::string_view key = writer ? "to" : "from";
  if (name.empty() || name.size() > 1024) {
    problems_->Add(place, name.empty() ? StrCat(key, " names a stream with an empty name; leave it out")
                                       : StrCat(key, " names a stream of ", name.size(),
                                                " bytes; at most 1024 are taken"));
    return;
  }
  if (!IsPattern(name)) named_.try_emplace(name, graph_->AddStream(name));
  ends_.push_back({task, std::move(name), place, writer, split, records});
}

void StreamEnds::Connect(const End& end, StreamId stream) {
  Shared& shared = shared_[stream.value];
  if (end.writer) {
    graph_->AddWriter(stream, end.task);
    if (!shared.written) {
      shared.written = true;
      shared.records = end.records;
      shared.written_place = end.place;
      graph_->SetRecords(stream, end.records);
    } else if (shared.records != end.records) {
      problems_->Add(end.place, StrCat("stream \"", Printable(graph_->streams()[stream.value].name),
                                       "\" consists of other records for another of its writers (",
                                       graph_->PlaceText(shared.written_place),
                                       "); write the same records for all that write it"));
    }
    return;
  }
  if (!shared.known) {
    shared.known = true;
    shared.split = end.split;
    shared.place = end.place;
  }
  if (shared.split != end.split)
    problems_->Add(end.place,
                   StrCat("stream \"", Printable(graph_->streams()[stream.value].name),
                          "\" is split for some readers and whole for others (",
                          graph_->PlaceText(shared.place), "); write the same share for all that read it"));
  if (end.split) graph_->SetSplit(stream);
  graph_->AddReader(stream, end.task);
}

void StreamEnds::Link() {
  if (ends_.empty()) return;
  shared_.resize(graph_->streams().size());
  std::vector<std::string_view> names;
  for (const auto& [name, stream] : named_) names.push_back(name);
  std::optional<PatternIndex> index;
  std::unordered_map<std::string, std::vector<StreamId>> matching;
  for (const bool writers : {true, false}) {
    for (const End& end : ends_) {
      if (end.writer != writers) continue;
      if (problems_->full()) return;
      if (const auto named = named_.find(end.name); named != named_.end()) {
        if (!end.writer && graph_->streams()[named->second.value].writers.empty()) {
          std::vector<std::string_view> written;
          for (const graph::Stream& stream : graph_->streams()) {
            if (!stream.writers.empty()) written.push_back(stream.name);
          }
          std::sort(written.begin(), written.end());
          const auto near = Suggest(end.name, written);
          problems_->Add(end.place, StrCat("no task writes stream \"", Printable(end.name), "\"",
                                           near ? StrCat("; did you mean \"", Printable(*near), "\"?")
                                                : "; name it in the to of the task that writes it"));
          continue;
        }
        Connect(end, named->second);
        continue;
      }
      const auto [found, added] = matching.try_emplace(end.name);
      if (added) {
        if (!index) index.emplace(names);
        for (const std::string_view name : index->Candidates(end.name)) {
          if (MatchesPattern(end.name, name)) found->second.push_back(named_.at(std::string(name)));
        }
        std::sort(found->second.begin(), found->second.end());
      }
      // What nobody writes is no stream yet.
      size_t count = 0;
      for (const StreamId stream : found->second) {
        if (!end.writer && graph_->streams()[stream.value].writers.empty()) continue;
        Connect(end, stream);
        ++count;
      }
      if (count == 0)
        problems_->Add(end.place, StrCat("\"", Printable(end.name), "\" matches no stream that a task ",
                                         end.writer ? "names" : "writes",
                                         "; correct it, or name the stream in some task's ",
                                         end.writer ? "from" : "to"));
    }
  }
  uint64_t links = 0;
  for (const End& end : ends_) {
    if (end.writer) continue;
    const auto named = named_.find(end.name);
    const auto connect = [&](StreamId stream) {
      for (const TaskId writer : graph_->streams()[stream.value].writers) {
        if (++links > kMostLinks) return;
        if (writer == end.task) {
          problems_->Add(end.place,
                         StrCat("task \"", Printable(graph_->TaskName(writer)), "\" reads stream \"",
                                Printable(graph_->streams()[stream.value].name),
                                "\", which it writes itself; let another task read it"));
          continue;
        }
        graph_->AddDependency(writer, end.task, graph::WaitsFor::kStart);
      }
    };
    if (named != named_.end()) {
      connect(named->second);
    } else {
      for (const StreamId stream : matching[end.name]) connect(stream);
    }
    if (links <= kMostLinks) continue;
    problems_->AddLast(end.place,
                       StrCat("streams mean more than ", kMostLinks,
                              " pairs of writer and reader; put one task between the two families"));
    return;
  }
}

}  // namespace harrow::formats
