-- Nightshift's database. Load it into an empty file, with our program or with the stock shell:
--
--     sqlite3 -bail nightshift.db < schema.sql
--     sqlite3 -cmd '.timeout 5000' nightshift.db \
--       "INSERT INTO tasks(task_type, payload) VALUES ('fetch_data', '{\"url\":\"http://…\"}')"
--
-- The rules of the state machine live here as triggers, so that they hold for a shell too. They are
-- written for SQLite 3.40 and later (RAISE takes literal text only there: one arm for each pair).
-- Rules are triggers and not CHECKs, because INSERT OR IGNORE drops a row that fails a CHECK in
-- silence, and OR IGNORE is the idiom of unique_key.

BEGIN IMMEDIATE;

-- Holds a row when the file was empty. Without it everything below is rolled back at the end, so that
-- loading the schema twice, or into a stranger's file, changes nothing.
CREATE TEMP TABLE schema_guard (
  objects INTEGER CONSTRAINT "this file already holds tables: schema.sql goes into an empty one" CHECK (objects = 0)
);
INSERT INTO schema_guard SELECT count(*) FROM sqlite_schema;

PRAGMA application_id = 1314080340; -- 'NSFT'
PRAGMA user_version = 1;

-- Times are UTC, YYYY-MM-DDTHH:MM:SS.mmmZ: the order of the texts is the order of the times. What a
-- shell writes (datetime('now','+1 hour'), an offset such as +08:00, a date; without a zone it is UTC)
-- is brought into that form by the triggers; NULL is now; anything else is refused.
--
-- The large columns come last: a column behind a large value is reached only through its overflow pages.
CREATE TABLE tasks (
  task_id           TEXT PRIMARY KEY NOT NULL DEFAULT (strftime('%Y%m%dT%H%M%f', 'now') || '-' || lower(hex(randomblob(8)))),
  task_type         TEXT NOT NULL,
  status            TEXT NOT NULL DEFAULT 'PENDING',
  priority          INTEGER NOT NULL DEFAULT 100,    -- smaller runs first
  next_run_time     TEXT DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  retry_count       INTEGER NOT NULL DEFAULT 0,      -- the task's own failures; rises with the change to RETRYING
  max_retry         INTEGER NOT NULL DEFAULT 5,      -- 0: one attempt
  executor_id       TEXT,                            -- who runs it; NULL: nobody, it may be claimed
  lease_expire_time TEXT,
  created_at        TEXT DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at        TEXT DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  reason            TEXT,                            -- of the last status change
  control           TEXT,                            -- what a person asks for: cancel, kill, pause, resume
  exec_id           INTEGER,                         -- the current execution: the fencing token
  timeout_seconds   INTEGER,                         -- NULL: the type's; 0: none
  crash_count       INTEGER NOT NULL DEFAULT 0,      -- crashes of its executor since the checkpoint moved
  executions        INTEGER NOT NULL DEFAULT 0,
  unique_key        TEXT,                            -- at most one unfinished task bears it
  schedule          TEXT,                            -- the schedule that made it
  rerun_of          TEXT,                            -- the task that it runs again
  progress          TEXT,
  payload           ANY NOT NULL DEFAULT '{}',       -- JSON text; ANY, so that readfile()'s BLOB can be made text
  checkpoint        TEXT,                            -- JSON text
  result            TEXT                             -- JSON text
) STRICT;

CREATE INDEX idx_tasks_status_next_run ON tasks (status, next_run_time);

-- What a claim walks, one type and priority at a time. Final, running and held rows are not in it.
CREATE INDEX idx_tasks_claim ON tasks (task_type, priority, next_run_time)
  WHERE executor_id IS NULL
    AND (control IS NULL OR control <> 'pause')
    AND (status = 'PENDING' OR status = 'RETRYING' OR (status = 'PAUSED' AND control = 'resume'));

CREATE UNIQUE INDEX idx_tasks_unique_key ON tasks (unique_key)
  WHERE unique_key IS NOT NULL
    AND (status = 'PENDING' OR status = 'RUNNING' OR status = 'RETRYING' OR status = 'PAUSED' OR status = 'LOST');

-- Moved by a shell while it ran: its executor has not let go of it yet. Empty as a rule.
CREATE INDEX idx_tasks_held ON tasks (executor_id)
  WHERE executor_id IS NOT NULL AND (status = 'PENDING' OR status = 'RETRYING' OR status = 'PAUSED');

CREATE INDEX idx_tasks_schedule ON tasks (schedule, status) WHERE schedule IS NOT NULL;

-- What failed lately, for people. Only a failure writes to it.
CREATE INDEX idx_tasks_failed ON tasks (updated_at, status) WHERE status = 'FAILED' OR status = 'DEAD';

CREATE INDEX idx_tasks_rerun_of ON tasks (rerun_of) WHERE rerun_of IS NOT NULL;

-- For people; nothing is decided by it.
CREATE TABLE exec_history (
  exec_id     INTEGER PRIMARY KEY AUTOINCREMENT,     -- never used twice, even when rows are deleted
  task_id     TEXT NOT NULL,
  executor_id TEXT NOT NULL,
  start_time  TEXT NOT NULL,
  end_time    TEXT,
  outcome     TEXT,   -- success failed retry timeout cancelled paused stopped interrupted lost lease_expired
  exit_code   INTEGER,
  signal      TEXT,
  program     TEXT,   -- what was run
  log_path    TEXT,
  result      TEXT    -- the summary or the error
) STRICT;

CREATE INDEX idx_exec_history_task ON exec_history (task_id);

-- Every status change, written by a trigger. For people; nothing is decided by it.
CREATE TABLE task_events (
  event_id    INTEGER PRIMARY KEY,
  task_id     TEXT NOT NULL,
  from_status TEXT NOT NULL,
  to_status   TEXT NOT NULL,
  reason      TEXT NOT NULL,
  executor_id TEXT,
  exec_id     INTEGER,
  at          TEXT NOT NULL
) STRICT;

CREATE INDEX idx_task_events_task ON task_events (task_id);

-- One row for each executor (a slot of a worker).
CREATE TABLE worker_heartbeats (
  worker_id       TEXT PRIMARY KEY NOT NULL,
  pid             INTEGER NOT NULL,
  hostname        TEXT NOT NULL,
  last_heartbeat  TEXT NOT NULL,
  current_task_id TEXT,
  progress        TEXT,
  version         TEXT,
  boot_id         TEXT,
  started_at      TEXT,
  start_ticks     INTEGER,                           -- of the process, so that a reused pid is not taken for it
  beat            INTEGER NOT NULL DEFAULT 0,        -- counts up: silence is timed by whoever watches it
  stopped_at      TEXT,                              -- a clean end: stopped, not offline
  lock_path       TEXT,
  lock_dev        INTEGER,
  lock_ino        INTEGER,
  draining        INTEGER NOT NULL DEFAULT 0,
  slow_since      TEXT                               -- its task's progress has not moved since
) STRICT;

