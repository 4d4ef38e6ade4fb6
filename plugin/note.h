#pragma once

#include <stdint.h>

#include "base_directory.h"

namespace harrow::plugin {

/// What is known of a job on this node. kMute: the disk did not answer when the job began; kNothing: nor is
/// anything of the job's on it. kOver: the job is over, whoever comes by may remove what is left of it.
enum class Note : char { kNone = 0, kJob = 'j', kMute = 'm', kNothing = 'n', kOver = 'o' };

/// Opens the directory of notes, made where it is not there; -1 with errno. `base`: the open LOCAL/harrow.
int OpenNotes(const Places& places, int base);

/// The open, locked note of a job: -1 with errno, EAGAIN where somebody else has held it for `milliseconds`.
/// `make`: makes it (kNone) where it is not there. It is unlocked when it is closed.
int LockNote(int notes, uint32_t id, bool make, long milliseconds);

Note ReadNote(int note);
/// Without the lock, kNone where there is none.
Note PeekNote(int notes, uint32_t id);
/// False with errno.
bool WriteNote(int note, Note text);
/// Without the lock, if there is one.
void ChangeNote(int notes, uint32_t id, Note text);
/// Of a note that is locked.
void RemoveNote(int notes, uint32_t id);

/// For processes that must not touch the site's disk: kNone: this job has nothing here. Where notes lie on
/// the disk it is not asked: kJob.
Note NoteOfJob(const Places& places, uint32_t id);
/// Changes the note of a job, if there is one and it lies not on the disk.
void ChangeNoteOfJob(const Places& places, uint32_t id, Note text);
/// Makes it kMute, or kNothing where there is none yet. For when whoever was to make the job's directory is
/// dead, or as good as dead.
void MuteJob(const Places& places, uint32_t id);
/// Removes it, unless it lies on the disk.
void ForgetJob(const Places& places, uint32_t id);

}  // namespace harrow::plugin
