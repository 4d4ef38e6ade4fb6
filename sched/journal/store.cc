// The SQLite database of a journal (journal_format.md).
//
// Files. Its one writer is made sure of by PART/owner, so no file locks are relied on (VFS "unix-none"), and
// there is no shared memory file (locking_mode = EXCLUSIVE keeps the WAL's index in the process): both fail on
// some network file systems. But another program with SQLite's own ways, as the command sqlite3, would remove
// the WAL when it is done with it. So the bytes that it asks for are locked where that can be had. A WAL that a killed server left is normal. Until everything is verified, nothing is
// written: recovery is in memory, and a connection that is closed before leaves database and WAL as they
// were. They are reached through the run directory's descriptor, whatever its name leads to meanwhile.
//
// Verification. SQLite notices damage of its structure, not of a value. Tables are only appended to; each
// commit adds a row to `commit_group` with the number of rows it added to every table and a hash that runs
// over all of them and the hash of the group before. Reading follows the groups, recomputes the chain and
// compares the mark of what was acknowledged. The chain holds the fields in the order of the Visit functions
// below.
#include "journal/store.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <optional>
#include <sqlite3.h>
#include <type_traits>
#include <unistd.h>

#include "base/text.h"
#include "journal/acknowledged.h"
#include "journal/copy.h"
#include "journal/hash.h"
#include "journal/schema.h"
#include "run_dir/names.h"