CREATE TABLE schedules (
  name             TEXT PRIMARY KEY NOT NULL,
  definition       TEXT NOT NULL,
  considered_until TEXT,                             -- occurrences up to here are decided
  considered_high  TEXT,                             -- how far it was before the clock was set back
  enabled          INTEGER NOT NULL DEFAULT 1
) STRICT;

-- Occurrences that did not run: one a row, or several in a row of time with one reason.
CREATE TABLE schedule_skips (
  schedule   TEXT NOT NULL,
  occurrence TEXT NOT NULL,                          -- the first of them
  reason     TEXT NOT NULL,
  at         TEXT NOT NULL,
  until      TEXT,                                   -- the last of them
  count      INTEGER NOT NULL DEFAULT 1,
  run        TEXT,                                   -- the task that does duty for them
  PRIMARY KEY (schedule, occurrence)
) STRICT, WITHOUT ROWID;

CREATE TABLE settings (
  name  TEXT PRIMARY KEY NOT NULL,
  value TEXT
) STRICT, WITHOUT ROWID;

-- Always empty. A trigger that inserts here fails with the constraint's name as its message, under
-- INSERT and under INSERT OR REPLACE; under INSERT OR IGNORE it is ignored, as the row itself then is.
CREATE TABLE refused (
  it INTEGER CONSTRAINT "a task with this task_id (or this unique_key) is not finished: give another one, use INSERT OR IGNORE to add it only once, or `nightshift rerun` it when it has ended" CHECK (it IS NULL)
) STRICT;

-- INSERT OR REPLACE removes the row in its way without firing any other trigger. NULLs are refused
-- here and not by NOT NULL alone, which INSERT OR IGNORE passes over in silence.
CREATE TRIGGER tasks_insert_guard BEFORE INSERT ON tasks
WHEN NEW.task_id IS NULL OR NEW.task_type IS NULL OR NEW.payload IS NULL OR NEW.status IS NULL OR NEW.priority IS NULL
  OR NEW.retry_count IS NULL OR NEW.max_retry IS NULL OR NEW.crash_count IS NULL OR NEW.executions IS NULL
  OR EXISTS (SELECT 1 FROM tasks WHERE task_id = NEW.task_id AND status IN ('PENDING', 'RUNNING', 'RETRYING', 'PAUSED', 'LOST'))
  OR EXISTS (SELECT 1 FROM tasks WHERE rowid = NEW.rowid AND status IN ('PENDING', 'RUNNING', 'RETRYING', 'PAUSED', 'LOST'))
  OR (NEW.unique_key IS NOT NULL AND EXISTS (SELECT 1 FROM tasks WHERE unique_key = NEW.unique_key
       AND (status = 'PENDING' OR status = 'RUNNING' OR status = 'RETRYING' OR status = 'PAUSED' OR status = 'LOST')))
BEGIN
  SELECT CASE WHEN NEW.task_id IS NULL OR NEW.task_type IS NULL OR NEW.payload IS NULL OR NEW.status IS NULL OR NEW.priority IS NULL
      OR NEW.retry_count IS NULL OR NEW.max_retry IS NULL OR NEW.crash_count IS NULL OR NEW.executions IS NULL
    THEN RAISE(ABORT, 'task_id, task_type, payload, status, priority and the counts cannot be NULL: leave the column out to get its default')
  END;
  INSERT INTO refused VALUES (1);
END;

-- SQLite sets up a trigger's whole program each time that the trigger fires, whatever its WHEN says.
-- So those on the path of every task are short, and what is seldom needed (the messages, and bringing
-- values into our form) stands behind a view: a view that holds nothing, whose trigger does it.
CREATE VIEW task_insert_review AS SELECT NULL AS task_rowid;

CREATE VIEW task_update_review AS SELECT NULL AS task_rowid, NULL AS old_rowid, NULL AS task_id, NULL AS old_task_id,
  NULL AS status, NULL AS old_status, NULL AS reason, NULL AS old_reason,
  NULL AS exec_id, NULL AS old_exec_id, NULL AS executor_id, NULL AS old_executor_id,
  NULL AS unique_key, NULL AS old_unique_key, NULL AS schedule, NULL AS old_schedule, NULL AS task_type, NULL AS old_task_type,
  NULL AS executions, NULL AS old_executions, NULL AS retry_count, NULL AS crash_count, NULL AS max_retry, NULL AS timeout_seconds,
  NULL AS next_run_time, NULL AS old_next_run_time, NULL AS lease_expire_time, NULL AS old_lease_expire_time,
  NULL AS created_at, NULL AS old_created_at, NULL AS updated_at, NULL AS old_updated_at;

CREATE TRIGGER tasks_insert_rules AFTER INSERT ON tasks
WHEN (NEW.status IN ('PENDING', 'PAUSED') AND typeof(NEW.payload) = 'text' AND json_valid(NEW.payload)
  AND length(CAST(NEW.payload AS BLOB)) <= 1048576 AND instr(CAST(NEW.payload AS BLOB), x'00') = 0 AND NEW.payload NOT GLOB '*�*'
  AND (NEW.task_id NOT GLOB '*[^ -~]*' AND length(CAST(NEW.task_id AS BLOB)) BETWEEN 1 AND 255 AND length(NEW.task_id) = length(CAST(NEW.task_id AS BLOB)))
  AND (NEW.task_type NOT GLOB '*[^ -~]*' AND length(CAST(NEW.task_type AS BLOB)) BETWEEN 1 AND 255 AND length(NEW.task_type) = length(CAST(NEW.task_type AS BLOB)))
  AND (NEW.unique_key IS NULL OR (NEW.unique_key NOT GLOB '*[^ -~]*' AND length(CAST(NEW.unique_key AS BLOB)) BETWEEN 1 AND 255 AND length(NEW.unique_key) = length(CAST(NEW.unique_key AS BLOB))))
  AND (NEW.schedule IS NULL OR (NEW.schedule NOT GLOB '*[^ -~]*' AND length(CAST(NEW.schedule AS BLOB)) BETWEEN 1 AND 255 AND length(NEW.schedule) = length(CAST(NEW.schedule AS BLOB))))
  AND NEW.executor_id IS NULL AND NEW.lease_expire_time IS NULL AND NEW.exec_id IS NULL AND NEW.reason IS NULL AND NEW.control IS NULL
  AND NEW.checkpoint IS NULL AND NEW.result IS NULL AND NEW.crash_count = 0 AND NEW.executions = 0 AND NEW.retry_count >= 0
  AND NEW.max_retry BETWEEN 0 AND 1000000000 AND (NEW.timeout_seconds IS NULL OR NEW.timeout_seconds BETWEEN 0 AND 1000000000)
  AND NEW.next_run_time IS NOT NULL AND strftime('%Y-%m-%dT%H:%M:%fZ', NEW.next_run_time, '+0 days') IS NEW.next_run_time
  AND (NEW.created_at IS NEW.next_run_time OR (NEW.created_at IS NOT NULL AND strftime('%Y-%m-%dT%H:%M:%fZ', NEW.created_at, '+0 days') IS NEW.created_at))
  AND (NEW.updated_at IS NEW.created_at OR (NEW.updated_at IS NOT NULL AND strftime('%Y-%m-%dT%H:%M:%fZ', NEW.updated_at, '+0 days') IS NEW.updated_at))) IS NOT 1
