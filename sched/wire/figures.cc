#include "wire/figures.h"

namespace harrow::wire {

void FiguresToProto(const Figures& figures, pb::Progress* out) {
  out->set_total(figures.total);
  out->set_done(figures.done);
  out->set_failed(figures.failed);
  out->set_skipped(figures.skipped);
  out->set_cancelled(figures.cancelled);
  out->set_pruned(figures.pruned);
  out->set_running(figures.running);
  out->set_attempts(figures.attempts);
  out->set_losses(figures.losses);
  out->set_local_bytes(figures.local_bytes);
  out->set_remote_bytes(figures.remote_bytes);
  out->set_home_bytes(figures.home_bytes);
  out->set_bytes_moved(figures.bytes_moved);
  out->set_shared_read_bytes(figures.shared_read_bytes);
  out->set_written_back_bytes(figures.written_back_bytes);
  out->set_makespan_ns(figures.makespan.count());
  out->set_core_seconds(figures.core_seconds);
  out->set_slot_seconds(figures.slot_seconds);
  out->set_slots(figures.slots);
  out->set_sessions(figures.sessions);
  out->set_complete(figures.complete);
}

Figures FiguresOf(const pb::Progress& progress) {
  Figures figures;
  figures.total = progress.total();
  figures.done = progress.done();
  figures.failed = progress.failed();
  figures.skipped = progress.skipped();
  figures.cancelled = progress.cancelled();
  figures.pruned = progress.pruned();
  figures.running = progress.running();
  figures.attempts = progress.attempts();
  figures.losses = progress.losses();
  figures.local_bytes = progress.local_bytes();
  figures.remote_bytes = progress.remote_bytes();
  figures.home_bytes = progress.home_bytes();
  figures.bytes_moved = progress.bytes_moved();
  figures.shared_read_bytes = progress.shared_read_bytes();
  figures.written_back_bytes = progress.written_back_bytes();
  figures.makespan = Duration(progress.makespan_ns());
  figures.core_seconds = progress.core_seconds();
  figures.slot_seconds = progress.slot_seconds();
  figures.slots = progress.slots();
  figures.sessions = progress.sessions();
  figures.complete = progress.complete();
  return figures;
}

}  // namespace harrow::wire
