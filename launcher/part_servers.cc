#include "launcher/part_servers.h"

#include "base/text.h"
#include "os/file_system.h"
#include "run/flow_store.h"
#include "run_dir/names.h"

namespace harrow::launcher {
namespace {

// One that was there and does not answer may be lost with its node: the others are not kept waiting for it.
constexpr Duration kAnswerTime = std::chrono::seconds(2);
constexpr Duration kTryAgain = std::chrono::seconds(5);

}  // namespace

void PartServers::Find() {
  const auto numbers = run_dir::PartNumbers(*run_);
  for (const uint32_t number : numbers.ok() ? *numbers : std::vector<uint32_t>()) {
    Server& server = servers_[number];
    if (server.client != nullptr || loop_->Now() < server.again) continue;
    const auto part = run_dir::OpenPart(run_, StrCat(number));
    if (!part.ok() || !part->dir->Stat(run_dir::ServerPath(part->dir->path())).ok()) continue;
    const auto settings = run::ReadSettings(*part);
    if (!settings.ok() || settings->session_start() != session_) continue;
    server.job = settings->job_id;
    client::Options options;
    options.patience = Duration(0);
    options.reply_time = kAnswerTime;
    auto client = client::Client::Connect(loop_, *part->dir, part->dir->path(), options);
    if (client.ok()) {
      server.client = *std::move(client);
    } else {
      server.again = loop_->Now() + kTryAgain;
    }
  }
}

std::vector<PartServers::Told> PartServers::Ask() {
  Find();
  std::vector<Told> told;
  for (auto& [number, server] : servers_) {
    if (server.client == nullptr) continue;
    auto progress = server.client->Progress(true, true);
    if (progress.ok()) {
      told.push_back({number, server.job, *std::move(progress)});
    } else {
      server.client.reset();
    }
  }
  return told;
}

}  // namespace harrow::launcher
