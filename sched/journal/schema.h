#pragma once

#include <cstdint>
#include <string>

#include "base/text.h"

namespace harrow::journal {

// Tables and views of journal.db, as journal_format.md tells. They are compared literally when a journal is
// opened: any change, of a blank too, is a new kJournalFormat. Each has kTables, kViews, its own groups, and what
// has come since a format that is not newer.

inline constexpr const char* kTables = R"sql(
CREATE TABLE task (id INTEGER PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, identity_high INTEGER NOT NULL,
  identity_low INTEGER NOT NULL, level INTEGER NOT NULL, cores INTEGER NOT NULL);
CREATE TABLE attempt (id INTEGER PRIMARY KEY, task INTEGER NOT NULL, attempt INTEGER NOT NULL, node INTEGER,
  outcome INTEGER NOT NULL, code INTEGER NOT NULL, start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
  user_us INTEGER NOT NULL, system_us INTEGER NOT NULL, max_rss_kib INTEGER NOT NULL, output_file INTEGER NOT NULL,
  output_offset INTEGER NOT NULL, stdout_bytes INTEGER NOT NULL, stderr_bytes INTEGER NOT NULL,
  output_truncated INTEGER NOT NULL, message TEXT NOT NULL, cores TEXT NOT NULL, local_bytes INTEGER NOT NULL,
  remote_bytes INTEGER NOT NULL, home_bytes INTEGER NOT NULL, output_task INTEGER);
CREATE TABLE fate (id INTEGER PRIMARY KEY, task INTEGER NOT NULL, fate INTEGER NOT NULL, because INTEGER);
CREATE TABLE node (id INTEGER PRIMARY KEY, node INTEGER, name TEXT NOT NULL, slots INTEGER NOT NULL,
  incarnation INTEGER NOT NULL, output_file INTEGER NOT NULL, joined_ns INTEGER NOT NULL, left_ns INTEGER NOT NULL,
  topology TEXT NOT NULL);
CREATE TABLE copy (id INTEGER PRIMARY KEY, path TEXT NOT NULL, task INTEGER, from_node INTEGER, to_node INTEGER,
  bytes INTEGER NOT NULL, end_ns INTEGER NOT NULL);
CREATE TABLE fact (id INTEGER PRIMARY KEY, key TEXT NOT NULL, value TEXT NOT NULL);
)sql";