namespace harrow::journal {
namespace {

constexpr int32_t kApplicationId = 0x48727731;  // "Hrw1"
constexpr int kCheckpointPages = 4000;

using Fact = std::pair<std::string, std::string>;

template <class R, class V>
void VisitFields(R& r, V& v) {
  using T = std::remove_const_t<R>;
  if constexpr (std::is_same_v<T, TaskRecord>) {
    v(r.name), v(r.kind), v(r.identity_high), v(r.identity_low), v(r.level), v(r.cores);
  } else if constexpr (std::is_same_v<T, AttemptRecord>) {
    v(r.task), v(r.attempt), v(r.node), v(r.end), v(r.code), v(r.start_ns), v(r.end_ns), v(r.user_us),
        v(r.system_us);
    v(r.max_rss_kib), v(r.output_file), v(r.output_offset), v(r.stdout_bytes), v(r.stderr_bytes),
        v(r.output_truncated);
    v(r.message), v(r.cores), v(r.local_bytes), v(r.remote_bytes), v(r.home_bytes), v(r.output_task);
  } else if constexpr (std::is_same_v<T, PartRecord>) {
    v(r.task), v(r.attempt), v(r.part), v(r.nodes), v(r.node), v(r.ranks), v(r.end), v(r.code), v(r.start_ns);
    v(r.end_ns), v(r.failed_ns), v(r.user_us), v(r.system_us), v(r.max_rss_kib), v(r.output_file),
        v(r.output_offset), v(r.stdout_bytes);
    v(r.stderr_bytes), v(r.output_truncated), v(r.message), v(r.cores), v(r.output_task);
  } else if constexpr (std::is_same_v<T, FateRecord>) {
    v(r.task), v(r.fate), v(r.because);
  } else if constexpr (std::is_same_v<T, NodeRecord>) {
    v(r.node), v(r.name), v(r.slots), v(r.incarnation), v(r.output_file), v(r.joined_ns), v(r.left_ns),
        v(r.topology);
  } else if constexpr (std::is_same_v<T, MoveRecord>) {
    v(r.what), v(r.giver), v(r.number), v(r.taker), v(r.tasks), v(r.tried), v(r.time_ns);
  } else if constexpr (std::is_same_v<T, CopyRecord>) {
    v(r.path), v(r.task), v(r.from), v(r.to), v(r.bytes), v(r.end_ns);
  } else {
    static_assert(std::is_same_v<T, Fact>);
    v(r.first), v(r.second);
  }
}

struct FieldCounter {
  int fields = 0;
  template <class T>
  void operator()(const T&) {
    ++fields;
  }
};

// --- SQLite, wrapped

Status Damaged(std::string_view path, std::string_view what) {
  return Status(Code::kDamaged, StrCat(path, " is damaged: ", what,
                                       ". Restore it from a copy, or begin anew in another run directory"));
}

/// errno of the last failed call on database or WAL. SQLite tells a full disk (ENOSPC), but not a quota.
int SystemError(sqlite3* db) {
  int error = 0;
  sqlite3_file* wal = nullptr;
  if (sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal) == SQLITE_OK && wal != nullptr &&
      wal->pMethods != nullptr) {
    wal->pMethods->xFileControl(wal, SQLITE_FCNTL_LAST_ERRNO, &error);
  }
  if (error == 0) sqlite3_file_control(db, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
  return error != 0 ? error : sqlite3_system_errno(db);
}

/// `verifying`: whatever does not read is damage.
Status FailedTo(sqlite3* db, std::string_view what, const std::string& path, bool verifying = false) {
  int rc = sqlite3_extended_errcode(db);
  int system_error = SystemError(db);
  std::string reason = sqlite3_errmsg(db);
  switch (rc & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_SCHEMA:
      return Damaged(path, reason);
    case SQLITE_FULL:
      return Status(Code::kExhausted, StrCat("cannot ", what, " ", path, ": the disk is full"));
    case SQLITE_NOMEM:
      return Status(Code::kExhausted, StrCat("cannot ", what, " ", path, ": out of memory"));
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
      if (system_error == ENOSPC || system_error == EDQUOT || system_error == EMFILE) break;
      return Status(Code::kPermission, StrCat("cannot ", what, " ", path, ": ",
                                              system_error != 0 ? strerror(system_error) : reason.c_str()));
    default:
      break;
  }
  if (system_error == ENOSPC || system_error == EDQUOT || system_error == EFBIG || system_error == EMFILE) {
    return Status(Code::kExhausted, StrCat("cannot ", what, " ", path, ": ", strerror(system_error)));
  }
  if (verifying && (rc == SQLITE_IOERR_SHORT_READ || (rc & 0xff) == SQLITE_ERROR))
    return Damaged(path, reason);
  std::string detail = system_error != 0 ? StrCat(reason, " (", strerror(system_error), ")") : reason;
  return Status(Code::kUnavailable, StrCat("cannot ", what, " ", path, ": ", detail));
}

/// The name of SQLite's way to files (see above), with one thing different: a path is taken as it is. SQLite
/// would resolve /proc/self/fd/N to where the directory was a moment ago.
const char* Vfs() {
  static const char* const name = [] {
    static sqlite3_vfs vfs;
    const sqlite3_vfs* plain = sqlite3_vfs_find("unix-none");
    if (plain == nullptr) return "unix-none";
    vfs = *plain;
    vfs.zName = "harrow-run-dir";
    vfs.pNext = nullptr;
    vfs.xFullPathname = [](sqlite3_vfs*, const char* path, int size, char* full) {
      if (strlen(path) >= static_cast<size_t>(size)) return SQLITE_CANTOPEN;
      strcpy(full, path);
      return SQLITE_OK;
    };
    return sqlite3_vfs_register(&vfs, 0) == SQLITE_OK ? vfs.zName : "unix-none";
  }();
  return name;
}

class Statement {
 public:
  Statement() = default;
  ~Statement() { Finalize(); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  bool Prepare(sqlite3* db, const std::string& sql) {
    return sqlite3_prepare_v3(db, sql.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr) ==
           SQLITE_OK;
  }
  void Finalize() {
    sqlite3_finalize(statement_);
    statement_ = nullptr;
  }
  sqlite3_stmt* get() const { return statement_; }
  int Step() { return sqlite3_step(statement_); }
  bool Execute() {
    int rc = sqlite3_step(statement_);
    sqlite3_reset(statement_);
    return rc == SQLITE_DONE;
  }
  int64_t Int(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string_view Text(int column) const {
    auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return std::string_view(text == nullptr ? "" : text,
                            static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

/// Binds an id and a record's fields to the next parameters of an INSERT, and adds them to the chain.
class Binder {
 public:
  Binder(sqlite3_stmt* statement, Chain* chain) : statement_(statement), chain_(chain) {}
  void Begin(int64_t id) { Number(id); }
  void operator()(const std::string& text) {
    chain_->Add(text);
    sqlite3_bind_text(statement_, ++column_, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
  }
  template <class Tag>
  void operator()(Id<Tag> id) {
    if (id) return Number(id.value);
    chain_->Add(-1);
    sqlite3_bind_null(statement_, ++column_);
  }
  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  void operator()(T n) { Number(static_cast<int64_t>(n)); }

 private:
  void Number(int64_t n) {
    chain_->Add(n);
    sqlite3_bind_int64(statement_, ++column_, n);
  }

  sqlite3_stmt* statement_;
  Chain* chain_;
  int column_ = 0;
};

/// The same, reading: what it adds to the chain is what is stored, before it is made to fit a field.
class Unbinder {
 public:
  Unbinder(const Statement& statement, Chain* chain) : statement_(statement), chain_(chain) {
    chain_->Add(Number());
  }
  void operator()(std::string& text) {
    text = statement_.Text(column_++);
    chain_->Add(text);
  }
  template <class Tag>
  void operator()(Id<Tag>& id) {
    bool none = sqlite3_column_type(statement_.get(), column_) == SQLITE_NULL;
    int64_t n = Number();
    chain_->Add(none ? -1 : n);
    id = none ? Id<Tag>() : Id<Tag>(static_cast<uint32_t>(n));
  }
  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  void operator()(T& field) {
    int64_t n = Number();
    chain_->Add(n);
    field = static_cast<T>(n);
  }

 private:
  int64_t Number() { return statement_.Int(column_++); }

  const Statement& statement_;
  Chain* chain_;
  int column_ = 0;
};

constexpr std::array<const char*, 8> kTableNames = {"task", "attempt", "fate", "node",
                                                    "copy", "fact",    "part", "move"};
enum TableIndex { kTask, kAttempt, kFate, kNode, kCopy, kFact, kPart, kMove };
/// The tables that a journal of a format has are the first of these.
size_t TablesOf(uint32_t format) {
  return format >= 5 ? 8 : format == 4 ? 7 : 6;
}

/// A connection and what verifying it found out.
class Database {
 public:
  explicit Database(std::shared_ptr<run_dir::RunDir> dir)
      : dir_(std::move(dir)), path_(run_dir::JournalPath(dir_->path())), acknowledged_(dir_) {}
  ~Database() {
    sqlite3_close(db_);
    // SQLite makes an empty WAL where there is none, also for reading.
    if (without_wal_ && HasSize(path_ + "-wal", 0)) (void)dir_->Remove(path_ + "-wal");
  }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Status Open(int flags) {
    for (const std::string& file : run_dir::JournalFiles(dir_->path())) {
      HARROW_RETURN_IF_ERROR(dir_->CheckFile(file, (flags & SQLITE_OPEN_READWRITE) != 0));
    }
    // SQLite would take such a WAL for an old one and remove it.
    without_wal_ = dir_->Stat(path_ + "-wal").status().code() == Code::kNotFound;
    if (HasSize(path_, 0) && (!without_wal_ || acknowledged_.Read())) {
      return Damaged(path_, "it is empty");
    }
    int rc = sqlite3_open_v2(dir_->LastingPath(run_dir::kJournal).c_str(), &db_,
                             flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, Vfs());
    if (rc != SQLITE_OK) return FailedTo(db_, "open", path_);
    sqlite3_extended_result_codes(db_, 1);
    sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    sqlite3_db_config(db_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    if (!Run("PRAGMA locking_mode = EXCLUSIVE; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY")) {
      return FailedTo(db_, "open", path_);
    }
    return {};
  }

  /// As long as this is open other programs that open the database with SQLite are told that it is locked.
  /// kUnavailable: one has it open already. A lock for writing is not one's that reads: it may be that of a
  /// server that hangs, and PART/owner says which counts.
  Status KeepOthersAway() {
    Result<os::Fd> file = dir_->OpenFile(path_, O_RDWR);
    if (!file.ok()) return {};
    // SQLite's file format, "lock-byte page".
    constexpr off_t kPendingByte = 0x40000000, kLockBytes = 2 + 510;
    struct flock all {};
    all.l_type = F_WRLCK;
    all.l_whence = SEEK_SET;
    all.l_start = kPendingByte;
    all.l_len = kLockBytes;
    lock_ = std::move(*file);
    if (fcntl(lock_.get(), F_OFD_SETLK, &all) == 0 || (errno != EAGAIN && errno != EACCES)) return {};
    if (fcntl(lock_.get(), F_OFD_GETLK, &all) != 0 || all.l_type != F_RDLCK) return {};
    return Status(Code::kUnavailable, StrCat("another program has ", path_,
                                             " open, as sqlite3 would; close it there and try again"));
  }

  bool Run(const char* sql) { return sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK; }

  /// The first value of a query's first row.
  Status Ask(const char* sql, std::string* answer) {
    Statement s;
    if (!s.Prepare(db_, sql) || s.Step() != SQLITE_ROW) return FailedTo(db_, "read", path_, true);
    *answer = s.Text(0);
    return {};
  }

  /// An empty database, as one is whose making was interrupted.
  Result<bool> IsEmpty() {
    std::string objects;
    HARROW_RETURN_IF_ERROR(Ask("SELECT count(*) FROM sqlite_schema", &objects));
    return objects == "0" && !acknowledged_.Read();
  }

  Status Verify(History* history);

  /// A byte of SQLite's header that is never so: SQLite itself takes the file for a later version's, to be
  /// read only.
  bool HeaderForbidsWriting() const {
    constexpr off_t kWriteVersion = 18;
    constexpr unsigned char kNewest = 2;
    const Result<os::Fd> file = dir_->OpenFile(path_, O_RDONLY);
    unsigned char version = 0;
    return file.ok() && pread(file->get(), &version, 1, kWriteVersion) == 1 && version > kNewest;
  }
  Status ForbidsWriting() const { return Damaged(path_, "its header forbids writing"); }

  sqlite3* db() { return db_; }
  const std::string& path() const { return path_; }
  Acknowledged& acknowledged() { return acknowledged_; }

  // What is there, after Verify.
  uint32_t format = kJournalFormat;
  std::array<int64_t, kTableNames.size()> rows{};
  int64_t groups = 0;
  uint64_t epoch = 0;
  std::string run_id;
  TaskId last_task;
  Chain chain;

 private:
  Status VerifyFormat();
  Status VerifySchema();

  bool HasSize(const std::string& path, uint64_t size) const {
    const Result<os::FileInfo> info = dir_->Stat(path);
    return info.ok() && info->size == size;
  }

  std::shared_ptr<run_dir::RunDir> dir_;
  std::string path_;
  Acknowledged acknowledged_;
  sqlite3* db_ = nullptr;
  bool without_wal_ = false;
  os::Fd lock_;
};

Status Database::VerifyFormat() {
  std::string id, text, said;
  HARROW_RETURN_IF_ERROR(Ask("PRAGMA application_id", &id));
  HARROW_RETURN_IF_ERROR(Ask("PRAGMA user_version", &text));
  if (id != std::to_string(kApplicationId)) return Damaged(path_, "it is not a journal of Harrow");
  if (without_wal_ && HeaderForbidsWriting()) return ForbidsWriting();
  for (uint32_t known = kOldestFormat; known <= kJournalFormat; ++known) {
    if (text != std::to_string(known)) continue;
    format = known;
    return {};
  }
  // A flipped bit in the version must not look like a newer program's work.
  HARROW_RETURN_IF_ERROR(Ask("SELECT value FROM fact WHERE key = 'format' ORDER BY id DESC", &said));
  if (said != text) return Damaged(path_, "its format is said in two ways");
  return Status(Code::kRefused, StrCat(path_, " has journal format ", Printable(text),
                                       "; this Harrow knows formats ", kOldestFormat, " to ", kJournalFormat,
                                       ". Use the version of Harrow that wrote it, or a newer one"));
}

std::string SchemaText(sqlite3* db) {
  Statement s;
  std::string text;
  if (!s.Prepare(db, "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")) return "";
  while (s.Step() == SQLITE_ROW) {
    for (int column = 0; column < 4; ++column) text.append(s.Text(column)).push_back('\n');
  }
  return text;
}

// People read through the views: a bit flipped in one of them would show wrong words.
Status Database::VerifySchema() {
  sqlite3* model = nullptr;
  std::string expected;
  if (sqlite3_open(":memory:", &model) == SQLITE_OK &&
      sqlite3_exec(model, SchemaOf(format).c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) {
    expected = SchemaText(model);
  }
  sqlite3_close(model);
  if (expected.empty()) return Status(Code::kInternal, "SQLite does not take the journal's schema");
  if (SchemaText(db_) != expected) return Damaged(path_, "its tables are not those of a journal");
  return {};
}

enum class Rows { kMissing, kRead, kUnreadable };

template <class Record, class Use>
Rows ReadRows(Statement& rows, int64_t count, Chain* chain, Use use) {
  for (int64_t i = 0; i < count; ++i) {
    int rc = rows.Step();
    if (rc != SQLITE_ROW) return rc == SQLITE_DONE ? Rows::kMissing : Rows::kUnreadable;
    Record record;
    Unbinder read(rows, chain);
    VisitFields(record, read);
    use(rows.Int(0), record);
  }
  return Rows::kRead;
}

/// A session begins with a new start (each of its servers tells it again) and ends with an end that is not
/// empty.
void NoteSession(const Fact& fact, std::vector<SessionRecord>* sessions) {
  const auto number = [&fact] {
    int64_t ns = 0;
    std::from_chars(fact.second.data(), fact.second.data() + fact.second.size(), ns);
    return ns;
  };
  if (fact.first == "started_ns") {
    const int64_t start = number();
    if (sessions->empty() || sessions->back().started_ns != start) sessions->push_back({.started_ns = start});
  } else if (fact.first == "ended_ns" && !sessions->empty()) {
    sessions->back().ended_ns = number();
  }
}

Status Database::Verify(History* history) {
  HARROW_RETURN_IF_ERROR(VerifyFormat());
  HARROW_RETURN_IF_ERROR(VerifySchema());
  std::string check;
  HARROW_RETURN_IF_ERROR(Ask("PRAGMA quick_check(1)", &check));
  if (check != "ok") return Damaged(path_, check.substr(check.rfind('\n') + 1));

  History ignored;
  History& h = history == nullptr ? ignored : *history;
  h = {};
  const size_t table_count = TablesOf(format);
  const bool has_parts = table_count > kPart, has_moves = table_count > kMove;
  std::array<Statement, kTableNames.size()> tables;
  for (size_t i = 0; i < table_count; ++i) {
    if (!tables[i].Prepare(db_, StrCat("SELECT * FROM ", kTableNames[i], " ORDER BY id"))) {
      return FailedTo(db_, "read", path_, true);
    }
  }
  Statement commits;
  if (!commits.Prepare(db_,
                       StrCat("SELECT id, epoch, time_ns, tasks, attempts, fates, nodes, copies, facts, ",
                              has_parts ? "parts" : "0", ", ", has_moves ? "moves" : "0",
                              ", chain FROM commit_group ORDER BY id"))) {
    return FailedTo(db_, "read", path_, true);
  }
  std::map<std::string, size_t> fact_of;
  std::optional<Acknowledged::Mark> mark = acknowledged_.Read();
  bool mark_found = false;
  int rc;
  while ((rc = commits.Step()) == SQLITE_ROW) {
    int64_t id = commits.Int(0);
    if (id != groups + 1) return Damaged(path_, StrCat("group ", groups + 1, " is missing"));
    groups = id;
    auto wrong = [&] {
      return Damaged(path_, StrCat("the records of group ", id, " are not those that were written"));
    };
    auto all = [&](auto& list) {
      return [&list, keep = history != nullptr](int64_t, auto& record) {
        if (keep) list.push_back(std::move(record));
      };
    };
    auto task = [&](int64_t task_id, TaskRecord& record) {
      last_task = record.task = TaskId(static_cast<uint32_t>(task_id));
      if (history != nullptr) h.tasks.push_back(std::move(record));
    };
    auto fact = [&](int64_t, Fact& f) {
      if (f.first == "run_id") run_id = f.second;
      NoteSession(f, &h.sessions);
      auto [it, added] = fact_of.emplace(f.first, h.facts.size());
      if (added) {
        h.facts.push_back(std::move(f));
      } else {
        h.facts[it->second].second = std::move(f.second);
      }
    };
    Rows read = ReadRows<TaskRecord>(tables[kTask], commits.Int(3), &chain, task);
    if (read == Rows::kRead)
      read = ReadRows<AttemptRecord>(tables[kAttempt], commits.Int(4), &chain, all(h.attempts));
    if (read == Rows::kRead) read = ReadRows<FateRecord>(tables[kFate], commits.Int(5), &chain, all(h.fates));
    if (read == Rows::kRead) read = ReadRows<NodeRecord>(tables[kNode], commits.Int(6), &chain, all(h.nodes));
    if (read == Rows::kRead)
      read = ReadRows<CopyRecord>(tables[kCopy], commits.Int(7), &chain, all(h.copies));
    if (read == Rows::kRead) read = ReadRows<Fact>(tables[kFact], commits.Int(8), &chain, fact);
    if (read == Rows::kRead && has_parts)
      read = ReadRows<PartRecord>(tables[kPart], commits.Int(9), &chain, all(h.parts));
    if (read == Rows::kRead && has_moves)
      read = ReadRows<MoveRecord>(tables[kMove], commits.Int(10), &chain, all(h.moves));
    if (read == Rows::kUnreadable) return FailedTo(db_, "read", path_, true);
    if (read == Rows::kMissing) return wrong();
    for (size_t i = 0; i < kTableNames.size(); ++i) rows[i] += commits.Int(static_cast<int>(i) + 3);
    epoch = static_cast<uint64_t>(commits.Int(1));
    chain.Add(commits.Int(1));
    chain.Add(commits.Int(2));
    uint64_t end = chain.EndGroup();
    if (end != static_cast<uint64_t>(commits.Int(11))) return wrong();
    if (mark && mark->group == static_cast<uint64_t>(id)) mark_found = mark->chain == end;
  }
  if (rc != SQLITE_DONE) return FailedTo(db_, "read", path_, true);
  for (size_t i = 0; i < table_count; ++i) {
    rc = tables[i].Step();
    if (rc == SQLITE_ROW) return Damaged(path_, "it holds records of no group");
    if (rc != SQLITE_DONE) return FailedTo(db_, "read", path_, true);
  }
  if (groups == 0) return Damaged(path_, "it holds no group of records");
  if (mark && !mark_found) {
    return Damaged(path_,
                   StrCat("group ", mark->group, " was acknowledged as written and is not there as it was (",
                          groups, " are)"));
  }
  h.run_id = run_id;
  h.epoch = epoch;
  h.format = format;
  return {};
}

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class SqliteStore : public Store {
 public:
  SqliteStore(std::shared_ptr<run_dir::RunDir> dir, const Journal::Options& options)
      : options_(options), database_(std::make_unique<Database>(std::move(dir))) {}

  Status Open(History* history) {
    Database& d = *database_;
    HARROW_RETURN_IF_ERROR(d.Open(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
    HARROW_RETURN_IF_ERROR(d.KeepOthersAway());
    Result<bool> empty = d.IsEmpty();
    if (!empty.ok()) return empty.status();
    if (!*empty) {
      HARROW_RETURN_IF_ERROR(d.Verify(history));
      if (!d.run_id.empty() && !options_.run_id.empty() && d.run_id != options_.run_id) {
        return Status(Code::kInvalid,
                      StrCat(d.path(), " belongs to run ", d.run_id, ", not to ", options_.run_id));
      }
      if (options_.epoch != 0 && options_.epoch <= d.epoch) {
        return Status(Code::kInvalid,
                      StrCat(d.path(), " has had epoch ", d.epoch,
                             " already; a new server needs a larger one than ", options_.epoch));
      }
    } else if (history != nullptr) {
      *history = {};
    }
    if (options_.epoch == 0) options_.epoch = d.epoch + 1;
    if (sqlite3_db_readonly(d.db(), "main") == 1) {
      if (d.HeaderForbidsWriting()) return d.ForbidsWriting();
      return Status(Code::kPermission, StrCat("cannot write ", d.path(), ": it is read-only for you"));
    }
    std::string mode;
    HARROW_RETURN_IF_ERROR(Pragma("PRAGMA journal_mode = WAL", &mode));
    if (mode != "wal")
      return Status(Code::kUnavailable, StrCat("SQLite does not write ", d.path(), " as WAL but as ", mode));
    HARROW_RETURN_IF_ERROR(d.acknowledged().OpenForWriting());
    std::string settings = StrCat("PRAGMA synchronous = ", options_.sync ? "FULL" : "OFF",
                                  "; PRAGMA wal_autocheckpoint = ", kCheckpointPages);
    if (!d.Run(settings.c_str()) || !d.Run("BEGIN IMMEDIATE")) return FailedTo(d.db(), "write", d.path());
    std::vector<Fact> first;
    const std::string version = StrCat("PRAGMA user_version = ", kJournalFormat);
    if (*empty) {
      const std::string ours = StrCat("PRAGMA application_id = ", kApplicationId);
      if (!d.Run(SchemaOf(kJournalFormat).c_str()) || !d.Run(ours.c_str()) || !d.Run(version.c_str()))
        return FailedTo(d.db(), "write", d.path());
      first = {{"format", std::to_string(kJournalFormat)}, {"run_id", options_.run_id}};
    } else if (d.format != kJournalFormat) {
      if (!d.Run(FromFormat(d.format).c_str()) || !d.Run(version.c_str()))
        return FailedTo(d.db(), "write", d.path());
      first = {{"format", std::to_string(kJournalFormat)}};
    }
    if (!Prepare<TaskRecord>(kTask) || !Prepare<AttemptRecord>(kAttempt) || !Prepare<FateRecord>(kFate) ||
        !Prepare<NodeRecord>(kNode) || !Prepare<CopyRecord>(kCopy) || !Prepare<Fact>(kFact) ||
        !Prepare<PartRecord>(kPart) || !Prepare<MoveRecord>(kMove)) {
      return FailedTo(d.db(), "write", d.path());
    }
    if (!begin_.Prepare(d.db(), "BEGIN IMMEDIATE") || !commit_.Prepare(d.db(), "COMMIT") ||
        !insert_group_.Prepare(d.db(), "INSERT INTO commit_group VALUES (?,?,?,?,?,?,?,?,?,?,?,?)")) {
      return FailedTo(d.db(), "write", d.path());
    }
    // The epoch is on disk before anybody hears of it; what cannot be written shows here.
    Group group;
    group.facts = first;
    return CommitBegun(group);
  }

  Status Commit(const Group& group) override {
    HARROW_RETURN_IF_ERROR(failed_);
    if (!begin_.Execute()) return Fail();
    return CommitBegun(group);
  }

  Status Close() override {
    if (!database_) return failed_;
    Status result = failed_;
    if (failed_.ok()) {
      std::string mode;
      FinalizeAll();
      result = Pragma("PRAGMA journal_mode = DELETE", &mode);
      if (result.ok() && mode != "delete") result = FailedTo(database_->db(), "close", database_->path());
      failed_ = Status(Code::kInternal, "the journal is closed");
    } else {
      FinalizeAll();
    }
    database_.reset();
    return result;
  }

  ~SqliteStore() override {
    FinalizeAll();
    database_.reset();
  }

  TaskId last_task() const override { return database_->last_task; }

 private:
  Status Pragma(const char* sql, std::string* answer) {
    Statement s;
    if (!s.Prepare(database_->db(), sql) || s.Step() != SQLITE_ROW) {
      return FailedTo(database_->db(), "write", database_->path());
    }
    *answer = s.Text(0);
    return {};
  }

  template <class Record>
  bool Prepare(TableIndex table) {
    Record record;
    FieldCounter count;
    VisitFields(record, count);
    std::string row = "(?";
    for (int i = 0; i < count.fields; ++i) row += ",?";
    row += ")";
    const std::string insert = StrCat("INSERT INTO ", kTableNames[table], " VALUES ");
    std::string rows = row;
    for (size_t i = 1; i < kRowsAtOnce; ++i) rows += "," + row;
    return inserts_[table].Prepare(database_->db(), insert + row) &&
           many_inserts_[table].Prepare(database_->db(), insert + rows);
  }

  template <class Record>
  bool Insert(TableIndex table, std::span<const Record> records) {
    while (!records.empty()) {
      const bool many = records.size() >= kRowsAtOnce;
      Statement& insert = many ? many_inserts_[table] : inserts_[table];
      Binder bind(insert.get(), &database_->chain);
      for (const Record& record : records.first(many ? kRowsAtOnce : 1)) {
        int64_t id = ++database_->rows[table];
        if constexpr (std::is_same_v<Record, TaskRecord>) {
          id = record.task.value;
          database_->last_task = record.task;
        }
        bind.Begin(id);
        VisitFields(record, bind);
      }
      if (!insert.Execute()) return false;
      records = records.subspan(many ? kRowsAtOnce : 1);
    }
    return true;
  }

  Status CommitBegun(const Group& group) {
    Database& d = *database_;
    if (!Insert(kTask, group.tasks) || !Insert(kAttempt, group.attempts) || !Insert(kFate, group.fates) ||
        !Insert(kNode, group.nodes) || !Insert(kCopy, group.copies) || !Insert(kFact, group.facts) ||
        !Insert(kPart, group.parts) || !Insert(kMove, group.moves)) {
      return Fail();
    }
    auto epoch = static_cast<int64_t>(options_.epoch);
    int64_t now = NowNs();
    d.chain.Add(epoch);
    d.chain.Add(now);
    uint64_t chain = d.chain.EndGroup();
    int64_t values[] = {++d.groups,
                        epoch,
                        now,
                        static_cast<int64_t>(group.tasks.size()),
                        static_cast<int64_t>(group.attempts.size()),
                        static_cast<int64_t>(group.fates.size()),
                        static_cast<int64_t>(group.nodes.size()),
                        static_cast<int64_t>(group.copies.size()),
                        static_cast<int64_t>(group.facts.size()),
                        static_cast<int64_t>(group.parts.size()),
                        static_cast<int64_t>(group.moves.size()),
                        static_cast<int64_t>(chain)};
    int column = 0;
    for (int64_t value : values) sqlite3_bind_int64(insert_group_.get(), ++column, value);
    if (!insert_group_.Execute() || !commit_.Execute()) return Fail();
    d.acknowledged().Write({static_cast<uint64_t>(d.groups), chain});
    return {};
  }

  // After a failed write or sync nobody knows what the disk holds of it: no second try.
  Status Fail() {
    failed_ = FailedTo(database_->db(), "write", database_->path());
    database_->Run("ROLLBACK");
    return failed_;
  }

  void FinalizeAll() {
    for (Statement& insert : inserts_) insert.Finalize();
    for (Statement& insert : many_inserts_) insert.Finalize();
    begin_.Finalize();
    commit_.Finalize();
    insert_group_.Finalize();
  }

  Journal::Options options_;
  std::unique_ptr<Database> database_;
  // One statement for some rows takes less time than as many for one each.
  static constexpr size_t kRowsAtOnce = 16;
  std::array<Statement, kTableNames.size()> inserts_, many_inserts_;
  Statement begin_, commit_, insert_group_;
  Status failed_;
};

Result<History> ReadWith(std::shared_ptr<run_dir::RunDir> dir, int flags) {
  Database d(std::move(dir));
  HARROW_RETURN_IF_ERROR(d.Open(flags));
  Result<bool> empty = d.IsEmpty();
  if (!empty.ok()) return empty.status();
  if (*empty) return Status(Code::kNotFound, StrCat(d.path(), " is empty: its run never began"));
  History history;
  HARROW_RETURN_IF_ERROR(d.Verify(&history));
  return history;
}

// A server killed while it closed its journal leaves SQLite's rollback journal, which only a writer can
// apply; and SQLite may want to write beside a journal that is not ours. A copy is made for that.
Result<History> ReadCopy(run_dir::RunDir& dir) {
  JournalCopy copy;
  HARROW_RETURN_IF_ERROR(copy.Make());
  HARROW_RETURN_IF_ERROR(copy.Take(dir));
  return copy.Named(dir, ReadWith(copy.dir(), SQLITE_OPEN_READWRITE));
}

}  // namespace

Result<std::unique_ptr<Store>> Store::Open(std::shared_ptr<run_dir::RunDir> dir,
                                           const Journal::Options& options, History* history) {
  auto store = std::make_unique<SqliteStore>(std::move(dir), options);
  HARROW_RETURN_IF_ERROR(store->Open(history));
  return std::unique_ptr<Store>(std::move(store));
}

Result<History> ReadHistory(std::shared_ptr<run_dir::RunDir> dir) {
  const std::string path = run_dir::JournalPath(dir->path());
  const Result<os::FileInfo> info = dir->Stat(path);
  if (info.status().code() == Code::kNotFound) {
    return Status(Code::kNotFound, StrCat("no journal in ", dir->path(), ": No such file or directory"));
  }
  if (!info.ok()) return info.status();
  if (dir->Stat(path + "-journal").ok() || !dir->ours()) return ReadCopy(*dir);
  Result<History> read = ReadWith(dir, SQLITE_OPEN_READONLY);
  return read.status().code() == Code::kPermission ? ReadCopy(*dir) : read;
}

Result<History> ReadHistory(const std::string& run_dir) {
  auto dir = run_dir::RunDir::Open(run_dir);
  if (!dir.ok()) return dir.status();
  return ReadHistory(*std::move(dir));
}

}  // namespace harrow::journal
