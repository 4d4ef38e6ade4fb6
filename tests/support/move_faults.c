/* Loaded before a server (LD_PRELOAD): kills it at moments of a move of tasks between servers (server/moves.h). A file in the directory
 * $MOVE_FAULTS says at which, and is removed by the one server that dies of it:
 *   WHAT.before   before the group with such a record is committed: nothing of it is on disk
 *   WHAT.after    when it is on disk, and nobody has been told
 *   WHAT.told     when the server has sent twice since then
 * WHAT is offered, taken, confirmed or returned: the column `what` of the journal's table `move` (journal_format.md). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const kWhats[] = {"", "offered", "taken", "confirmed", "returned"};

enum { kColumns = 8, kWhat = 2 };  /* of the table, and of the one that tells what has happened, counted from 1 */

/* Of the journal's thread: statements that insert such rows, one or many at once; bits of what the open group has. */
static sqlite3_stmt *inserts[2];
static int insert_count;
static unsigned in_group;
/* Told by it to the server's thread. */
static atomic_uint on_disk;
static atomic_int sends;

static int is_server(void) {
  static int known = -1;
  if (known < 0) {
    char words[4098] = "";
    const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    const ssize_t length = read(fd, words, sizeof words - 2);
    close(fd);
    known = length > 0 && strcmp(words + strlen(words) + 1, "server") == 0;
  }
  return known;
}

static void die_at(unsigned kinds, const char *when) {
  const char *const directory = getenv("MOVE_FAULTS");
  char path[4096];
  if (directory == NULL || !is_server()) return;
  for (unsigned what = 1; what <= 4; ++what) {
    if ((kinds & 1u << what) == 0) continue;
    snprintf(path, sizeof path, "%s/%s.%s", directory, kWhats[what], when);
    if (unlink(path) == 0) kill(getpid(), SIGKILL);
  }
}

#define REAL(result, name, arguments)        \
  static result(*real) arguments;            \
  if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, #name);

int sqlite3_prepare_v3(sqlite3 *db, const char *sql, int size, unsigned flags, sqlite3_stmt **statement, const char **rest) {
  REAL(int, sqlite3_prepare_v3, (sqlite3 *, const char *, int, unsigned, sqlite3_stmt **, const char **))
  const int code = real(db, sql, size, flags, statement, rest);
  if (code == SQLITE_OK && strncmp(sql, "INSERT INTO move ", 17) == 0 && insert_count < 2) inserts[insert_count++] = *statement;
  return code;
}

int sqlite3_bind_int64(sqlite3_stmt *statement, int column, sqlite3_int64 value) {
  REAL(int, sqlite3_bind_int64, (sqlite3_stmt *, int, sqlite3_int64))
  if ((statement == inserts[0] || statement == inserts[1]) && column % kColumns == kWhat && value >= 1 && value <= 4)
    in_group |= 1u << value;
  return real(statement, column, value);
}

int sqlite3_step(sqlite3_stmt *statement) {
  REAL(int, sqlite3_step, (sqlite3_stmt *))
  static const char *(*sql_of)(sqlite3_stmt *);
  if (sql_of == NULL) *(void **)&sql_of = dlsym(RTLD_NEXT, "sqlite3_sql"); /* not linked: tasks are loaded with this, too */
  const char *const sql = sql_of(statement);
  const unsigned kinds = sql != NULL && strcmp(sql, "COMMIT") == 0 ? in_group : 0;
  if (kinds == 0) return real(statement);
  die_at(kinds, "before");
  const int code = real(statement);
  die_at(kinds, "after");
  in_group = 0;
  atomic_store(&sends, 0);
  atomic_store(&on_disk, kinds);
  return code;
}

static void sent(void) {
  const unsigned kinds = atomic_load(&on_disk);
  if (kinds == 0 || atomic_fetch_add(&sends, 1) != 1) return;
  atomic_store(&on_disk, 0);
  die_at(kinds, "told");
}

ssize_t send(int fd, const void *bytes, size_t size, int flags) {
  REAL(ssize_t, send, (int, const void *, size_t, int))
  const ssize_t length = real(fd, bytes, size, flags);
  sent();
  return length;
}
