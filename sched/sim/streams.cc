// A reader may begin when its writers have, which is the scheduler's to say. From then on what was written on
// other nodes comes over the links, from one node after the other; it holds its slot until it has computed,
// that has come, and its writers have ended. What comes is not held up by a writer that still computes: it
// cannot end before that does.
//
// What the scheduler tells of its writers (ReadFrom) is obeyed as by an agent: who has begun by an attempt
// that is told to be another one has read what is void, and begins anew.

#include "sim/streams.h"

#include <algorithm>

namespace harrow::sim {

Streams::Source& Streams::SourceOf(Reading* reading, TaskId writer) const {
  for (Source& source : reading->sources) {
    if (source.writer.task == writer) return source;
  }
  Source source;
  source.writer = {writer, 0};
  for (const graph::StreamEnd& read : graph_.streams_read(reading->id.task)) {
    const StreamId stream = read.second;
    const graph::Stream& of = graph_.streams()[stream.value];
    const auto ends = graph_.streams_written(writer);
    const bool writes = std::any_of(ends.begin(), ends.end(), [&](const auto& end) { return end.second == stream; });
    if (writes)
      source.bytes += work_[writer.value].stream_bytes / (of.split ? static_cast<double>(of.readers.size()) : 1);
  }
  reading->sources.push_back(source);
  return reading->sources.back();
}

void Streams::Sent(uint32_t attempt, AttemptId id) {
  Reading& reading = readings_[attempt];
  reading.id = id;
  by_id_[id] = attempt;
  for (const auto& [task, stream] : graph_.streams_read(id.task)) {
    for (const TaskId writer : graph_.streams()[stream.value].writers) SourceOf(&reading, writer);
  }
}

uint32_t Streams::Find(AttemptId reader) const {
  const auto found = by_id_.find(reader);
  return found == by_id_.end() ? kNone : found->second;
}

bool Streams::Told(const core::ReadFrom& read) {
  const uint32_t attempt = Find(read.reader);
  if (attempt == kNone) return false;
  Reading& reading = readings_[attempt];
  Source& source = SourceOf(&reading, read.writer.task);
  if (!read.from) {
    const bool some = reading.begun && source.writer.number != 0;
    if (!read.gone) {
      source.writer.number = 0;
      return some;
    }
    const bool come = source.from == reading.at || (!reading.arriving && reading.next == reading.to_come.size());
    source.gone = !(some && come && source.writer == read.writer);
    return reading.begun && source.gone;
  }
  source.gone = false;
  const bool first = source.writer.number == 0;
  const bool changed = reading.begun && !first && source.writer != read.writer;
  source.writer = read.writer;
  source.from = read.from;
  if (reading.begun && first) MayCome(&reading, source);
  return changed;
}

void Streams::MayCome(Reading* reading, const Source& source) {
  if (!source.from || source.from == reading->at || source.bytes <= 0) return;
  const auto same = std::find_if(reading->to_come.begin() + static_cast<ptrdiff_t>(reading->next),
                                 reading->to_come.end(),
                                 [&](const Transfer& t) { return t.from == source.from; });
  if (same != reading->to_come.end()) {
    same->bytes += source.bytes;
  } else {
    reading->to_come.push_back({source.from, source.bytes});
  }
}

bool Streams::Begins(uint32_t attempt, NodeId at) {
  Reading& reading = readings_[attempt];
  reading.begun = true;
  reading.at = at;
  for (const Source& source : reading.sources) MayCome(&reading, source);
  return std::none_of(reading.sources.begin(), reading.sources.end(), [](const Source& s) { return s.gone; });
}

Streams::Transfer Streams::Next(uint32_t attempt) {
  Reading& reading = readings_[attempt];
  reading.arriving = reading.next < reading.to_come.size();
  return reading.arriving ? reading.to_come[reading.next++] : Transfer();
}

void Streams::Computed(uint32_t attempt, double seconds) {
  readings_[attempt].computed = seconds;
}

bool Streams::MayEnd(uint32_t attempt) const {
  const auto found = readings_.find(attempt);
  if (found == readings_.end()) return true;
  const Reading& reading = found->second;
  if (reading.computed < 0 || reading.arriving || reading.next < reading.to_come.size()) return false;
  return std::all_of(reading.sources.begin(), reading.sources.end(),
                     [this](const Source& source) { return written_.contains(source.writer); });
}

std::vector<AttemptId> Streams::ReadBy(uint32_t attempt) const {
  std::vector<AttemptId> read;
  for (const Source& source : readings_.at(attempt).sources) read.push_back(source.writer);
  return read;
}

void Streams::Over(uint32_t attempt) {
  const auto found = readings_.find(attempt);
  if (found == readings_.end()) return;
  by_id_.erase(found->second.id);
  readings_.erase(found);
}

std::vector<uint32_t> Streams::Written(AttemptId writer) {
  written_.insert(writer);
  std::vector<uint32_t> readers;
  for (const auto& [task, stream] : graph_.streams_written(writer.task)) {
    for (const TaskId reader : graph_.streams()[stream.value].readers) {
      const auto first = by_id_.lower_bound({reader, 0});
      for (auto it = first; it != by_id_.end() && it->first.task == reader; ++it) readers.push_back(it->second);
    }
  }
  std::sort(readers.begin(), readers.end());
  readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  return readers;
}

}  // namespace harrow::sim