inline constexpr const char* kGroupsOfFormat3 = R"sql(
CREATE TABLE commit_group (id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, time_ns INTEGER NOT NULL, tasks INTEGER NOT NULL,
  attempts INTEGER NOT NULL, fates INTEGER NOT NULL, nodes INTEGER NOT NULL, copies INTEGER NOT NULL, facts INTEGER NOT NULL, chain INTEGER NOT NULL);
)sql";
/// The view of tasks; they can be pruned since format 6.
inline std::string TasksView(uint32_t format) {
  return StrCat(R"sql(
CREATE VIEW tasks AS
  WITH last_fate AS (SELECT task, fate, because, max(id) FROM fate GROUP BY task),
    tries AS (SELECT task, count(*) AS n, max(id) AS last FROM attempt GROUP BY task)
  SELECT t.id, t.name, t.kind, t.level, t.cores,
    CASE ifnull(f.fate, 0) WHEN 0 THEN 'open' WHEN 1 THEN 'done' WHEN 2 THEN 'failed' WHEN 3 THEN 'skipped'
      WHEN 4 THEN 'cancelled')sql",
                format >= 6 ? " WHEN 5 THEN 'pruned'" : "", R"sql( END AS state,
    b.name AS because, ifnull(n.n, 0) AS attempts, a.code AS code,
    CASE WHEN a.start_ns > 0 THEN (a.end_ns - a.start_ns) / 1e9 END AS run_s
  FROM task t LEFT JOIN last_fate f ON f.task = t.id LEFT JOIN task b ON b.id = f.because
    LEFT JOIN tries n ON n.task = t.id LEFT JOIN attempt a ON a.id = n.last;
)sql");
}
/// How an attempt, or a part of one, ended: `rest` of the word CASE; it can be rewound, or leave a checkpoint, since format 7.
inline std::string OutcomeText(std::string_view rest, uint32_t format) {
  return StrCat("CASE ", rest, format >= 7 ? " WHEN 10 THEN 'rewound' WHEN 11 THEN 'checkpointed'" : "", " END AS outcome,");
}
/// The view of attempts.
inline std::string AttemptsView(uint32_t format) {
  return StrCat(R"sql(
CREATE VIEW attempts AS
  WITH node_name AS (SELECT node, name, max(id) FROM node GROUP BY node)
  SELECT a.id, t.name AS task, t.kind, a.attempt, n.name AS node,
    )sql",
                OutcomeText(R"sql(a.outcome WHEN 1 THEN 'exited' WHEN 2 THEN 'signaled' WHEN 3 THEN 'timed_out' WHEN 4 THEN 'out_of_memory'
      WHEN 5 THEN 'cancelled' WHEN 6 THEN 'interrupted' WHEN 7 THEN 'not_started' WHEN 8 THEN 'lost'
      WHEN 9 THEN 'missing_output')sql",
                            format),
                R"sql(
    a.code, CASE WHEN a.start_ns > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', a.start_ns / 1e9, 'unixepoch') END AS start,
    CASE WHEN a.end_ns > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', a.end_ns / 1e9, 'unixepoch') END AS "end",
    CASE WHEN a.start_ns > 0 THEN (a.end_ns - a.start_ns) / 1e9 END AS run_s, a.user_us / 1e6 AS user_s,
    a.system_us / 1e6 AS system_s,
    CASE WHEN a.max_rss_kib > 0 THEN a.max_rss_kib END AS max_rss_kib, a.stdout_bytes, a.stderr_bytes, a.cores, a.local_bytes, a.remote_bytes,
    a.home_bytes, a.message
  FROM attempt a LEFT JOIN task t ON t.id = a.task LEFT JOIN node_name n ON n.node = a.node;
)sql");
}
inline constexpr const char* kViews = R"sql(CREATE VIEW copies AS
  WITH node_name AS (SELECT node, name, max(id) FROM node GROUP BY node)
  SELECT c.id, c.path, t.name AS task, t.kind, f.name AS from_node, n.name AS to_node, c.bytes,
    strftime('%Y-%m-%dT%H:%M:%fZ', c.end_ns / 1e9, 'unixepoch') AS "end"
  FROM copy c LEFT JOIN task t ON t.id = c.task LEFT JOIN node_name f ON f.node = c.from_node
    LEFT JOIN node_name n ON n.node = c.to_node;
)sql";

inline constexpr const char* kTablesSince4 = R"sql(
CREATE TABLE part (id INTEGER PRIMARY KEY, task INTEGER NOT NULL, attempt INTEGER NOT NULL, part INTEGER NOT NULL,
  nodes INTEGER NOT NULL, node INTEGER, ranks INTEGER NOT NULL, outcome INTEGER NOT NULL, code INTEGER NOT NULL,
  start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, failed_ns INTEGER NOT NULL, user_us INTEGER NOT NULL, system_us INTEGER NOT NULL, max_rss_kib INTEGER NOT NULL,
  output_file INTEGER NOT NULL, output_offset INTEGER NOT NULL, stdout_bytes INTEGER NOT NULL,
  stderr_bytes INTEGER NOT NULL, output_truncated INTEGER NOT NULL, message TEXT NOT NULL, cores TEXT NOT NULL,
  output_task INTEGER);
)sql";
inline constexpr const char* kGroupsOfFormat4 = R"sql(
CREATE TABLE commit_group (id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, time_ns INTEGER NOT NULL, tasks INTEGER NOT NULL,
  attempts INTEGER NOT NULL, fates INTEGER NOT NULL, nodes INTEGER NOT NULL, copies INTEGER NOT NULL, facts INTEGER NOT NULL,
  parts INTEGER NOT NULL, chain INTEGER NOT NULL);
)sql";
inline std::string PartsView(uint32_t format) {
  return StrCat(R"sql(
CREATE VIEW parts AS
  WITH node_name AS (SELECT node, name, max(id) FROM node GROUP BY node)
  SELECT p.id, t.name AS task, p.attempt, p.part, n.name AS node, p.ranks,
    )sql",
                OutcomeText(R"sql(p.outcome WHEN 1 THEN 'exited' WHEN 2 THEN 'signaled' WHEN 3 THEN 'timed_out' WHEN 4 THEN 'out_of_memory'
      WHEN 5 THEN 'cancelled' WHEN 6 THEN 'interrupted' WHEN 7 THEN 'not_started' WHEN 8 THEN 'lost'
      WHEN 9 THEN 'missing_output')sql",
                            format),
                R"sql(
    p.code, CASE WHEN p.start_ns > 0 THEN (p.end_ns - p.start_ns) / 1e9 END AS run_s, p.user_us / 1e6 AS user_s,
    p.system_us / 1e6 AS system_s,
    CASE WHEN p.max_rss_kib > 0 THEN p.max_rss_kib END AS max_rss_kib, p.stdout_bytes, p.stderr_bytes, p.cores,
    p.message
  FROM part p LEFT JOIN task t ON t.id = p.task LEFT JOIN node_name n ON n.node = p.node;
)sql");
}

