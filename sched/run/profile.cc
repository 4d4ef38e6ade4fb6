#include "run/profile.h"

namespace harrow::run {

void ProfileToProto(const graph::Profile& profile, uint32_t id, pb::Profile* out) {
  out->set_id(id);
  out->set_cores(profile.shape.cores);
  out->set_gpus(profile.shape.devices);
  out->set_memory(profile.shape.memory);
  out->set_nodes(profile.shape.nodes);
  out->set_whole_node(profile.shape.whole_node);
  out->set_ranks(profile.ranks);
  out->set_mpi(static_cast<uint32_t>(profile.mpi));
  out->set_cwd(profile.cwd);
  out->set_shell(profile.shell);
  for (const auto& [name, value] : profile.env) {
    pb::EnvVar* variable = out->add_env();
    variable->set_name(name);
    variable->set_value(value);
  }
  out->set_time_limit_ns(profile.time_limit.count());
  out->set_retries(profile.retries);
  out->set_retry_delay_ns(profile.retry_delay < Duration(0) ? 0 : profile.retry_delay.count() + 1);
  out->mutable_retry_on()->Add(profile.retry_on.begin(), profile.retry_on.end());
  out->set_stdin_path(profile.stdin_path);
  out->set_stdout_path(profile.stdout_path);
  out->set_stderr_path(profile.stderr_path);
  out->set_priority(profile.priority);
  out->set_keep(profile.keep);
  out->set_replicas(profile.replicas - 1);
  out->set_missing_ok(profile.missing_ok);
  out->set_empty_streams(profile.empty_streams);
  out->set_warn_signal(profile.warn_signal);
  out->set_warn_before_ns(profile.warn_before.count());
  out->set_warn_alone(profile.warn_alone);
  if (!profile.checkpoint.on()) return;
  const graph::Checkpointing& checkpoint = profile.checkpoint;
  pb::Checkpointing* const how = out->mutable_checkpoint();
  how->set_by(static_cast<uint32_t>(checkpoint.by));
  how->set_ask(static_cast<uint32_t>(checkpoint.ask));
  how->set_signal(checkpoint.signal);
  how->set_status(checkpoint.status);
  how->set_ask_all(checkpoint.ask_all);
  for (const std::string& file : checkpoint.files) how->add_file(file);
  how->set_every_ns(checkpoint.every.count());
  how->set_time_ns(checkpoint.time.count());
  how->set_restart_command(profile.restart_command);
  how->set_restart_form(static_cast<uint32_t>(profile.restart_form));
}

graph::Profile ProfileFromProto(const pb::Profile& p) {
  graph::Profile profile;
  profile.shape = {.cores = p.cores(),
                   .devices = p.gpus(),
                   .nodes = p.nodes(),
                   .whole_node = p.whole_node(),
                   .memory = p.memory()};
  profile.ranks = p.ranks();
  profile.mpi = static_cast<graph::Mpi>(p.mpi());
  profile.cwd = p.cwd();
  profile.shell = p.shell();
  for (const pb::EnvVar& variable : p.env()) profile.env.emplace_back(variable.name(), variable.value());
  profile.time_limit = Duration(p.time_limit_ns());
  profile.retries = p.retries();
  profile.retry_delay = Duration(p.retry_delay_ns() - 1);
  profile.retry_on.assign(p.retry_on().begin(), p.retry_on().end());
  profile.stdin_path = p.stdin_path();
  profile.stdout_path = p.stdout_path();
  profile.stderr_path = p.stderr_path();
  profile.priority = p.priority();
  profile.keep = p.keep();
  profile.replicas = p.replicas() + 1;
  profile.missing_ok = p.missing_ok();
  profile.empty_streams = p.empty_streams();
  profile.warn_signal = p.warn_signal();
  profile.warn_before = Duration(p.warn_before_ns());
  profile.warn_alone = p.warn_alone();
  if (p.has_checkpoint()) {
    const pb::Checkpointing& how = p.checkpoint();
    profile.checkpoint = {.by = static_cast<graph::Checkpointing::By>(how.by()),
                          .ask = static_cast<graph::Checkpointing::Ask>(how.ask()),
                          .signal = how.signal(),
                          .status = how.status(),
                          .ask_all = how.ask_all(),
                          .files = {how.file().begin(), how.file().end()},
                          .every = Duration(how.every_ns()),
                          .time = Duration(how.time_ns())};
    profile.restart_command = how.restart_command();
    profile.restart_form = static_cast<graph::CommandForm>(how.restart_form());
  }
  return profile;
}

}  // namespace harrow::run