BEGIN
  INSERT INTO task_insert_review VALUES (NEW.rowid);
END;

-- What a new row must hold, and the forms that are brought into ours.
CREATE TRIGGER task_insert_review_rules INSTEAD OF INSERT ON task_insert_review
BEGIN
  SELECT CASE
    WHEN status NOT IN ('PENDING', 'PAUSED') THEN RAISE(ABORT, 'a new task is PENDING, or PAUSED to hold it')
    WHEN control IS NOT NULL THEN RAISE(ABORT, 'control is for a task that exists: insert it with status PAUSED to hold it')
    WHEN executor_id IS NOT NULL OR lease_expire_time IS NOT NULL OR exec_id IS NOT NULL OR reason IS NOT NULL
      OR result IS NOT NULL OR crash_count <> 0 OR executions <> 0 THEN RAISE(ABORT, 'executor_id, lease_expire_time, exec_id, reason, result, crash_count and executions are not set by hand')
    WHEN length(CAST(task_id AS BLOB)) NOT BETWEEN 1 AND 255 OR instr(CAST(task_id AS BLOB), x'00') > 0
      OR task_id GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
      OR (task_id GLOB '*�*' AND instr(task_id, '�') = 0) THEN RAISE(ABORT, 'task_id must be text of 1 to 255 bytes without control characters')
    WHEN length(CAST(task_type AS BLOB)) NOT BETWEEN 1 AND 255 OR instr(CAST(task_type AS BLOB), x'00') > 0
      OR task_type GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
      OR (task_type GLOB '*�*' AND instr(task_type, '�') = 0) THEN RAISE(ABORT, 'task_type must be text of 1 to 255 bytes without control characters')
    WHEN length(CAST(unique_key AS BLOB)) NOT BETWEEN 1 AND 255 OR instr(CAST(unique_key AS BLOB), x'00') > 0
      OR unique_key GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
      OR (unique_key GLOB '*�*' AND instr(unique_key, '�') = 0) THEN RAISE(ABORT, 'unique_key must be text of 1 to 255 bytes without control characters')
    WHEN length(CAST(schedule AS BLOB)) NOT BETWEEN 1 AND 255 OR instr(CAST(schedule AS BLOB), x'00') > 0
      OR schedule GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
      OR (schedule GLOB '*�*' AND instr(schedule, '�') = 0) THEN RAISE(ABORT, 'schedule must be text of 1 to 255 bytes without control characters')
    WHEN typeof(payload) NOT IN ('text', 'blob') THEN RAISE(ABORT, 'payload must be JSON text: put it in quotes')
    WHEN length(CAST(CAST(payload AS TEXT) AS BLOB)) > 1048576 THEN RAISE(ABORT, 'payload is larger than 1 MiB')
    WHEN instr(CAST(CAST(payload AS TEXT) AS BLOB), x'00') > 0 THEN RAISE(ABORT, 'payload holds a NUL byte')
    WHEN CAST(payload AS TEXT) GLOB '*�*' AND instr(CAST(payload AS TEXT), '�') = 0 THEN RAISE(ABORT, 'payload is not valid UTF-8')
    WHEN CAST(payload AS TEXT) IS NOT NULL AND NOT json_valid(CAST(payload AS TEXT)) THEN RAISE(ABORT, 'payload is not valid JSON')
    WHEN length(CAST(checkpoint AS BLOB)) > 1048576 THEN RAISE(ABORT, 'checkpoint is larger than 1 MiB')
    WHEN instr(CAST(checkpoint AS BLOB), x'00') > 0 THEN RAISE(ABORT, 'checkpoint holds a NUL byte')
    WHEN checkpoint GLOB '*�*' AND instr(checkpoint, '�') = 0 THEN RAISE(ABORT, 'checkpoint is not valid UTF-8')
    WHEN checkpoint IS NOT NULL AND NOT json_valid(checkpoint) THEN RAISE(ABORT, 'checkpoint is not valid JSON')
    WHEN max_retry NOT BETWEEN 0 AND 1000000000 THEN RAISE(ABORT, 'max_retry must be between 0 (one attempt) and 1000000000')
    WHEN timeout_seconds NOT BETWEEN 0 AND 1000000000 THEN RAISE(ABORT, 'timeout_seconds must be between 0 (none) and 1000000000')
    WHEN retry_count < 0 THEN RAISE(ABORT, 'retry_count cannot be negative')
    WHEN next_run_time IS NOT NULL AND (NOT (next_run_time GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' OR next_run_time GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]*')
      OR date(substr(next_run_time, 1, 10), '+0 days') IS NOT substr(next_run_time, 1, 10) OR substr(next_run_time, 12, 2) >= '24'
      OR strftime('%Y-%m-%dT%H:%M:%fZ', next_run_time, '+0 days') IS NULL OR length(strftime('%Y-%m-%dT%H:%M:%fZ', next_run_time, '+0 days')) <> 24) THEN RAISE(ABORT, 'next_run_time is not a time: write 2026-12-01T16:04:05Z, 2026-12-01 16:04 (UTC), an offset such as +08:00, or datetime(''now'',''+1 hour'')')
    WHEN created_at IS NOT NULL AND (NOT (created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' OR created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]*')
      OR date(substr(created_at, 1, 10), '+0 days') IS NOT substr(created_at, 1, 10) OR substr(created_at, 12, 2) >= '24'
      OR strftime('%Y-%m-%dT%H:%M:%fZ', created_at, '+0 days') IS NULL OR length(strftime('%Y-%m-%dT%H:%M:%fZ', created_at, '+0 days')) <> 24) THEN RAISE(ABORT, 'created_at is not a time: write 2026-12-01T16:04:05Z, 2026-12-01 16:04 (UTC), an offset such as +08:00, or datetime(''now'',''+1 hour'')')
    WHEN updated_at IS NOT NULL AND (NOT (updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]*')
      OR date(substr(updated_at, 1, 10), '+0 days') IS NOT substr(updated_at, 1, 10) OR substr(updated_at, 12, 2) >= '24'
      OR strftime('%Y-%m-%dT%H:%M:%fZ', updated_at, '+0 days') IS NULL OR length(strftime('%Y-%m-%dT%H:%M:%fZ', updated_at, '+0 days')) <> 24) THEN RAISE(ABORT, 'updated_at is not a time: write 2026-12-01T16:04:05Z, 2026-12-01 16:04 (UTC), an offset such as +08:00, or datetime(''now'',''+1 hour'')')
  END
  FROM tasks
  WHERE rowid = NEW.task_rowid;
  UPDATE tasks
  SET next_run_time = strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(next_run_time, 'now'), '+0 days'),
      created_at = strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(created_at, 'now'), '+0 days'),
      updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(updated_at, 'now'), '+0 days'),
      payload = CAST(payload AS TEXT)
  WHERE rowid = NEW.task_rowid;
