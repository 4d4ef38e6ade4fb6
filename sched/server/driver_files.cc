// Files on the nodes' own disks. The scheduler says which node is to have which file from whom, and counts
// files by number; here they get their names and contents. What a file is, an object's name, is told by the
// node that made it, or read it first from the submit directory: until then nobody else can ask for it, and
// their copies wait here.
//
// What a node was asked for may get lost with its connection: it is asked again when it comes back. It
// answers at once for what it has.

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "os/log.h"
#include "server/driver.h"
#include "server/messages.h"

namespace harrow::server {

bool RunDriver::local_files() const {
  return flow_.settings.files == config::Files::kLocal;
}

/// Its agent has said so, and answers nothing that is said of files.
bool RunDriver::KeepsNoFiles(const Node& node) {
  return !node.unfit.empty() && node.peer_addresses.empty();
}

/// The node cannot have it: what was to read it there ends of itself.
void RunDriver::FailCopy(FileId file, NodeId to, NodeId from) {
  (void)catalogue_.Answered(file, to);
  events_.push_back(core::CopyFailed{file, to, from, core::CopyFailed::Why::kUnreadable});
  Wake();
}

void RunDriver::SendCopy(FileId file, NodeId to, NodeId from, TaskId reader) {
  Node* const node = nodes_.Find(to);
  if (node == nullptr) return;
  if (KeepsNoFiles(*node)) return FailCopy(file, to, from);
  if (Node* const source = from ? nodes_.Find(from) : nullptr) BringTogether(*source, *node);
  const FileCatalogue::Object* const object = catalogue_.Find(file);
  const bool can = !from || object != nullptr;
  catalogue_.Ask(file, to, {from, can, reader});
  if (!can) return;
  pb::CopyFile* const copy = nodes_.Outbox(*node).add_copy();
  copy->set_file(file.value);
  const std::string_view name = graph_.file_name(file);
  copy->set_path(name.data(), name.size());
  if (from) copy->set_from(from.value + 1);
  if (const OutFile* const out = from ? nullptr : OutOf(file); out != nullptr && !out->object.empty()) {
    if (out->in_exchange()) copy->set_exchange(out->Name());
    copy->set_object(out->object);
    copy->set_bytes(out->bytes);
    copy->set_listed(true);
    return;
  }
  // What lies in the submit directory now need not be what it was.
  if (object == nullptr || !from) return;
  const std::string_view id = object->id();
  copy->set_object(id.data(), id.size());
  copy->set_bytes(object->bytes());
  if (const auto source = sources_.find(file); source != sources_.end()) copy->set_source(source->second);
}

void RunDriver::Act(const core::CopyFile& copy) {
  SendCopy(copy.file, copy.to, copy.from, copy.reader);
}

void RunDriver::Act(const core::RefuseFile& refuse) {
  catalogue_.Refuse(refuse.file, refuse.node);
  if (Node* const node = nodes_.Find(refuse.node)) nodes_.Outbox(*node).add_refuse(refuse.file.value);
}

void RunDriver::Act(const core::DropFile& drop) {
  catalogue_.Answered(drop.file, drop.node);
  Node* const node = nodes_.Find(drop.node);
  if (node == nullptr) return;
  if (!drop.damaged) return nodes_.Outbox(*node).add_drop(drop.file.value);
  nodes_.Outbox(*node).add_drop_damaged(drop.file.value);
  // A store has a content once. What else goes with it there, directories that hold it, the agent tells.
  for (const FileId same : catalogue_.SameAs(drop.file)) {
    const std::vector<NodeId> holders = scheduler_.HoldersOf(same);
    if (std::find(holders.begin(), holders.end(), drop.node) == holders.end()) continue;
    nodes_.Outbox(*node).add_drop_damaged(same.value);
    events_.push_back(core::FileLost{same, drop.node});
    Wake();
  }
}

/// Its agent does not serve files: others would wait for what they are to get from there, and it for what it
/// is to get. What it told of may not have been handed on yet, so that all are named.
void RunDriver::LoseFilesOf(const Node& node) {
  if (!local_files() || !KeepsNoFiles(node)) return;
  for (const auto& [file, copy] : catalogue_.CopiesTo(node.id)) FailCopy(file, node.id, copy.from);
  for (uint32_t n = 0; n < graph_.file_count(); ++n) {
    if (catalogue_.Find(FileId(n)) != nullptr) events_.push_back(core::FileLost{FileId(n), node.id});
  }
}

/// By some task that is to run.
bool RunDriver::IsRead(FileId file) {
  return catalogue_.IsRead(file, [this](FileId input) { return scheduler_.HeldAs(input); },
                           [this](TaskId reader) { return reader.value < flow_.unwanted.size() && flow_.unwanted[reader.value]; });
}

/// Names the task's files: what it reads is brought to its sandbox, and what it makes is taken from there.
/// What lies elsewhere is used where it is, and only looked for when the task has ended.
void RunDriver::NameFiles(TaskId task, pb::Task* message) {
  bool kept = false;
  for (const FileId input : graph_.inputs(task)) {
    const FileId held = scheduler_.HeldAs(input);
    if (!catalogue_.IsKept(held)) continue;
    kept = true;
    if (catalogue_.absent(held)) continue;
    pb::TaskInput* const named = message->add_input();
    named->set_file(held.value);
    const std::string_view path = graph_.file_name(input);
    named->set_path(path.data(), path.size());
    if (held == input) continue;
    const std::string_view inside = path.substr(graph_.file_name(held).size() + 1);
    named->set_inside(inside.data(), inside.size());
  }
  for (const FileId output : graph_.outputs(task)) kept |= catalogue_.IsKept(output);
  if (!kept) return;
  message->set_sandbox(true);
  for (const FileId output : graph_.outputs(task)) {
    const std::string_view path = graph_.file_name(output);
    message->add_outputs(path.data(), path.size());
    message->add_output_file(output.value);
    message->add_output_result(graph_.profile(task).keep || !IsRead(output));
  }
}

/// Of tasks that are there from now on.
void RunDriver::NoteFilesElsewhere(uint32_t first_file) {
  for (uint32_t n = first_file; n < graph_.file_count(); ++n) {
    if (!catalogue_.IsKept(FileId(n))) events_.push_back(core::FileAbsent{FileId(n)});
  }
}

/// What earlier sessions brought to the submit directory, or made there: as far as tasks read it that are to
/// run. That it was copied there, whole, is on record: half a directory has its name, too, and so has what an earlier run made.
/// A file of that name that is older than its task's success is somebody else's, and is made again.
void RunDriver::LookForShared(const std::unordered_map<uint32_t, int64_t>& success_ns, const std::unordered_set<FileId>& copied_back) {
  if (!hooks_.modified) return;
  constexpr int64_t kSlack = 60'000'000'000;  // between the clocks of nodes and of storage
  std::vector<bool> looked(graph_.file_count());
  for (uint32_t n = 0; n < graph_.task_count(); ++n) {
    if (recorder_.fate(TaskId(n)) == journal::TaskFate::kDone || IsUnwanted(TaskId(n))) continue;
    for (const FileId input : graph_.inputs(TaskId(n))) {
      const FileId file = scheduler_.HeldAs(input);
      const TaskId producer = graph_.producer(file);
      if (!producer || !catalogue_.IsKept(file) || looked[file.value]) continue;
      looked[file.value] = true;
      const bool unwanted = IsUnwanted(producer);
      if (!unwanted && (recorder_.fate(producer) != journal::TaskFate::kDone || !copied_back.contains(file))) continue;
      const auto modified = hooks_.modified(StrCat(flow_.settings.submit_dir, "/", graph_.file_name(file)));
      const auto success = success_ns.find(producer.value);
      const bool ours = unwanted || (success != success_ns.end() && modified &&
                                     modified->time_since_epoch().count() >= success->second - kSlack);
      if (modified && ours) events_.push_back(core::FileShared{file});
    }
  }
}

/// The node's agent can be asked for files, and can ask others. Those that are to do so already, or may not
/// have heard of each other, are told.
void RunDriver::TakeAddresses(Node& node, const pb::FromAgent& message) {
  node.peer_addresses.assign(message.peer_address().begin(), message.peer_address().end());
  for (const NodeId id : node.peers) {
    Node& other = *nodes_.Find(id);
    Introduce(node, other);
    Introduce(other, node);
  }
}

/// Two nodes between which files go know each other from then on: of a thousand, each needs few others.
void RunDriver::BringTogether(Node& one, Node& other) {
  if (one.id == other.id || !one.peers.insert(other.id).second) return;
  other.peers.insert(one.id);
  Introduce(one, other);
  Introduce(other, one);
}

void RunDriver::Introduce(const Node& node, Node& to) {
  if (node.peer_addresses.empty() || to.peer_addresses.empty() || to.channel == nullptr) return;
  pb::Peer* const peer = nodes_.Outbox(to).add_peer();
  peer->set_node(node.id.value);
  peer->set_incarnation(node.incarnation);
  for (const std::string& address : node.peer_addresses) peer->add_address(address);
}

/// A node's files are gone with it.
void RunDriver::ForgetFilesOf(Node& node) {
  catalogue_.ForgetNode(node.id);
  node.peer_addresses.clear();
  for (const NodeId id : std::exchange(node.peers, {})) {
    Node& other = *nodes_.Find(id);
    other.peers.erase(node.id);
    if (other.channel != nullptr && !other.peer_addresses.empty())
      nodes_.Outbox(other).add_peer()->set_node(node.id.value);  // nowhere
  }
}

/// What earlier runs left on the node of what this one reads. The word for it is the agent's, which has just
/// looked. Other nodes are likely to hold some, too: until they have come, tasks would be given to those that
/// came first.
void RunDriver::TakeStaged(const Moment& moment, Node& node, const pb::AgentHello& hello) {
  if (!local_files()) return;
  bool any = false;
  const std::string directory = flow_.settings.submit_dir + "/";
  for (const pb::StagedFile& staged : hello.staged()) {
    any |= staged.path().empty() && !stages();  // earlier runs have been there, whatever they left
    if (!staged.path().starts_with(directory)) continue;
    const std::string path = staged.path().substr(directory.size());
    const std::optional<FileId> file = graph_.FindFile(path);
    if (!file || graph_.producer(*file) || !catalogue_.IsKept(*file)) continue;
    if (stages()) {
      if (staging_) staging_->Likely(*file, node.id);
      continue;
    }
    const FileCatalogue::Object* const known = catalogue_.Find(*file);
    if (known != nullptr && known->id() != staged.object()) continue;
    if (known == nullptr) catalogue_.Set(*file, staged.object(), staged.bytes());
    // So it learns which of the run's files that is.
    pb::CopyFile* const copy = nodes_.Outbox(node).add_copy();
    copy->set_file(file->value);
    copy->set_path(path);
    copy->set_object(staged.object());
    copy->set_bytes(staged.bytes());
    NoteStored(*file, node.id, staged.bytes());
    any = true;
  }
  if (staged_found_) return;
  staged_found_ = any;
  staged_until_ = any ? std::optional(moment.now + kStagedPatience) : std::nullopt;
}

/// What an agent holds that has come back, and what it was asked for and may not have heard.
void RunDriver::ReconcileFiles(const Moment& moment, Node& node, const pb::AgentHello& hello) {
  for (const pb::HeldFile& held : hello.held()) {
    const FileId file(held.file());
    if (file.value >= graph_.file_count()) continue;
    const FileCatalogue::Object* const known = catalogue_.Find(file);
    if (known == nullptr) catalogue_.Set(file, held.object(), held.bytes());
    if (known != nullptr && known->id() != held.object()) {
      nodes_.Outbox(node).add_drop(held.file());
      continue;
    }
    if (staging_) {
      // It is asked once more: what it read the file from is not told here.
      staging_->Likely(file, node.id);
      continue;
    }
    catalogue_.Answered(file, node.id);
    NoteStored(file, node.id, held.bytes());
  }
  TakeStaged(moment, node, hello);
  for (const FileId refused : catalogue_.RefusedAt(node.id)) nodes_.Outbox(node).add_refuse(refused.value);
  for (const auto& [file, copy] : catalogue_.CopiesTo(node.id))
    SendCopy(file, node.id, copy.from, copy.reader);
  for (const auto& [file, saving] : saving_) {
    if (saving.node == node.id) AskToSave(file, node);
  }
  PutAgain(node);
}

void RunDriver::NoteStored(FileId file, NodeId node, int64_t bytes) {
  if (staging_) {
    staging_->Stored(file, node);
  } else {
    events_.push_back(core::FileStored{file, node, bytes});
  }
}

/// Bytes that have come or gone, for the figures and the journal.
void RunDriver::NoteCopied(journal::CopyRecord copy) {
  // Of an empty result the next session has to know, too (LookForShared).
  if (copy.bytes < 0 || (copy.bytes == 0 && copy.to)) return;
  CountCopy(copy);
  recorder_.Copy(std::move(copy));
}

void RunDriver::CountCopy(const journal::CopyRecord& copy) {
  uint64_t& figure = !copy.to    ? known_.written_back_bytes
                     : copy.from ? known_.bytes_moved
                                 : known_.shared_read_bytes;
  figure += static_cast<uint64_t>(std::max<int64_t>(0, copy.bytes));
}

/// The bytes of its inputs whose size nobody knew before they were read from the submit directory: those that
/// have been.
int64_t RunDriver::BytesRead(TaskId task) const {
  int64_t bytes = 0;
  for (const FileId input : graph_.inputs(task)) {
    if (graph_.producer(input) || graph_.file_size(input) >= 0) continue;
    const FileCatalogue::Object* const object = catalogue_.Find(input);
    if (object != nullptr) bytes += object->bytes();
  }
  return bytes;
}

/// What came for it from there was of unknown size when it was assigned.
void RunDriver::CountUnknownInput(AttemptTable::Row* row) {
  if (!local_files()) return;
  const int64_t more = BytesRead(row->id.task) - row->known_bytes;
  if (more <= 0) return;
  row->remote_bytes += more;
  known_.remote_bytes += static_cast<uint64_t>(more);
}

void RunDriver::TakeFile(const Moment& moment, Node& node, const pb::FileNote& note) {
  using Why = core::CopyFailed::Why;
  const FileId file(note.file());
  if (file.value >= graph_.file_count()) return;
  const NodeId from = note.from() == 0 ? NodeId() : NodeId(note.from() - 1);
  if (note.what() == pb::FileNote::SAVED || note.what() == pb::FileNote::NOT_SAVED) {
    TakeSaved(moment, node, note);
    return Wake();
  }
  if (note.what() == pb::FileNote::PUT || note.what() == pb::FileNote::NOT_PUT) {
    TakePut(moment, node, note);
    return Wake();
  }
  NoteCopied({.path = std::string(graph_.file_name(file)),
              .task = catalogue_.ReaderOf(file, node.id),
              .from = from,
              .to = node.id,
              .bytes = note.moved(),
              .end_ns = moment.wall_ns()});
  switch (note.what()) {
    case pb::FileNote::STORED: {
      const auto asked = catalogue_.Answered(file, node.id);
      const FileCatalogue::Object* const known = catalogue_.Find(file);
      if (known != nullptr && known->id() != note.object() && from) {
        // Of an earlier attempt of its task.
        if (asked && asked->from != from) {
          SendCopy(file, node.id, asked->from, asked->reader);
          break;
        }
        nodes_.Outbox(node).add_drop(file.value);
        if (staging_) {
          staging_->Failed(file, node.id, from, Staging::Why::kNotSent);
        } else {
          events_.push_back(core::CopyFailed{file, node.id, from, Why::kUnreachable});
        }
        break;
      }
      if (!from && !unreadable_.empty() && OutOf(file) != nullptr) unreadable_.erase(graph_.producer(file));
      if (stages() && !note.source().empty()) sources_[file] = note.source();
      SetObject(file, note.object(), note.bytes());
      NoteStored(file, node.id, note.bytes());
      break;
    }
    case pb::FileNote::GONE:
      if (staging_) {
        staging_->Gone(file, node.id);
      } else {
        events_.push_back(core::FileLost{file, node.id});
      }
      break;
    case pb::FileNote::UNREACHABLE:
    case pb::FileNote::ABSENT:
    case pb::FileNote::DAMAGED:
    case pb::FileNote::UNREADABLE:
    case pb::FileNote::NO_ROOM: {
      static constexpr Why kWhy[] = {Why::kUnreachable, Why::kUnreachable, Why::kAbsent,
                                     Why::kDamaged,     Why::kUnreadable,  Why::kNoRoom};
      const auto asked = catalogue_.Answered(file, node.id);
      // Late word of a source that another one has replaced.
      if (asked && asked->from != from) {
        catalogue_.Ask(file, node.id, *asked);
        break;
      }
      if (!from && (note.what() == pb::FileNote::ABSENT || note.what() == pb::FileNote::DAMAGED)) {
        // What was to come from there is found to come from nowhere; or something else has been asked for since.
        const OutFile* const out = OutOf(file);
        if (out != nullptr && out->object == note.object()) {
          LoseExchanged(*out, note.what() == pb::FileNote::DAMAGED, note.why());
        } else if (asked) {
          catalogue_.Ask(file, node.id, *asked);
        }
        break;
      }
      if (staging_) {
        NoteNotStaged(file, node.id, from, kWhy[note.what()], note.why());
      } else {
        events_.push_back(core::CopyFailed{file, node.id, from, kWhy[note.what()]});
      }
      break;
    }
    default:
      break;
  }
  Wake();
}

void RunDriver::SetObject(FileId file, const std::string& object, int64_t bytes) {
  catalogue_.Set(file, object, bytes);
  for (const NodeId waiting : catalogue_.Waiting(file)) {
    if (const auto copy = catalogue_.Answered(file, waiting)) SendCopy(file, waiting, copy->from, copy->reader);
  }
}

void RunDriver::TakeMadeFiles(const Moment& moment, Node& node, const pb::Attempt& attempt) {
  if (attempt.made_file_size() > 0) MakeAnew(TaskId(attempt.task()), attempt);
  for (const pb::MadeFile& made : attempt.made_file()) {
    const FileId file(made.file());
    if (file.value >= graph_.file_count()) continue;
    catalogue_.SetAbsent(file, made.object().empty());
    if (made.object().empty()) {
      events_.push_back(core::FileAbsent{file});
      continue;
    }
    if (made.shared()) {
      NoteCopied({.path = std::string(graph_.file_name(file)),
                  .task = TaskId(attempt.task()),
                  .from = node.id,
                  .to = {},
                  .bytes = made.bytes(),
                  .end_ns = moment.wall_ns()});
      events_.push_back(core::FileShared{file});
    }
    const FileCatalogue::Object* const known = catalogue_.Find(file);
    const bool anew = known != nullptr && known->id() != made.object();
    SetObject(file, made.object(), made.bytes());
    events_.push_back(core::FileStored{.file = file, .node = node.id, .bytes = made.bytes(), .made = anew});
  }
}

/// Once; the record has it of each attempt.
void RunDriver::TellDropped(const pb::Attempt& attempt) {
  const std::string dropped = dropped_told_ ? "" : DroppedText(attempt);
  if (dropped.empty()) return;
  dropped_told_ = true;
  Tell(StrCat("task ", Printable(graph_.TaskName(TaskId(attempt.task())), 60), ": ", dropped,
              "; harrow report --tasks has others, if there are any"));
}

}  // namespace harrow::server
