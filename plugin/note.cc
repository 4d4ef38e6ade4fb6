#include "note.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "fd.h"
#include "job_file.h"

// A job that uses Harrow has a note on each of its nodes, made before its directory and removed after it: a
// file of one letter, in memory (/run), where no user can open it. By it a job's end knows that there is
// nothing to do without a look at the disk, and by its lock whoever makes or removes a job's directory does
// so alone. The lock is on a file that nobody else can open, or any user could hold it; and it is never
// waited for without an end.
//
// A slurmd of an ordinary user has no such place: its notes lie in LOCAL/harrow.

namespace harrow::plugin {
namespace {

JobFile NoteOf(uint32_t id) {
  return JobFile(id, ".note");
}

constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_CLOEXEC;

int OpenState(const char* state, bool make) {
  if (make && mkdir(state, 0700) != 0 && errno != EEXIST) return kNoFd;
  int fd = open(state, kReadDirectory);
  struct stat info;
  if (fd == kNoFd) return kNoFd;
  if (fstat(fd, &info) == 0 && info.st_uid == geteuid() && (info.st_mode & 022) == 0) return fd;
  close(fd);
  errno = EPERM;
  return kNoFd;
}

}  // namespace

int OpenNotes(const Places& places, int base) {
  if (places.state[0] == '\0') return fcntl(base, F_DUPFD_CLOEXEC, 0);
  return OpenState(places.state, true);
}

int LockNote(int notes, uint32_t id, bool make, long milliseconds) {
  const long began = Milliseconds();
  while (true) {
    const int fd = openat(notes, NoteOf(id).text, kFlags | (make ? O_CREAT : 0), 0600);
    if (fd == kNoFd) return kNoFd;
    struct stat info;
    // Whoever held it may have removed it: then there is another one.
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0 && info.st_nlink > 0) return fd;
    close(fd);
    if (Milliseconds() - began >= milliseconds) return kNoFd;  // errno is flock's
    Pause(10);
  }
}

Note ReadNote(int note) {
  char letter;
  if (pread(note, &letter, 1, 0) != 1) return Note::kNone;
  const Note known = static_cast<Note>(letter);
  return known == Note::kJob || known == Note::kMute || known == Note::kNothing || known == Note::kOver
             ? known
             : Note::kNone;
}

Note PeekNote(int notes, uint32_t id) {
  Fd note(openat(notes, NoteOf(id).text, kFlags));
  return note.none() ? Note::kNone : ReadNote(note);
}

bool WriteNote(int note, Note text) {
  const char letter = static_cast<char>(text);
  return pwrite(note, &letter, 1, 0) == 1;
}

void ChangeNote(int notes, uint32_t id, Note text) {
  Fd note(openat(notes, NoteOf(id).text, kFlags));
  if (!note.none()) WriteNote(note, text);
}

void RemoveNote(int notes, uint32_t id) {
  unlinkat(notes, NoteOf(id).text, 0);
}

Note NoteOfJob(const Places& places, uint32_t id) {
  if (places.state[0] == '\0') return Note::kJob;
  Fd notes(OpenState(places.state, false));
  if (notes.none()) return Note::kNone;
  Fd note(openat(notes, NoteOf(id).text, kFlags));
  if (note.none()) return Note::kNone;
  const Note text = ReadNote(note);
  return text == Note::kNone ? Note::kJob : text;
}

void ChangeNoteOfJob(const Places& places, uint32_t id, Note text) {
  if (places.state[0] == '\0') return;
  Fd notes(OpenState(places.state, false));
  if (notes.none()) return;
  ChangeNote(notes, id, text);
}

void MuteJob(const Places& places, uint32_t id) {
  if (places.state[0] == '\0') return;
  Fd notes(OpenState(places.state, true));
  if (notes.none()) return;
  // Whoever makes a directory makes the note before.
  Fd made(openat(notes, NoteOf(id).text, kFlags | O_CREAT | O_EXCL, 0600));
  if (!made.none()) {
    WriteNote(made, Note::kNothing);
  } else {
    ChangeNote(notes, id, Note::kMute);
  }
}

void ForgetJob(const Places& places, uint32_t id) {
  if (places.state[0] == '\0') return;
  Fd notes(OpenState(places.state, false));
  if (!notes.none()) RemoveNote(notes, id);
}

}  // namespace harrow::plugin
