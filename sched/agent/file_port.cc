#include "agent/file_port.h"

#include <optional>
#include <utility>

#include "base/text.h"
#include "wire/address.h"
#include "wire/harrow.pb.h"

namespace harrow::agent {

Result<std::unique_ptr<FilePort>> FilePort::Open(const Options& options, const pb::Welcome& welcome,
                                                 const std::string& address,
                                                 const wire::Credentials& credentials,
                                                 LocalFiles::Hooks hooks) {
  std::unique_ptr<FilePort> port(new FilePort());
  port->submit_dir_ = welcome.submit_dir();
  port->exchange_ = welcome.exchange();
  StoreHome& home = *options.home;
  port->files_ = std::make_unique<LocalFiles>(
      &home.store(), options.slots, std::move(hooks),
      FileRecords{.sources = home.sources(), .log = home.log(), .tell = options.stages});
  port->files_->Restore(home.held());
  Transfers::Options wanted;
  wanted.peers.self = NodeId(welcome.node());
  wanted.peers.incarnation = options.incarnation;
  wanted.peers.credentials = credentials;
  wanted.peers.hosts = {wire::HostTowards(address)};
  wanted.peers.ports = options.ports;
  wanted.peers.encrypt = !welcome.plain_transfers();
  wanted.sources = home.sources();
  Result<std::unique_ptr<Transfers>> transfers = Transfers::Start(&home.store(), wanted);
  if (!transfers.ok()) return transfers.status();
  port->transfers_ = *std::move(transfers);
  port->files_->Use(port->transfers_.get());
  return port;
}

void FilePort::Take(const pb::ToAgent& message) {
  for (const pb::Peer& peer : message.peer()) {
    const NodeId node(peer.node());
    if (peer.address().empty()) {
      transfers_->Forget(node);
    } else {
      transfers_->Know(node, {peer.address().begin(), peer.address().end()}, peer.incarnation());
    }
  }
  for (const uint32_t file : message.drop()) files_->Drop(FileId(file));
  if (message.drop_damaged_size() > 0)
    files_->DropDamaged({message.drop_damaged().begin(), message.drop_damaged().end()});
  for (const uint32_t file : message.refuse()) files_->Refuse(FileId(file));
  for (const pb::SaveFile& save : message.save())
    files_->Save(FileId(save.file()), StrCat(submit_dir_, "/", save.path()));
  for (const pb::PutFile& put : message.put()) {
    files_->Put({.number = put.number(),
                 .file = FileId(put.file()),
                 .object = store::ObjectId::FromBytes(put.object()),
                 .content = put.content(),
                 .path = StrCat(exchange_, "/", put.name())});
  }
  if (message.unput_size() > 0) {
    std::vector<std::string> paths;
    for (const std::string& name : message.unput()) paths.push_back(StrCat(exchange_, "/", name));
    files_->Unput(std::move(paths));
  }
  for (const pb::CopyFile& copy : message.copy()) {
    std::optional<store::Object> object;
    if (const auto id = store::ObjectId::FromBytes(copy.object())) object = {*id, copy.bytes()};
    files_->Bring({.file = FileId(copy.file()),
                   .object = object,
                   .path = copy.exchange().empty() ? StrCat(submit_dir_, "/", copy.path()) : StrCat(exchange_, "/", copy.exchange()),
                   .from = copy.from() == 0 ? NodeId() : NodeId(copy.from() - 1),
                   .source = copy.source(),
                   .listed = copy.listed() && object.has_value()});
  }
}

void NameHeld(const HeldLog::Held& held, pb::AgentHello* hello) {
  for (const auto& [file, object] : held) {
    pb::HeldFile* named = hello->add_held();
    named->set_file(file.value);
    named->set_object(object.id.Bytes());
    named->set_bytes(object.bytes);
  }
}

void FilePort::NameHeld(pb::AgentHello* hello) {
  agent::NameHeld(files_->Held(), hello);
}

}  // namespace harrow::agent