END;

-- Every change of status leaves an event.
CREATE TRIGGER tasks_update_event AFTER UPDATE OF status ON tasks
WHEN NEW.status IS NOT OLD.status
BEGIN
  INSERT INTO task_events (task_id, from_status, to_status, reason, executor_id, exec_id, at)
  VALUES (NEW.task_id, OLD.status, NEW.status, NEW.reason, ifnull(NEW.executor_id, OLD.executor_id), NEW.exec_id,
    CASE WHEN NEW.updated_at IS OLD.updated_at THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') ELSE NEW.updated_at END);
END;

-- The state machine and what else no update may break. The changes of status in the parentheses are
-- the legal ones, all others are refused, whoever tries; pkg/task holds the same table, and a test
-- compares them. A statement that leaves updated_at as it was is a shell's: it is set then (our own
-- statements always change it, except those that renew a lease).
CREATE TRIGGER tasks_update_rules AFTER UPDATE ON tasks
WHEN (NEW.updated_at IS OLD.updated_at AND NEW.lease_expire_time IS OLD.lease_expire_time) OR NEW.updated_at IS NULL
  OR (NEW.updated_at IS NOT OLD.updated_at AND strftime('%Y-%m-%dT%H:%M:%fZ', NEW.updated_at, '+0 days') IS NOT NEW.updated_at)
  OR (NEW.status IS NOT OLD.status AND (
    (OLD.status = 'PENDING' AND NEW.status = 'RUNNING' AND NEW.reason = 'claimed')
    OR (OLD.status = 'PENDING' AND NEW.status = 'CANCELLED' AND NEW.reason = 'user_cancel')
    OR (OLD.status = 'RUNNING' AND NEW.status = 'SUCCESS' AND NEW.reason = 'done')
    OR (OLD.status = 'RUNNING' AND NEW.status = 'FAILED' AND NEW.reason = 'fatal_error')
    OR (OLD.status = 'RUNNING' AND NEW.status = 'RETRYING' AND (NEW.reason = 'retryable_error' OR NEW.reason = 'timeout' OR NEW.reason = 'lease_expired'))
    OR (OLD.status = 'RUNNING' AND NEW.status = 'PAUSED' AND NEW.reason = 'user_pause')
    OR (OLD.status = 'RUNNING' AND NEW.status = 'CANCELLED' AND NEW.reason = 'user_cancel')
    OR (OLD.status = 'RUNNING' AND NEW.status = 'LOST' AND (NEW.reason = 'worker_crash' OR NEW.reason = 'worker_offline'))
    OR (OLD.status = 'RETRYING' AND NEW.status = 'RUNNING' AND NEW.reason = 'claimed')
    OR (OLD.status = 'RETRYING' AND NEW.status = 'DEAD' AND NEW.reason = 'retries_exhausted')
    OR (OLD.status = 'RETRYING' AND NEW.status = 'CANCELLED' AND NEW.reason = 'user_cancel')
    OR (OLD.status = 'PAUSED' AND NEW.status = 'RUNNING' AND NEW.reason = 'user_resume')
    OR (OLD.status = 'PAUSED' AND NEW.status = 'CANCELLED' AND NEW.reason = 'user_cancel')
    OR (OLD.status = 'LOST' AND NEW.status = 'PENDING' AND NEW.reason = 'takeover')
    OR (OLD.status = 'LOST' AND NEW.status = 'RUNNING' AND NEW.reason = 'worker_back')
    OR (OLD.status = 'LOST' AND NEW.status = 'DEAD' AND NEW.reason = 'crashes_exhausted')
  ) IS NOT 1)
  OR (NEW.next_run_time IS NOT OLD.next_run_time AND (NEW.next_run_time IS NULL OR strftime('%Y-%m-%dT%H:%M:%fZ', NEW.next_run_time, '+0 days') IS NOT NEW.next_run_time))
  OR (NEW.lease_expire_time IS NOT OLD.lease_expire_time AND strftime('%Y-%m-%dT%H:%M:%fZ', NEW.lease_expire_time, '+0 days') IS NOT NEW.lease_expire_time)
  OR NEW.created_at IS NOT OLD.created_at
  OR NEW.rowid <> OLD.rowid OR NEW.task_id <> OLD.task_id OR NEW.task_type <> OLD.task_type
  OR NEW.unique_key IS NOT OLD.unique_key OR NEW.schedule IS NOT OLD.schedule
  OR (NEW.reason IS NOT OLD.reason AND NEW.status = OLD.status)
  OR (NEW.exec_id IS NOT OLD.exec_id AND (NEW.status <> 'RUNNING' OR NEW.exec_id <= OLD.exec_id OR NEW.exec_id IS NULL))
  OR (NEW.executor_id IS NOT OLD.executor_id AND NEW.exec_id IS OLD.exec_id
      AND (OLD.status = 'RUNNING' OR OLD.status = 'LOST') AND (NEW.status = 'RUNNING' OR NEW.status = 'LOST'))
  OR NEW.max_retry <> OLD.max_retry OR NEW.timeout_seconds IS NOT OLD.timeout_seconds
  OR NEW.retry_count < 0 OR NEW.crash_count < 0 OR NEW.executions < OLD.executions
BEGIN
  INSERT INTO task_update_review
  VALUES (NEW.rowid, OLD.rowid, NEW.task_id, OLD.task_id,
    NEW.status, OLD.status, NEW.reason, OLD.reason,
    NEW.exec_id, OLD.exec_id, NEW.executor_id, OLD.executor_id,
    NEW.unique_key, OLD.unique_key, NEW.schedule, OLD.schedule, NEW.task_type, OLD.task_type,
    NEW.executions, OLD.executions, NEW.retry_count, NEW.crash_count, NEW.max_retry, NEW.timeout_seconds,
    NEW.next_run_time, OLD.next_run_time, NEW.lease_expire_time, OLD.lease_expire_time,
    NEW.created_at, OLD.created_at, NEW.updated_at, OLD.updated_at);
END;