inline constexpr const char* kTablesSince5 = R"sql(
CREATE TABLE move (id INTEGER PRIMARY KEY, what INTEGER NOT NULL, giver INTEGER NOT NULL, number INTEGER NOT NULL,
  taker INTEGER NOT NULL, tasks TEXT NOT NULL, tried TEXT NOT NULL, time_ns INTEGER NOT NULL);
)sql";
inline constexpr const char* kGroupsOfFormat5 = R"sql(
CREATE TABLE commit_group (id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, time_ns INTEGER NOT NULL, tasks INTEGER NOT NULL,
  attempts INTEGER NOT NULL, fates INTEGER NOT NULL, nodes INTEGER NOT NULL, copies INTEGER NOT NULL, facts INTEGER NOT NULL,
  parts INTEGER NOT NULL, moves INTEGER NOT NULL, chain INTEGER NOT NULL);
)sql";
inline constexpr const char* kViewsSince5 = R"sql(
CREATE VIEW moves AS
  SELECT id, CASE what WHEN 1 THEN 'offered' WHEN 2 THEN 'taken' WHEN 3 THEN 'confirmed' WHEN 4 THEN 'returned' END AS what,
    giver, number, taker, tasks, strftime('%Y-%m-%dT%H:%M:%fZ', time_ns / 1e9, 'unixepoch') AS time
  FROM move;
)sql";

/// All of it, of a journal of that format.
inline std::string SchemaOf(uint32_t format) {
  std::string sql = StrCat(kTables, TasksView(format), AttemptsView(format), kViews);
  if (format >= 4) sql += StrCat(kTablesSince4, PartsView(format));
  if (format >= 5) sql += StrCat(kTablesSince5, kViewsSince5);
  return sql + (format >= 5 ? kGroupsOfFormat5 : format == 4 ? kGroupsOfFormat4 : kGroupsOfFormat3);
}

/// Makes a journal of an earlier format, which has been verified, one of the present one. The hashes of its groups stay
/// what they are: they do not cover how many rows of a kind there are.
inline std::string FromFormat(uint32_t format) {
  std::string sql = StrCat("DROP VIEW tasks; DROP VIEW attempts;", TasksView(7), AttemptsView(7));
  if (format >= 4) sql += StrCat("DROP VIEW parts;", PartsView(7));
  if (format < 5) {
    sql += StrCat("CREATE TEMP TABLE earlier AS SELECT * FROM commit_group; DROP TABLE commit_group;",
                  format < 4 ? StrCat(kTablesSince4, PartsView(7)) : "", kTablesSince5, kViewsSince5, kGroupsOfFormat5,
                  "INSERT INTO commit_group SELECT id, epoch, time_ns, tasks, attempts, fates, nodes, copies, facts, ",
                  format < 4 ? "0" : "parts", ", 0, chain FROM earlier; DROP TABLE earlier;");
  }
  return sql;
}

}  // namespace harrow::journal
