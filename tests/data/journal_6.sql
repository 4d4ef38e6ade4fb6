-- A journal of format 6, as a release that wrote that format made it of one of format 5 (application_id and user_version apart).
BEGIN TRANSACTION;
CREATE TABLE attempt (id INTEGER PRIMARY KEY, task INTEGER NOT NULL, attempt INTEGER NOT NULL, node INTEGER,
  outcome INTEGER NOT NULL, code INTEGER NOT NULL, start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
  user_us INTEGER NOT NULL, system_us INTEGER NOT NULL, max_rss_kib INTEGER NOT NULL, output_file INTEGER NOT NULL,
  output_offset INTEGER NOT NULL, stdout_bytes INTEGER NOT NULL, stderr_bytes INTEGER NOT NULL,
  output_truncated INTEGER NOT NULL, message TEXT NOT NULL, cores TEXT NOT NULL, local_bytes INTEGER NOT NULL,
  remote_bytes INTEGER NOT NULL, home_bytes INTEGER NOT NULL, output_task INTEGER);
INSERT INTO "attempt" VALUES(1,0,1,0,1,0,1200,1900,30,4,900,1,16,5,0,0,'','0-1',1,2,1,NULL);
INSERT INTO "attempt" VALUES(2,1,1,0,2,9,1950,2000,0,0,0,0,0,0,0,0,'killed','',0,0,0,7);
CREATE TABLE commit_group (id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, time_ns INTEGER NOT NULL, tasks INTEGER NOT NULL,
  attempts INTEGER NOT NULL, fates INTEGER NOT NULL, nodes INTEGER NOT NULL, copies INTEGER NOT NULL, facts INTEGER NOT NULL,
  parts INTEGER NOT NULL, moves INTEGER NOT NULL, chain INTEGER NOT NULL);
INSERT INTO "commit_group" VALUES(1,1,1795662921897573831,0,0,0,0,0,2,0,0,-4590366333018282345);
INSERT INTO "commit_group" VALUES(2,1,1795662921919688311,2,0,0,1,0,1,0,0,-8297444267761195324);
INSERT INTO "commit_group" VALUES(3,1,1795662921939118157,0,2,2,0,1,1,1,0,4403550682136612931);
INSERT INTO "commit_group" VALUES(4,2,1795698398690105870,0,0,0,0,0,1,0,0,-4260672064594401521);
INSERT INTO "commit_group" VALUES(5,3,1795712107301002193,0,0,0,0,0,1,0,0,1113343657069659189);
CREATE TABLE copy (id INTEGER PRIMARY KEY, path TEXT NOT NULL, task INTEGER, from_node INTEGER, to_node INTEGER,
  bytes INTEGER NOT NULL, end_ns INTEGER NOT NULL);
INSERT INTO "copy" VALUES(1,'a',1,0,NULL,12,1999);
CREATE TABLE fact (id INTEGER PRIMARY KEY, key TEXT NOT NULL, value TEXT NOT NULL);
INSERT INTO "fact" VALUES(1,'format','4');
INSERT INTO "fact" VALUES(2,'run_id','run');
INSERT INTO "fact" VALUES(3,'started_ns','1000');
INSERT INTO "fact" VALUES(4,'ended_ns','2100');
INSERT INTO "fact" VALUES(5,'format','5');
INSERT INTO "fact" VALUES(6,'format','6');
CREATE TABLE fate (id INTEGER PRIMARY KEY, task INTEGER NOT NULL, fate INTEGER NOT NULL, because INTEGER);
INSERT INTO "fate" VALUES(1,0,1,NULL);
INSERT INTO "fate" VALUES(2,1,2,NULL);
CREATE TABLE move (id INTEGER PRIMARY KEY, what INTEGER NOT NULL, giver INTEGER NOT NULL, number INTEGER NOT NULL,
  taker INTEGER NOT NULL, tasks TEXT NOT NULL, tried TEXT NOT NULL, time_ns INTEGER NOT NULL);
CREATE TABLE node (id INTEGER PRIMARY KEY, node INTEGER, name TEXT NOT NULL, slots INTEGER NOT NULL,
  incarnation INTEGER NOT NULL, output_file INTEGER NOT NULL, joined_ns INTEGER NOT NULL, left_ns INTEGER NOT NULL,
  topology TEXT NOT NULL);
INSERT INTO "node" VALUES(1,0,'n1',4,77,1,1100,0,'4 cores');
CREATE TABLE part (id INTEGER PRIMARY KEY, task INTEGER NOT NULL, attempt INTEGER NOT NULL, part INTEGER NOT NULL,
  nodes INTEGER NOT NULL, node INTEGER, ranks INTEGER NOT NULL, outcome INTEGER NOT NULL, code INTEGER NOT NULL,
  start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, failed_ns INTEGER NOT NULL, user_us INTEGER NOT NULL, system_us INTEGER NOT NULL, max_rss_kib INTEGER NOT NULL,
  output_file INTEGER NOT NULL, output_offset INTEGER NOT NULL, stdout_bytes INTEGER NOT NULL,
  stderr_bytes INTEGER NOT NULL, output_truncated INTEGER NOT NULL, message TEXT NOT NULL, cores TEXT NOT NULL,
  output_task INTEGER);
