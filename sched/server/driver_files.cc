// Files on the nodes' own disks. The scheduler says which node is to have which file from whom, and counts
// files by number; here they get their names and contents. What a file is, an object's name, is told by the
// node that made it, or read it first from the submit directory: until then nobody else can ask for it, and
// their copies wait here.
//
// What a node was asked for may get lost with its connection: it is asked again when it comes back. It
// answers at once for what it has.

#include "base/text.h"
#include "os/log.h"
#include "server/driver.h"

namespace harrow::server {

bool RunDriver::local_files() const {
  return flow_.settings.files == config::Files::kLocal;
}

void RunDriver::SendCopy(FileId file, NodeId to, NodeId from, TaskId reader) {
  Node* const node = nodes_.Find(to);
  if (node == nullptr) return;
  const FileCatalogue::Object* const object = catalogue_.Find(file);
  const bool can = !from || object != nullptr;
  catalogue_.Ask(file, to, {from, can, reader});
  if (!can) return;
  pb::CopyFile* const copy = nodes_.Outbox(*node).add_copy();
  copy->set_file(file.value);
  const std::string_view name = graph_.file_name(file);
  copy->set_path(name.data(), name.size());
  if (from) copy->set_from(from.value + 1);
  // What lies in the submit directory now need not be what it was.
  if (object == nullptr || !from) return;
  copy->set_object(object->id);
  copy->set_bytes(object->bytes);
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
  if (Node* const node = nodes_.Find(drop.node)) nodes_.Outbox(*node).add_drop(drop.file.value);
}

/// Names the task's files: what it reads is brought to its sandbox, and what it makes is taken from there.
/// What lies elsewhere is used where it is, and only looked for when the task has ended.
void RunDriver::NameFiles(TaskId task, pb::Task* message) {
  const auto held_as = [this](FileId file) { return scheduler_.HeldAs(file); };
  const auto unwanted = [this](TaskId reader) {
    return reader.value < flow_.unwanted.size() && flow_.unwanted[reader.value];
  };
  bool kept = false;
  for (const FileId input : graph_.inputs(task)) {
    const FileId held = held_as(input);
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
    message->add_output_result(graph_.profile(task).keep || !catalogue_.IsRead(output, held_as, unwanted));
  }
}

/// Of tasks that are there from now on.
void RunDriver::NoteFilesElsewhere(uint32_t first_file) {
  for (uint32_t n = first_file; n < graph_.file_count(); ++n) {
    if (!catalogue_.IsKept(FileId(n))) events_.push_back(core::FileAbsent{FileId(n)});
  }
}

/// What earlier sessions brought to the submit directory, or made there: as far as tasks read it that are to
/// run. A file of that name that is older than its task's success is somebody else's, and is made again.
void RunDriver::LookForShared(const std::unordered_map<uint32_t, int64_t>& success_ns) {
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
      if (!unwanted && recorder_.fate(producer) != journal::TaskFate::kDone) continue;
      const auto modified = hooks_.modified(StrCat(flow_.settings.submit_dir, "/", graph_.file_name(file)));
      const auto success = success_ns.find(producer.value);
      const bool ours = unwanted || (success != success_ns.end() && modified &&
                                     modified->time_since_epoch().count() >= success->second - kSlack);
      if (modified && ours) events_.push_back(core::FileShared{file});
    }
  }
}

/// The node's agent can be asked for files, and can ask others.
void RunDriver::TakeAddresses(Node& node, const pb::FromAgent& message) {
  node.peer_addresses.assign(message.peer_address().begin(), message.peer_address().end());
  for (const auto& other : nodes_.all()) {
    if (other->id == node.id || other->peer_addresses.empty()) continue;
    if (other->channel != nullptr) Introduce(node, nodes_.Outbox(*other).add_peer());
    Introduce(*other, nodes_.Outbox(node).add_peer());
  }
}

void RunDriver::Introduce(const Node& node, pb::Peer* peer) {
  peer->set_node(node.id.value);
  peer->set_incarnation(node.incarnation);
  for (const std::string& address : node.peer_addresses) peer->add_address(address);
}

/// A node's files are gone with it.
void RunDriver::ForgetFilesOf(Node& node) {
  catalogue_.ForgetNode(node.id);
  node.peer_addresses.clear();
  for (const auto& other : nodes_.all()) {
    if (other->id != node.id && other->channel != nullptr && !other->peer_addresses.empty())
      Introduce(node, nodes_.Outbox(*other).add_peer());
  }
}

/// What an agent holds that has come back, and what it was asked for and may not have heard.
void RunDriver::ReconcileFiles(Node& node, const pb::AgentHello& hello) {
  for (const pb::HeldFile& held : hello.held()) {
    const FileId file(held.file());
    if (file.value >= graph_.file_count()) continue;
    const FileCatalogue::Object* const known = catalogue_.Find(file);
    if (known == nullptr) catalogue_.Set(file, {held.object(), held.bytes()});
    if (known != nullptr && known->id != held.object()) {
      nodes_.Outbox(node).add_drop(held.file());
      continue;
    }
    catalogue_.Answered(file, node.id);
    events_.push_back(core::FileStored{file, node.id, held.bytes()});
  }
  for (const FileId refused : catalogue_.RefusedAt(node.id)) nodes_.Outbox(node).add_refuse(refused.value);
  for (const auto& [file, copy] : catalogue_.CopiesTo(node.id))
    SendCopy(file, node.id, copy.from, copy.reader);
}

/// Bytes that have come or gone, for the figures and the journal.
void RunDriver::NoteCopied(journal::CopyRecord copy) {
  if (copy.bytes <= 0) return;
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
    if (object != nullptr) bytes += object->bytes;
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
      if (known != nullptr && known->id != note.object() && from) {
        // Of an earlier attempt of its task.
        if (asked && asked->from != from) {
          SendCopy(file, node.id, asked->from, asked->reader);
          break;
        }
        nodes_.Outbox(node).add_drop(file.value);
        events_.push_back(core::CopyFailed{file, node.id, from, Why::kUnreachable});
        break;
      }
      SetObject(file, note.object(), note.bytes());
      events_.push_back(core::FileStored{file, node.id, note.bytes()});
      break;
    }
    case pb::FileNote::GONE:
      events_.push_back(core::FileLost{file, node.id});
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
      events_.push_back(core::CopyFailed{file, node.id, from, kWhy[note.what()]});
      break;
    }
    default:
      break;
  }
  Wake();
}

void RunDriver::SetObject(FileId file, const std::string& object, int64_t bytes) {
  catalogue_.Set(file, {object, bytes});
  for (const NodeId waiting : catalogue_.Waiting(file)) {
    const auto copy = catalogue_.Answered(file, waiting);
    SendCopy(file, waiting, copy->from, copy->reader);
  }
}

void RunDriver::TakeMadeFiles(const Moment& moment, Node& node, const pb::Attempt& attempt) {
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
    const bool anew = known != nullptr && known->id != made.object();
    SetObject(file, made.object(), made.bytes());
    events_.push_back(core::FileStored{.file = file, .node = node.id, .bytes = made.bytes(), .made = anew});
  }
}

}  // namespace harrow::server