-- Which rule it was, one arm for each pair of states (RAISE takes literal text only). The last
-- statement brings times into our form.
CREATE TRIGGER task_update_review_rules INSTEAD OF INSERT ON task_update_review
BEGIN
  SELECT CASE
    WHEN NEW.status IS NEW.old_status THEN 0
    WHEN NEW.old_status = 'PENDING' AND NEW.status = 'RUNNING' AND NEW.reason = 'claimed' THEN 0
    WHEN NEW.old_status = 'PENDING' AND NEW.status = 'CANCELLED' AND NEW.reason = 'user_cancel' THEN 0
    WHEN NEW.old_status = 'RUNNING' AND NEW.status = 'SUCCESS' AND NEW.reason = 'done' THEN 0
    WHEN NEW.old_status = 'RUNNING' AND NEW.status = 'FAILED' AND NEW.reason = 'fatal_error' THEN 0
    WHEN NEW.old_status = 'RUNNING' AND NEW.status = 'RETRYING' AND (NEW.reason = 'retryable_error' OR NEW.reason = 'timeout' OR NEW.reason = 'lease_expired') THEN 0
    WHEN NEW.old_status = 'RUNNING' AND NEW.status = 'PAUSED' AND NEW.reason = 'user_pause' THEN 0
    WHEN NEW.old_status = 'RUNNING' AND NEW.status = 'CANCELLED' AND NEW.reason = 'user_cancel' THEN 0
    WHEN NEW.old_status = 'RUNNING' AND NEW.status = 'LOST' AND (NEW.reason = 'worker_crash' OR NEW.reason = 'worker_offline') THEN 0
    WHEN NEW.old_status = 'RETRYING' AND NEW.status = 'RUNNING' AND NEW.reason = 'claimed' THEN 0
    WHEN NEW.old_status = 'RETRYING' AND NEW.status = 'DEAD' AND NEW.reason = 'retries_exhausted' THEN 0
    WHEN NEW.old_status = 'RETRYING' AND NEW.status = 'CANCELLED' AND NEW.reason = 'user_cancel' THEN 0
    WHEN NEW.old_status = 'PAUSED' AND NEW.status = 'RUNNING' AND NEW.reason = 'user_resume' THEN 0
    WHEN NEW.old_status = 'PAUSED' AND NEW.status = 'CANCELLED' AND NEW.reason = 'user_cancel' THEN 0
    WHEN NEW.old_status = 'LOST' AND NEW.status = 'PENDING' AND NEW.reason = 'takeover' THEN 0
    WHEN NEW.old_status = 'LOST' AND NEW.status = 'RUNNING' AND NEW.reason = 'worker_back' THEN 0
    WHEN NEW.old_status = 'LOST' AND NEW.status = 'DEAD' AND NEW.reason = 'crashes_exhausted' THEN 0
    WHEN NEW.old_status = 'PENDING' AND NEW.status = 'RUNNING' THEN RAISE(ABORT, 'illegal status change PENDING -> RUNNING without its reason (claimed)')
    WHEN NEW.old_status = 'PENDING' AND NEW.status = 'RETRYING' THEN RAISE(ABORT, 'illegal status change PENDING -> RETRYING: only a worker runs a task; set control = ''cancel'' or ''pause''')
    WHEN NEW.old_status = 'PENDING' AND NEW.status = 'PAUSED' THEN RAISE(ABORT, 'illegal status change PENDING -> PAUSED: set control = ''pause'' (it is held back where it is)')
    WHEN NEW.old_status = 'PENDING' AND NEW.status = 'LOST' THEN RAISE(ABORT, 'illegal status change PENDING -> LOST: only a worker runs a task; set control = ''cancel'' or ''pause''')
    WHEN NEW.old_status = 'PENDING' AND NEW.status = 'SUCCESS' THEN RAISE(ABORT, 'illegal status change PENDING -> SUCCESS: only a worker runs a task; set control = ''cancel'' or ''pause''')
    WHEN NEW.old_status = 'PENDING' AND NEW.status = 'FAILED' THEN RAISE(ABORT, 'illegal status change PENDING -> FAILED: only a worker runs a task; set control = ''cancel'' or ''pause''')
    WHEN NEW.old_status = 'PENDING' AND NEW.status = 'DEAD' THEN RAISE(ABORT, 'illegal status change PENDING -> DEAD: only a worker runs a task; set control = ''cancel'' or ''pause''')
    WHEN NEW.old_status = 'PENDING' AND NEW.status = 'CANCELLED' THEN RAISE(ABORT, 'illegal status change PENDING -> CANCELLED without its reason (user_cancel); to ask for it, set control = ''cancel''')
    WHEN NEW.old_status = 'RUNNING' AND NEW.status = 'PENDING' THEN RAISE(ABORT, 'illegal status change RUNNING -> PENDING: set control = ''cancel'' or ''pause''')
    WHEN NEW.old_status = 'RUNNING' AND NEW.status = 'RETRYING' THEN RAISE(ABORT, 'illegal status change RUNNING -> RETRYING without its reason (retryable_error or timeout or lease_expired)')
    WHEN NEW.old_status = 'RUNNING' AND NEW.status = 'PAUSED' THEN RAISE(ABORT, 'illegal status change RUNNING -> PAUSED without its reason (user_pause); to ask for it, set control = ''pause''')
    WHEN NEW.old_status = 'RUNNING' AND NEW.status = 'LOST' THEN RAISE(ABORT, 'illegal status change RUNNING -> LOST without its reason (worker_crash or worker_offline)')
    WHEN NEW.old_status = 'RUNNING' AND NEW.status = 'SUCCESS' THEN RAISE(ABORT, 'illegal status change RUNNING -> SUCCESS without its reason (done)')
    WHEN NEW.old_status = 'RUNNING' AND NEW.status = 'FAILED' THEN RAISE(ABORT, 'illegal status change RUNNING -> FAILED without its reason (fatal_error)')
    WHEN NEW.old_status = 'RUNNING' AND NEW.status = 'DEAD' THEN RAISE(ABORT, 'illegal status change RUNNING -> DEAD: set control = ''cancel'' or ''pause''')
    WHEN NEW.old_status = 'RUNNING' AND NEW.status = 'CANCELLED' THEN RAISE(ABORT, 'illegal status change RUNNING -> CANCELLED without its reason (user_cancel); to ask for it, set control = ''cancel''')
    WHEN NEW.old_status = 'RETRYING' AND NEW.status = 'PENDING' THEN RAISE(ABORT, 'illegal status change RETRYING -> PENDING: set next_run_time to make it due')
    WHEN NEW.old_status = 'RETRYING' AND NEW.status = 'RUNNING' THEN RAISE(ABORT, 'illegal status change RETRYING -> RUNNING without its reason (claimed)')
    WHEN NEW.old_status = 'RETRYING' AND NEW.status = 'PAUSED' THEN RAISE(ABORT, 'illegal status change RETRYING -> PAUSED: set control = ''pause'' (it is held back where it is)')
    WHEN NEW.old_status = 'RETRYING' AND NEW.status = 'LOST' THEN RAISE(ABORT, 'illegal status change RETRYING -> LOST: only a worker runs a task; set control = ''cancel'' or ''pause''')
    WHEN NEW.old_status = 'RETRYING' AND NEW.status = 'SUCCESS' THEN RAISE(ABORT, 'illegal status change RETRYING -> SUCCESS: only a worker runs a task; set control = ''cancel'' or ''pause''')
    WHEN NEW.old_status = 'RETRYING' AND NEW.status = 'FAILED' THEN RAISE(ABORT, 'illegal status change RETRYING -> FAILED: only a worker runs a task; set control = ''cancel'' or ''pause''')
    WHEN NEW.old_status = 'RETRYING' AND NEW.status = 'DEAD' THEN RAISE(ABORT, 'illegal status change RETRYING -> DEAD without its reason (retries_exhausted)')
    WHEN NEW.old_status = 'RETRYING' AND NEW.status = 'CANCELLED' THEN RAISE(ABORT, 'illegal status change RETRYING -> CANCELLED without its reason (user_cancel); to ask for it, set control = ''cancel''')
    WHEN NEW.old_status = 'PAUSED' AND NEW.status = 'PENDING' THEN RAISE(ABORT, 'illegal status change PAUSED -> PENDING: set control = ''resume'' or ''cancel''')
    WHEN NEW.old_status = 'PAUSED' AND NEW.status = 'RUNNING' THEN RAISE(ABORT, 'illegal status change PAUSED -> RUNNING without its reason (user_resume); to ask for it, set control = ''resume''')
    WHEN NEW.old_status = 'PAUSED' AND NEW.status = 'RETRYING' THEN RAISE(ABORT, 'illegal status change PAUSED -> RETRYING: set control = ''resume'' or ''cancel''')
    WHEN NEW.old_status = 'PAUSED' AND NEW.status = 'LOST' THEN RAISE(ABORT, 'illegal status change PAUSED -> LOST: set control = ''resume'' or ''cancel''')
    WHEN NEW.old_status = 'PAUSED' AND NEW.status = 'SUCCESS' THEN RAISE(ABORT, 'illegal status change PAUSED -> SUCCESS: set control = ''resume'' or ''cancel''')
    WHEN NEW.old_status = 'PAUSED' AND NEW.status = 'FAILED' THEN RAISE(ABORT, 'illegal status change PAUSED -> FAILED: set control = ''resume'' or ''cancel''')
    WHEN NEW.old_status = 'PAUSED' AND NEW.status = 'DEAD' THEN RAISE(ABORT, 'illegal status change PAUSED -> DEAD: set control = ''resume'' or ''cancel''')
    WHEN NEW.old_status = 'PAUSED' AND NEW.status = 'CANCELLED' THEN RAISE(ABORT, 'illegal status change PAUSED -> CANCELLED without its reason (user_cancel); to ask for it, set control = ''cancel''')
    WHEN NEW.old_status = 'LOST' AND NEW.status = 'PENDING' THEN RAISE(ABORT, 'illegal status change LOST -> PENDING without its reason (takeover)')
    WHEN NEW.old_status = 'LOST' AND NEW.status = 'RUNNING' THEN RAISE(ABORT, 'illegal status change LOST -> RUNNING without its reason (worker_back)')
    WHEN NEW.old_status = 'LOST' AND NEW.status = 'RETRYING' THEN RAISE(ABORT, 'illegal status change LOST -> RETRYING: set control = ''cancel'' or ''pause''')
    WHEN NEW.old_status = 'LOST' AND NEW.status = 'PAUSED' THEN RAISE(ABORT, 'illegal status change LOST -> PAUSED: set control = ''pause'' (it is held back where it is)')
    WHEN NEW.old_status = 'LOST' AND NEW.status = 'SUCCESS' THEN RAISE(ABORT, 'illegal status change LOST -> SUCCESS: set control = ''cancel'' or ''pause''')
    WHEN NEW.old_status = 'LOST' AND NEW.status = 'FAILED' THEN RAISE(ABORT, 'illegal status change LOST -> FAILED: set control = ''cancel'' or ''pause''')
    WHEN NEW.old_status = 'LOST' AND NEW.status = 'DEAD' THEN RAISE(ABORT, 'illegal status change LOST -> DEAD without its reason (crashes_exhausted)')
    WHEN NEW.old_status = 'LOST' AND NEW.status = 'CANCELLED' THEN RAISE(ABORT, 'illegal status change LOST -> CANCELLED: set control = ''cancel''')
    WHEN NEW.old_status = 'SUCCESS' AND NEW.status = 'PENDING' THEN RAISE(ABORT, 'illegal status change SUCCESS -> PENDING: SUCCESS is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'SUCCESS' AND NEW.status = 'RUNNING' THEN RAISE(ABORT, 'illegal status change SUCCESS -> RUNNING: SUCCESS is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'SUCCESS' AND NEW.status = 'RETRYING' THEN RAISE(ABORT, 'illegal status change SUCCESS -> RETRYING: SUCCESS is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'SUCCESS' AND NEW.status = 'PAUSED' THEN RAISE(ABORT, 'illegal status change SUCCESS -> PAUSED: SUCCESS is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'SUCCESS' AND NEW.status = 'LOST' THEN RAISE(ABORT, 'illegal status change SUCCESS -> LOST: SUCCESS is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'SUCCESS' AND NEW.status = 'FAILED' THEN RAISE(ABORT, 'illegal status change SUCCESS -> FAILED: SUCCESS is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'SUCCESS' AND NEW.status = 'DEAD' THEN RAISE(ABORT, 'illegal status change SUCCESS -> DEAD: SUCCESS is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'SUCCESS' AND NEW.status = 'CANCELLED' THEN RAISE(ABORT, 'illegal status change SUCCESS -> CANCELLED: SUCCESS is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'FAILED' AND NEW.status = 'PENDING' THEN RAISE(ABORT, 'illegal status change FAILED -> PENDING: FAILED is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'FAILED' AND NEW.status = 'RUNNING' THEN RAISE(ABORT, 'illegal status change FAILED -> RUNNING: FAILED is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'FAILED' AND NEW.status = 'RETRYING' THEN RAISE(ABORT, 'illegal status change FAILED -> RETRYING: FAILED is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'FAILED' AND NEW.status = 'PAUSED' THEN RAISE(ABORT, 'illegal status change FAILED -> PAUSED: FAILED is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'FAILED' AND NEW.status = 'LOST' THEN RAISE(ABORT, 'illegal status change FAILED -> LOST: FAILED is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'FAILED' AND NEW.status = 'SUCCESS' THEN RAISE(ABORT, 'illegal status change FAILED -> SUCCESS: FAILED is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'FAILED' AND NEW.status = 'DEAD' THEN RAISE(ABORT, 'illegal status change FAILED -> DEAD: FAILED is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'FAILED' AND NEW.status = 'CANCELLED' THEN RAISE(ABORT, 'illegal status change FAILED -> CANCELLED: FAILED is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'DEAD' AND NEW.status = 'PENDING' THEN RAISE(ABORT, 'illegal status change DEAD -> PENDING: DEAD is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'DEAD' AND NEW.status = 'RUNNING' THEN RAISE(ABORT, 'illegal status change DEAD -> RUNNING: DEAD is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'DEAD' AND NEW.status = 'RETRYING' THEN RAISE(ABORT, 'illegal status change DEAD -> RETRYING: DEAD is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'DEAD' AND NEW.status = 'PAUSED' THEN RAISE(ABORT, 'illegal status change DEAD -> PAUSED: DEAD is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'DEAD' AND NEW.status = 'LOST' THEN RAISE(ABORT, 'illegal status change DEAD -> LOST: DEAD is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'DEAD' AND NEW.status = 'SUCCESS' THEN RAISE(ABORT, 'illegal status change DEAD -> SUCCESS: DEAD is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'DEAD' AND NEW.status = 'FAILED' THEN RAISE(ABORT, 'illegal status change DEAD -> FAILED: DEAD is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'DEAD' AND NEW.status = 'CANCELLED' THEN RAISE(ABORT, 'illegal status change DEAD -> CANCELLED: DEAD is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'CANCELLED' AND NEW.status = 'PENDING' THEN RAISE(ABORT, 'illegal status change CANCELLED -> PENDING: CANCELLED is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'CANCELLED' AND NEW.status = 'RUNNING' THEN RAISE(ABORT, 'illegal status change CANCELLED -> RUNNING: CANCELLED is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'CANCELLED' AND NEW.status = 'RETRYING' THEN RAISE(ABORT, 'illegal status change CANCELLED -> RETRYING: CANCELLED is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'CANCELLED' AND NEW.status = 'PAUSED' THEN RAISE(ABORT, 'illegal status change CANCELLED -> PAUSED: CANCELLED is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'CANCELLED' AND NEW.status = 'LOST' THEN RAISE(ABORT, 'illegal status change CANCELLED -> LOST: CANCELLED is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'CANCELLED' AND NEW.status = 'SUCCESS' THEN RAISE(ABORT, 'illegal status change CANCELLED -> SUCCESS: CANCELLED is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'CANCELLED' AND NEW.status = 'FAILED' THEN RAISE(ABORT, 'illegal status change CANCELLED -> FAILED: CANCELLED is final; `nightshift rerun` makes a new task from it')
    WHEN NEW.old_status = 'CANCELLED' AND NEW.status = 'DEAD' THEN RAISE(ABORT, 'illegal status change CANCELLED -> DEAD: CANCELLED is final; `nightshift rerun` makes a new task from it')
    ELSE RAISE(ABORT, 'illegal status: it is one of PENDING, RUNNING, RETRYING, PAUSED, LOST, SUCCESS, FAILED, DEAD, CANCELLED')
  END;
  SELECT CASE
    WHEN NEW.task_rowid <> NEW.old_rowid OR NEW.task_id <> NEW.old_task_id THEN RAISE(ABORT, 'task_id and rowid never change: add another task')
    WHEN NEW.unique_key IS NOT NULL AND NEW.unique_key IS NOT NEW.old_unique_key THEN RAISE(ABORT, 'unique_key is given when the task is inserted; it can only be set to NULL')
    WHEN NEW.schedule IS NOT NULL AND NEW.schedule IS NOT NEW.old_schedule THEN RAISE(ABORT, 'schedule is given when the task is inserted; it can only be set to NULL')
    WHEN NEW.task_type <> NEW.old_task_type AND (length(CAST(NEW.task_type AS BLOB)) NOT BETWEEN 1 AND 255 OR instr(CAST(NEW.task_type AS BLOB), x'00') > 0
      OR NEW.task_type GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
      OR (NEW.task_type GLOB '*�*' AND instr(NEW.task_type, '�') = 0)) THEN RAISE(ABORT, 'task_type must be text of 1 to 255 bytes without control characters')
    WHEN NEW.reason IS NOT NEW.old_reason AND NEW.status = NEW.old_status THEN RAISE(ABORT, 'reason belongs to a status change')
    WHEN NEW.exec_id IS NOT NEW.old_exec_id AND (NEW.status <> 'RUNNING' OR NEW.exec_id <= NEW.old_exec_id OR NEW.exec_id IS NULL) THEN RAISE(ABORT, 'exec_id is the number of an execution: only a worker that starts one sets it')
    WHEN NEW.executor_id IS NOT NEW.old_executor_id AND NEW.exec_id IS NEW.old_exec_id
      AND (NEW.old_status = 'RUNNING' OR NEW.old_status = 'LOST') AND (NEW.status = 'RUNNING' OR NEW.status = 'LOST') THEN RAISE(ABORT, 'executor_id: a task that runs belongs to its executor; set control = ''cancel'' or ''pause''')
    WHEN NEW.max_retry NOT BETWEEN 0 AND 1000000000 THEN RAISE(ABORT, 'max_retry must be between 0 (one attempt) and 1000000000')
    WHEN NEW.timeout_seconds NOT BETWEEN 0 AND 1000000000 THEN RAISE(ABORT, 'timeout_seconds must be between 0 (none) and 1000000000')
    WHEN NEW.retry_count < 0 OR NEW.crash_count < 0 OR NEW.executions < NEW.old_executions THEN RAISE(ABORT, 'retry_count and crash_count cannot be negative, executions cannot fall')
    WHEN NEW.next_run_time IS NOT NEW.old_next_run_time AND NEW.next_run_time IS NOT NULL AND (NOT (NEW.next_run_time GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' OR NEW.next_run_time GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]*')
      OR date(substr(NEW.next_run_time, 1, 10), '+0 days') IS NOT substr(NEW.next_run_time, 1, 10) OR substr(NEW.next_run_time, 12, 2) >= '24'
      OR strftime('%Y-%m-%dT%H:%M:%fZ', NEW.next_run_time, '+0 days') IS NULL OR length(strftime('%Y-%m-%dT%H:%M:%fZ', NEW.next_run_time, '+0 days')) <> 24) THEN RAISE(ABORT, 'next_run_time is not a time: write 2026-12-01T16:04:05Z, 2026-12-01 16:04 (UTC), an offset such as +08:00, or datetime(''now'',''+1 hour'')')
    WHEN NEW.lease_expire_time IS NOT NEW.old_lease_expire_time AND NEW.lease_expire_time IS NOT NULL AND (NOT (NEW.lease_expire_time GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' OR NEW.lease_expire_time GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]*')
      OR date(substr(NEW.lease_expire_time, 1, 10), '+0 days') IS NOT substr(NEW.lease_expire_time, 1, 10) OR substr(NEW.lease_expire_time, 12, 2) >= '24'
      OR strftime('%Y-%m-%dT%H:%M:%fZ', NEW.lease_expire_time, '+0 days') IS NULL OR length(strftime('%Y-%m-%dT%H:%M:%fZ', NEW.lease_expire_time, '+0 days')) <> 24) THEN RAISE(ABORT, 'lease_expire_time is not a time: write 2026-12-01T16:04:05Z, 2026-12-01 16:04 (UTC), an offset such as +08:00, or datetime(''now'',''+1 hour'')')
    WHEN NEW.created_at IS NOT NEW.old_created_at AND NEW.created_at IS NOT NULL AND (NOT (NEW.created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' OR NEW.created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]*')
      OR date(substr(NEW.created_at, 1, 10), '+0 days') IS NOT substr(NEW.created_at, 1, 10) OR substr(NEW.created_at, 12, 2) >= '24'
      OR strftime('%Y-%m-%dT%H:%M:%fZ', NEW.created_at, '+0 days') IS NULL OR length(strftime('%Y-%m-%dT%H:%M:%fZ', NEW.created_at, '+0 days')) <> 24) THEN RAISE(ABORT, 'created_at is not a time: write 2026-12-01T16:04:05Z, 2026-12-01 16:04 (UTC), an offset such as +08:00, or datetime(''now'',''+1 hour'')')
    WHEN NEW.updated_at IS NOT NEW.old_updated_at AND NEW.updated_at IS NOT NULL AND (NOT (NEW.updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' OR NEW.updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]*')
      OR date(substr(NEW.updated_at, 1, 10), '+0 days') IS NOT substr(NEW.updated_at, 1, 10) OR substr(NEW.updated_at, 12, 2) >= '24'
      OR strftime('%Y-%m-%dT%H:%M:%fZ', NEW.updated_at, '+0 days') IS NULL OR length(strftime('%Y-%m-%dT%H:%M:%fZ', NEW.updated_at, '+0 days')) <> 24) THEN RAISE(ABORT, 'updated_at is not a time: write 2026-12-01T16:04:05Z, 2026-12-01 16:04 (UTC), an offset such as +08:00, or datetime(''now'',''+1 hour'')')
  END;
  UPDATE tasks
  SET next_run_time = strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(NEW.next_run_time, 'now'), '+0 days'),
      lease_expire_time = strftime('%Y-%m-%dT%H:%M:%fZ', NEW.lease_expire_time, '+0 days'),
      created_at = strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(NEW.created_at, 'now'), '+0 days'),
      updated_at = CASE WHEN NEW.updated_at IS NULL OR NEW.updated_at IS NEW.old_updated_at
        THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') ELSE strftime('%Y-%m-%dT%H:%M:%fZ', NEW.updated_at, '+0 days') END
  WHERE rowid = NEW.task_rowid;
END;

CREATE TRIGGER tasks_update_json AFTER UPDATE OF payload, checkpoint, result ON tasks
WHEN NEW.payload IS NOT OLD.payload OR NEW.checkpoint IS NOT OLD.checkpoint OR NEW.result IS NOT OLD.result
BEGIN
  SELECT CASE
    WHEN typeof(NEW.payload) <> 'text' THEN RAISE(ABORT, 'payload must be JSON text, not a BLOB: CAST(readfile(…) AS TEXT)')
    WHEN length(CAST(NEW.payload AS BLOB)) > 1048576 THEN RAISE(ABORT, 'payload is larger than 1 MiB')
    WHEN instr(CAST(NEW.payload AS BLOB), x'00') > 0 THEN RAISE(ABORT, 'payload holds a NUL byte')
    WHEN NEW.payload GLOB '*�*' AND instr(NEW.payload, '�') = 0 THEN RAISE(ABORT, 'payload is not valid UTF-8')
    WHEN NEW.payload IS NOT NULL AND NOT json_valid(NEW.payload) THEN RAISE(ABORT, 'payload is not valid JSON')
    WHEN length(CAST(NEW.checkpoint AS BLOB)) > 1048576 THEN RAISE(ABORT, 'checkpoint is larger than 1 MiB')
    WHEN instr(CAST(NEW.checkpoint AS BLOB), x'00') > 0 THEN RAISE(ABORT, 'checkpoint holds a NUL byte')
    WHEN NEW.checkpoint GLOB '*�*' AND instr(NEW.checkpoint, '�') = 0 THEN RAISE(ABORT, 'checkpoint is not valid UTF-8')
    WHEN NEW.checkpoint IS NOT NULL AND NOT json_valid(NEW.checkpoint) THEN RAISE(ABORT, 'checkpoint is not valid JSON')
    WHEN length(CAST(NEW.result AS BLOB)) > 1048576 THEN RAISE(ABORT, 'result is larger than 1 MiB')
    WHEN instr(CAST(NEW.result AS BLOB), x'00') > 0 THEN RAISE(ABORT, 'result holds a NUL byte')
    WHEN NEW.result GLOB '*�*' AND instr(NEW.result, '�') = 0 THEN RAISE(ABORT, 'result is not valid UTF-8')
    WHEN NEW.result IS NOT NULL AND NOT json_valid(NEW.result) THEN RAISE(ABORT, 'result is not valid JSON')
  END;
END;

-- A person's wish. On a task that does not run it acts at once; on one that does, its executor sees it.
CREATE TRIGGER tasks_update_control AFTER UPDATE OF control ON tasks
WHEN NEW.control IS NOT NULL
BEGIN
  SELECT CASE
    WHEN NEW.control NOT IN ('cancel', 'kill', 'pause', 'resume') THEN RAISE(ABORT, 'control is one of cancel, kill, pause, resume')
    WHEN NEW.status IN ('SUCCESS', 'FAILED', 'DEAD', 'CANCELLED')
      THEN RAISE(ABORT, 'the task is finished, there is nothing to control: `nightshift rerun` makes a new task from it')
    WHEN OLD.control IN ('cancel', 'kill') AND NEW.control IN ('pause', 'resume')
      THEN RAISE(ABORT, 'a cancel was asked for already')
  END;
  UPDATE tasks
  SET status = 'CANCELLED', reason = 'user_cancel', control = NULL,
      updated_at = CASE WHEN NEW.updated_at IS OLD.updated_at THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') ELSE strftime('%Y-%m-%dT%H:%M:%fZ', NEW.updated_at, '+0.001 seconds') END
  WHERE rowid = NEW.rowid AND NEW.control IN ('cancel', 'kill') AND status IN ('PENDING', 'RETRYING', 'PAUSED');
  -- Nothing to wait for: a resume of what is not paused takes a pause back, a pause of what is paused a resume.
  UPDATE tasks
  SET control = NULL,
      updated_at = CASE WHEN NEW.updated_at IS OLD.updated_at THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') ELSE strftime('%Y-%m-%dT%H:%M:%fZ', NEW.updated_at, '+0.001 seconds') END
  WHERE rowid = NEW.rowid
    AND ((NEW.control = 'resume' AND status <> 'PAUSED') OR (NEW.control = 'pause' AND status = 'PAUSED'));
  -- A cancel does not soften a kill.
  UPDATE tasks
  SET control = 'kill',
      updated_at = CASE WHEN NEW.updated_at IS OLD.updated_at THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') ELSE strftime('%Y-%m-%dT%H:%M:%fZ', NEW.updated_at, '+0.001 seconds') END
  WHERE rowid = NEW.rowid AND OLD.control = 'kill' AND NEW.control = 'cancel' AND status IN ('RUNNING', 'LOST');
END;

CREATE TRIGGER tasks_delete BEFORE DELETE ON tasks
WHEN OLD.status IN ('PENDING', 'RUNNING', 'RETRYING', 'PAUSED', 'LOST')
BEGIN
  SELECT RAISE(ABORT, 'an unfinished task is not deleted: set control = ''cancel'' first');
END;

-- The file was not empty: away with all of this.
INSERT OR ROLLBACK INTO schema_guard SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM schema_guard);
DROP TABLE schema_guard;
COMMIT;