INSERT INTO "part" VALUES(1,0,1,0,2,0,3,1,0,1200,1900,0,0,0,0,0,0,0,0,0,'','',NULL);
CREATE TABLE task (id INTEGER PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, identity_high INTEGER NOT NULL,
  identity_low INTEGER NOT NULL, level INTEGER NOT NULL, cores INTEGER NOT NULL);
INSERT INTO "task" VALUES(0,'first','a',1,2,0,2);
INSERT INTO "task" VALUES(1,'second','b',3,4,1,1);
CREATE VIEW attempts AS
  WITH node_name AS (SELECT node, name, max(id) FROM node GROUP BY node)
  SELECT a.id, t.name AS task, t.kind, a.attempt, n.name AS node,
    CASE a.outcome WHEN 1 THEN 'exited' WHEN 2 THEN 'signaled' WHEN 3 THEN 'timed_out' WHEN 4 THEN 'out_of_memory'
      WHEN 5 THEN 'cancelled' WHEN 6 THEN 'interrupted' WHEN 7 THEN 'not_started' WHEN 8 THEN 'lost'
      WHEN 9 THEN 'missing_output' END AS outcome,
    a.code, CASE WHEN a.start_ns > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', a.start_ns / 1e9, 'unixepoch') END AS start,
    CASE WHEN a.end_ns > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', a.end_ns / 1e9, 'unixepoch') END AS "end",
    CASE WHEN a.start_ns > 0 THEN (a.end_ns - a.start_ns) / 1e9 END AS run_s, a.user_us / 1e6 AS user_s,
    a.system_us / 1e6 AS system_s,
    CASE WHEN a.max_rss_kib > 0 THEN a.max_rss_kib END AS max_rss_kib, a.stdout_bytes, a.stderr_bytes, a.cores, a.local_bytes, a.remote_bytes,
    a.home_bytes, a.message
  FROM attempt a LEFT JOIN task t ON t.id = a.task LEFT JOIN node_name n ON n.node = a.node;
CREATE VIEW copies AS
  WITH node_name AS (SELECT node, name, max(id) FROM node GROUP BY node)
  SELECT c.id, c.path, t.name AS task, t.kind, f.name AS from_node, n.name AS to_node, c.bytes,
    strftime('%Y-%m-%dT%H:%M:%fZ', c.end_ns / 1e9, 'unixepoch') AS "end"
  FROM copy c LEFT JOIN task t ON t.id = c.task LEFT JOIN node_name f ON f.node = c.from_node
    LEFT JOIN node_name n ON n.node = c.to_node;
CREATE VIEW parts AS
  WITH node_name AS (SELECT node, name, max(id) FROM node GROUP BY node)
  SELECT p.id, t.name AS task, p.attempt, p.part, n.name AS node, p.ranks,
    CASE p.outcome WHEN 1 THEN 'exited' WHEN 2 THEN 'signaled' WHEN 3 THEN 'timed_out' WHEN 4 THEN 'out_of_memory'
      WHEN 5 THEN 'cancelled' WHEN 6 THEN 'interrupted' WHEN 7 THEN 'not_started' WHEN 8 THEN 'lost'
      WHEN 9 THEN 'missing_output' END AS outcome,
    p.code, CASE WHEN p.start_ns > 0 THEN (p.end_ns - p.start_ns) / 1e9 END AS run_s, p.user_us / 1e6 AS user_s,
    p.system_us / 1e6 AS system_s,
    CASE WHEN p.max_rss_kib > 0 THEN p.max_rss_kib END AS max_rss_kib, p.stdout_bytes, p.stderr_bytes, p.cores,
    p.message
  FROM part p LEFT JOIN task t ON t.id = p.task LEFT JOIN node_name n ON n.node = p.node;
CREATE VIEW moves AS
  SELECT id, CASE what WHEN 1 THEN 'offered' WHEN 2 THEN 'taken' WHEN 3 THEN 'confirmed' WHEN 4 THEN 'returned' END AS what,
    giver, number, taker, tasks, strftime('%Y-%m-%dT%H:%M:%fZ', time_ns / 1e9, 'unixepoch') AS time
  FROM move;
CREATE VIEW tasks AS
  WITH last_fate AS (SELECT task, fate, because, max(id) FROM fate GROUP BY task),
    tries AS (SELECT task, count(*) AS n, max(id) AS last FROM attempt GROUP BY task)
  SELECT t.id, t.name, t.kind, t.level, t.cores,
    CASE ifnull(f.fate, 0) WHEN 0 THEN 'open' WHEN 1 THEN 'done' WHEN 2 THEN 'failed' WHEN 3 THEN 'skipped'
      WHEN 4 THEN 'cancelled' WHEN 5 THEN 'pruned' END AS state,
    b.name AS because, ifnull(n.n, 0) AS attempts, a.code AS code,
    CASE WHEN a.start_ns > 0 THEN (a.end_ns - a.start_ns) / 1e9 END AS run_s
  FROM task t LEFT JOIN last_fate f ON f.task = t.id LEFT JOIN task b ON b.id = f.because
    LEFT JOIN tries n ON n.task = t.id LEFT JOIN attempt a ON a.id = n.last;
COMMIT;
