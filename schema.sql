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
  task_id           TEXT PRIMARY KEY NOT NULL DEFAULT (strftime('%Y%m%dT%H%M%f', 'now') || '-' || lower(hex(randomblob(5)))),
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

-- INSERT OR REPLACE removes the row in its way without firing any other trigger.
CREATE TRIGGER tasks_insert_guard BEFORE INSERT ON tasks
WHEN EXISTS (SELECT 1 FROM tasks WHERE task_id = NEW.task_id
       AND status IN ('PENDING', 'RUNNING', 'RETRYING', 'PAUSED', 'LOST'))
  OR EXISTS (SELECT 1 FROM tasks WHERE rowid = NEW.rowid
       AND status IN ('PENDING', 'RUNNING', 'RETRYING', 'PAUSED', 'LOST'))
  OR (NEW.unique_key IS NOT NULL AND EXISTS (SELECT 1 FROM tasks WHERE unique_key = NEW.unique_key
       AND (status = 'PENDING' OR status = 'RUNNING' OR status = 'RETRYING' OR status = 'PAUSED' OR status = 'LOST')))
BEGIN
  INSERT INTO refused VALUES (1);
END;

-- NULLs are refused here and not by NOT NULL alone, which INSERT OR IGNORE passes over in silence.
CREATE TRIGGER tasks_insert_null BEFORE INSERT ON tasks
WHEN NEW.task_id IS NULL OR NEW.task_type IS NULL OR NEW.payload IS NULL OR NEW.status IS NULL OR NEW.priority IS NULL
  OR NEW.retry_count IS NULL OR NEW.max_retry IS NULL OR NEW.crash_count IS NULL OR NEW.executions IS NULL
BEGIN
  SELECT RAISE(ABORT, 'task_id, task_type, payload, status, priority and the counts cannot be NULL: leave the column out to get its default');
END;

-- What a new row must hold, and the forms that are brought into ours. The WHEN is false for a row that
-- is in order as it stands: only the others pay for the rest.
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
  SELECT CASE
    WHEN NEW.status NOT IN ('PENDING', 'PAUSED') THEN RAISE(ABORT, 'a new task is PENDING, or PAUSED to hold it')
    WHEN NEW.control IS NOT NULL THEN RAISE(ABORT, 'control is for a task that exists: insert it with status PAUSED to hold it')
    WHEN NEW.executor_id IS NOT NULL OR NEW.lease_expire_time IS NOT NULL OR NEW.exec_id IS NOT NULL OR NEW.reason IS NOT NULL
      OR NEW.result IS NOT NULL OR NEW.crash_count <> 0 OR NEW.executions <> 0 THEN RAISE(ABORT, 'executor_id, lease_expire_time, exec_id, reason, result, crash_count and executions are not set by hand')
    WHEN length(CAST(NEW.task_id AS BLOB)) NOT BETWEEN 1 AND 255 OR instr(CAST(NEW.task_id AS BLOB), x'00') > 0
      OR NEW.task_id GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
      OR (NEW.task_id GLOB '*�*' AND instr(NEW.task_id, '�') = 0) THEN RAISE(ABORT, 'task_id must be text of 1 to 255 bytes without control characters')
    WHEN length(CAST(NEW.task_type AS BLOB)) NOT BETWEEN 1 AND 255 OR instr(CAST(NEW.task_type AS BLOB), x'00') > 0
      OR NEW.task_type GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
      OR (NEW.task_type GLOB '*�*' AND instr(NEW.task_type, '�') = 0) THEN RAISE(ABORT, 'task_type must be text of 1 to 255 bytes without control characters')
    WHEN length(CAST(NEW.unique_key AS BLOB)) NOT BETWEEN 1 AND 255 OR instr(CAST(NEW.unique_key AS BLOB), x'00') > 0
      OR NEW.unique_key GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
      OR (NEW.unique_key GLOB '*�*' AND instr(NEW.unique_key, '�') = 0) THEN RAISE(ABORT, 'unique_key must be text of 1 to 255 bytes without control characters')
    WHEN length(CAST(NEW.schedule AS BLOB)) NOT BETWEEN 1 AND 255 OR instr(CAST(NEW.schedule AS BLOB), x'00') > 0
      OR NEW.schedule GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
      OR (NEW.schedule GLOB '*�*' AND instr(NEW.schedule, '�') = 0) THEN RAISE(ABORT, 'schedule must be text of 1 to 255 bytes without control characters')
    WHEN typeof(NEW.payload) NOT IN ('text', 'blob') THEN RAISE(ABORT, 'payload must be JSON text: put it in quotes')
    WHEN length(CAST(NEW.payload AS BLOB)) > 1048576 THEN RAISE(ABORT, 'payload is larger than 1 MiB')
    WHEN instr(CAST(NEW.payload AS BLOB), x'00') > 0 THEN RAISE(ABORT, 'payload holds a NUL byte')
    WHEN CAST(NEW.payload AS TEXT) GLOB '*�*' AND instr(CAST(NEW.payload AS TEXT), '�') = 0 THEN RAISE(ABORT, 'payload is not valid UTF-8')
    WHEN NOT json_valid(CAST(NEW.payload AS TEXT)) THEN RAISE(ABORT, 'payload is not valid JSON')
    WHEN length(CAST(NEW.checkpoint AS BLOB)) > 1048576 THEN RAISE(ABORT, 'checkpoint is larger than 1 MiB')
    WHEN instr(CAST(NEW.checkpoint AS BLOB), x'00') > 0 THEN RAISE(ABORT, 'checkpoint holds a NUL byte')
    WHEN NEW.checkpoint GLOB '*�*' AND instr(NEW.checkpoint, '�') = 0 THEN RAISE(ABORT, 'checkpoint is not valid UTF-8')
    WHEN NOT json_valid(NEW.checkpoint) THEN RAISE(ABORT, 'checkpoint is not valid JSON')
    WHEN NEW.max_retry NOT BETWEEN 0 AND 1000000000 THEN RAISE(ABORT, 'max_retry must be between 0 (one attempt) and 1000000000')
    WHEN NEW.timeout_seconds NOT BETWEEN 0 AND 1000000000 THEN RAISE(ABORT, 'timeout_seconds must be between 0 (none) and 1000000000')
    WHEN NEW.retry_count < 0 THEN RAISE(ABORT, 'retry_count cannot be negative')
    WHEN NOT (NEW.next_run_time GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' OR NEW.next_run_time GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]*')
      OR date(substr(NEW.next_run_time, 1, 10), '+0 days') IS NOT substr(NEW.next_run_time, 1, 10) OR substr(NEW.next_run_time, 12, 2) >= '24'
      OR strftime('%Y-%m-%dT%H:%M:%fZ', NEW.next_run_time, '+0 days') IS NULL OR length(strftime('%Y-%m-%dT%H:%M:%fZ', NEW.next_run_time, '+0 days')) <> 24 THEN RAISE(ABORT, 'next_run_time is not a time: write 2026-12-01T16:04:05Z, 2026-12-01 16:04 (UTC), an offset such as +08:00, or datetime(''now'',''+1 hour'')')
    WHEN NOT (NEW.created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' OR NEW.created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]*')
      OR date(substr(NEW.created_at, 1, 10), '+0 days') IS NOT substr(NEW.created_at, 1, 10) OR substr(NEW.created_at, 12, 2) >= '24'
      OR strftime('%Y-%m-%dT%H:%M:%fZ', NEW.created_at, '+0 days') IS NULL OR length(strftime('%Y-%m-%dT%H:%M:%fZ', NEW.created_at, '+0 days')) <> 24 THEN RAISE(ABORT, 'created_at is not a time: write 2026-12-01T16:04:05Z, 2026-12-01 16:04 (UTC), an offset such as +08:00, or datetime(''now'',''+1 hour'')')
    WHEN NOT (NEW.updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' OR NEW.updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]*')
      OR date(substr(NEW.updated_at, 1, 10), '+0 days') IS NOT substr(NEW.updated_at, 1, 10) OR substr(NEW.updated_at, 12, 2) >= '24'
      OR strftime('%Y-%m-%dT%H:%M:%fZ', NEW.updated_at, '+0 days') IS NULL OR length(strftime('%Y-%m-%dT%H:%M:%fZ', NEW.updated_at, '+0 days')) <> 24 THEN RAISE(ABORT, 'updated_at is not a time: write 2026-12-01T16:04:05Z, 2026-12-01 16:04 (UTC), an offset such as +08:00, or datetime(''now'',''+1 hour'')')
  END;
  UPDATE tasks
  SET next_run_time = strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(NEW.next_run_time, 'now'), '+0 days'),
      created_at = strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(NEW.created_at, 'now'), '+0 days'),
      updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(NEW.updated_at, 'now'), '+0 days'),
      payload = CAST(NEW.payload AS TEXT)
  WHERE rowid = NEW.rowid;
END;

-- The state machine: every change that is not in this table is refused, whoever tries; each one that
-- is leaves an event. pkg/task holds the same table, and a test compares them.
CREATE TRIGGER tasks_update_status AFTER UPDATE OF status ON tasks
WHEN NEW.status IS NOT OLD.status
BEGIN
  SELECT CASE
    WHEN OLD.status = 'PENDING' AND NEW.status = 'RUNNING' AND NEW.reason = 'claimed' THEN 0
    WHEN OLD.status = 'PENDING' AND NEW.status = 'CANCELLED' AND NEW.reason = 'user_cancel' THEN 0
    WHEN OLD.status = 'RUNNING' AND NEW.status = 'SUCCESS' AND NEW.reason = 'done' THEN 0
    WHEN OLD.status = 'RUNNING' AND NEW.status = 'FAILED' AND NEW.reason = 'fatal_error' THEN 0
    WHEN OLD.status = 'RUNNING' AND NEW.status = 'RETRYING' AND (NEW.reason = 'retryable_error' OR NEW.reason = 'timeout' OR NEW.reason = 'lease_expired') THEN 0
    WHEN OLD.status = 'RUNNING' AND NEW.status = 'PAUSED' AND NEW.reason = 'user_pause' THEN 0
    WHEN OLD.status = 'RUNNING' AND NEW.status = 'CANCELLED' AND NEW.reason = 'user_cancel' THEN 0
    WHEN OLD.status = 'RUNNING' AND NEW.status = 'LOST' AND (NEW.reason = 'worker_crash' OR NEW.reason = 'worker_offline') THEN 0
    WHEN OLD.status = 'RETRYING' AND NEW.status = 'RUNNING' AND NEW.reason = 'claimed' THEN 0
    WHEN OLD.status = 'RETRYING' AND NEW.status = 'DEAD' AND NEW.reason = 'retries_exhausted' THEN 0
    WHEN OLD.status = 'RETRYING' AND NEW.status = 'CANCELLED' AND NEW.reason = 'user_cancel' THEN 0
    WHEN OLD.status = 'PAUSED' AND NEW.status = 'RUNNING' AND NEW.reason = 'user_resume' THEN 0
    WHEN OLD.status = 'PAUSED' AND NEW.status = 'CANCELLED' AND NEW.reason = 'user_cancel' THEN 0
    WHEN OLD.status = 'LOST' AND NEW.status = 'PENDING' AND NEW.reason = 'takeover' THEN 0
    WHEN OLD.status = 'LOST' AND NEW.status = 'RUNNING' AND NEW.reason = 'worker_back' THEN 0
    WHEN OLD.status = 'LOST' AND NEW.status = 'DEAD' AND NEW.reason = 'crashes_exhausted' THEN 0
    WHEN OLD.status = 'PENDING' AND NEW.status = 'RUNNING' THEN RAISE(ABORT, 'illegal status change PENDING -> RUNNING without its reason (claimed)')
    WHEN OLD.status = 'PENDING' AND NEW.status = 'RETRYING' THEN RAISE(ABORT, 'illegal status change PENDING -> RETRYING: only a worker runs a task; set control = ''cancel'' or ''pause''')
    WHEN OLD.status = 'PENDING' AND NEW.status = 'PAUSED' THEN RAISE(ABORT, 'illegal status change PENDING -> PAUSED: set control = ''pause'' (it is held back where it is)')
    WHEN OLD.status = 'PENDING' AND NEW.status = 'LOST' THEN RAISE(ABORT, 'illegal status change PENDING -> LOST: only a worker runs a task; set control = ''cancel'' or ''pause''')
    WHEN OLD.status = 'PENDING' AND NEW.status = 'SUCCESS' THEN RAISE(ABORT, 'illegal status change PENDING -> SUCCESS: only a worker runs a task; set control = ''cancel'' or ''pause''')
    WHEN OLD.status = 'PENDING' AND NEW.status = 'FAILED' THEN RAISE(ABORT, 'illegal status change PENDING -> FAILED: only a worker runs a task; set control = ''cancel'' or ''pause''')
    WHEN OLD.status = 'PENDING' AND NEW.status = 'DEAD' THEN RAISE(ABORT, 'illegal status change PENDING -> DEAD: only a worker runs a task; set control = ''cancel'' or ''pause''')
    WHEN OLD.status = 'PENDING' AND NEW.status = 'CANCELLED' THEN RAISE(ABORT, 'illegal status change PENDING -> CANCELLED without its reason (user_cancel); to ask for it, set control = ''cancel''')
    WHEN OLD.status = 'RUNNING' AND NEW.status = 'PENDING' THEN RAISE(ABORT, 'illegal status change RUNNING -> PENDING: set control = ''cancel'' or ''pause''')
    WHEN OLD.status = 'RUNNING' AND NEW.status = 'RETRYING' THEN RAISE(ABORT, 'illegal status change RUNNING -> RETRYING without its reason (retryable_error or timeout or lease_expired)')
    WHEN OLD.status = 'RUNNING' AND NEW.status = 'PAUSED' THEN RAISE(ABORT, 'illegal status change RUNNING -> PAUSED without its reason (user_pause); to ask for it, set control = ''pause''')
    WHEN OLD.status = 'RUNNING' AND NEW.status = 'LOST' THEN RAISE(ABORT, 'illegal status change RUNNING -> LOST without its reason (worker_crash or worker_offline)')
    WHEN OLD.status = 'RUNNING' AND NEW.status = 'SUCCESS' THEN RAISE(ABORT, 'illegal status change RUNNING -> SUCCESS without its reason (done)')
    WHEN OLD.status = 'RUNNING' AND NEW.status = 'FAILED' THEN RAISE(ABORT, 'illegal status change RUNNING -> FAILED without its reason (fatal_error)')
    WHEN OLD.status = 'RUNNING' AND NEW.status = 'DEAD' THEN RAISE(ABORT, 'illegal status change RUNNING -> DEAD: set control = ''cancel'' or ''pause''')
    WHEN OLD.status = 'RUNNING' AND NEW.status = 'CANCELLED' THEN RAISE(ABORT, 'illegal status change RUNNING -> CANCELLED without its reason (user_cancel); to ask for it, set control = ''cancel''')
    WHEN OLD.status = 'RETRYING' AND NEW.status = 'PENDING' THEN RAISE(ABORT, 'illegal status change RETRYING -> PENDING: set next_run_time to make it due')
    WHEN OLD.status = 'RETRYING' AND NEW.status = 'RUNNING' THEN RAISE(ABORT, 'illegal status change RETRYING -> RUNNING without its reason (claimed)')
    WHEN OLD.status = 'RETRYING' AND NEW.status = 'PAUSED' THEN RAISE(ABORT, 'illegal status change RETRYING -> PAUSED: set control = ''pause'' (it is held back where it is)')
    WHEN OLD.status = 'RETRYING' AND NEW.status = 'LOST' THEN RAISE(ABORT, 'illegal status change RETRYING -> LOST: only a worker runs a task; set control = ''cancel'' or ''pause''')
    WHEN OLD.status = 'RETRYING' AND NEW.status = 'SUCCESS' THEN RAISE(ABORT, 'illegal status change RETRYING -> SUCCESS: only a worker runs a task; set control = ''cancel'' or ''pause''')
    WHEN OLD.status = 'RETRYING' AND NEW.status = 'FAILED' THEN RAISE(ABORT, 'illegal status change RETRYING -> FAILED: only a worker runs a task; set control = ''cancel'' or ''pause''')
    WHEN OLD.status = 'RETRYING' AND NEW.status = 'DEAD' THEN RAISE(ABORT, 'illegal status change RETRYING -> DEAD without its reason (retries_exhausted)')
    WHEN OLD.status = 'RETRYING' AND NEW.status = 'CANCELLED' THEN RAISE(ABORT, 'illegal status change RETRYING -> CANCELLED without its reason (user_cancel); to ask for it, set control = ''cancel''')
    WHEN OLD.status = 'PAUSED' AND NEW.status = 'PENDING' THEN RAISE(ABORT, 'illegal status change PAUSED -> PENDING: set control = ''resume'' or ''cancel''')
    WHEN OLD.status = 'PAUSED' AND NEW.status = 'RUNNING' THEN RAISE(ABORT, 'illegal status change PAUSED -> RUNNING without its reason (user_resume); to ask for it, set control = ''resume''')
    WHEN OLD.status = 'PAUSED' AND NEW.status = 'RETRYING' THEN RAISE(ABORT, 'illegal status change PAUSED -> RETRYING: set control = ''resume'' or ''cancel''')
    WHEN OLD.status = 'PAUSED' AND NEW.status = 'LOST' THEN RAISE(ABORT, 'illegal status change PAUSED -> LOST: set control = ''resume'' or ''cancel''')
    WHEN OLD.status = 'PAUSED' AND NEW.status = 'SUCCESS' THEN RAISE(ABORT, 'illegal status change PAUSED -> SUCCESS: set control = ''resume'' or ''cancel''')
    WHEN OLD.status = 'PAUSED' AND NEW.status = 'FAILED' THEN RAISE(ABORT, 'illegal status change PAUSED -> FAILED: set control = ''resume'' or ''cancel''')
    WHEN OLD.status = 'PAUSED' AND NEW.status = 'DEAD' THEN RAISE(ABORT, 'illegal status change PAUSED -> DEAD: set control = ''resume'' or ''cancel''')
    WHEN OLD.status = 'PAUSED' AND NEW.status = 'CANCELLED' THEN RAISE(ABORT, 'illegal status change PAUSED -> CANCELLED without its reason (user_cancel); to ask for it, set control = ''cancel''')
    WHEN OLD.status = 'LOST' AND NEW.status = 'PENDING' THEN RAISE(ABORT, 'illegal status change LOST -> PENDING without its reason (takeover)')
    WHEN OLD.status = 'LOST' AND NEW.status = 'RUNNING' THEN RAISE(ABORT, 'illegal status change LOST -> RUNNING without its reason (worker_back)')
    WHEN OLD.status = 'LOST' AND NEW.status = 'RETRYING' THEN RAISE(ABORT, 'illegal status change LOST -> RETRYING: set control = ''cancel'' or ''pause''')
    WHEN OLD.status = 'LOST' AND NEW.status = 'PAUSED' THEN RAISE(ABORT, 'illegal status change LOST -> PAUSED: set control = ''pause'' (it is held back where it is)')
    WHEN OLD.status = 'LOST' AND NEW.status = 'SUCCESS' THEN RAISE(ABORT, 'illegal status change LOST -> SUCCESS: set control = ''cancel'' or ''pause''')
    WHEN OLD.status = 'LOST' AND NEW.status = 'FAILED' THEN RAISE(ABORT, 'illegal status change LOST -> FAILED: set control = ''cancel'' or ''pause''')
    WHEN OLD.status = 'LOST' AND NEW.status = 'DEAD' THEN RAISE(ABORT, 'illegal status change LOST -> DEAD without its reason (crashes_exhausted)')
    WHEN OLD.status = 'LOST' AND NEW.status = 'CANCELLED' THEN RAISE(ABORT, 'illegal status change LOST -> CANCELLED: set control = ''cancel''')
    WHEN OLD.status = 'SUCCESS' AND NEW.status = 'PENDING' THEN RAISE(ABORT, 'illegal status change SUCCESS -> PENDING: SUCCESS is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'SUCCESS' AND NEW.status = 'RUNNING' THEN RAISE(ABORT, 'illegal status change SUCCESS -> RUNNING: SUCCESS is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'SUCCESS' AND NEW.status = 'RETRYING' THEN RAISE(ABORT, 'illegal status change SUCCESS -> RETRYING: SUCCESS is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'SUCCESS' AND NEW.status = 'PAUSED' THEN RAISE(ABORT, 'illegal status change SUCCESS -> PAUSED: SUCCESS is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'SUCCESS' AND NEW.status = 'LOST' THEN RAISE(ABORT, 'illegal status change SUCCESS -> LOST: SUCCESS is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'SUCCESS' AND NEW.status = 'FAILED' THEN RAISE(ABORT, 'illegal status change SUCCESS -> FAILED: SUCCESS is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'SUCCESS' AND NEW.status = 'DEAD' THEN RAISE(ABORT, 'illegal status change SUCCESS -> DEAD: SUCCESS is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'SUCCESS' AND NEW.status = 'CANCELLED' THEN RAISE(ABORT, 'illegal status change SUCCESS -> CANCELLED: SUCCESS is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'FAILED' AND NEW.status = 'PENDING' THEN RAISE(ABORT, 'illegal status change FAILED -> PENDING: FAILED is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'FAILED' AND NEW.status = 'RUNNING' THEN RAISE(ABORT, 'illegal status change FAILED -> RUNNING: FAILED is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'FAILED' AND NEW.status = 'RETRYING' THEN RAISE(ABORT, 'illegal status change FAILED -> RETRYING: FAILED is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'FAILED' AND NEW.status = 'PAUSED' THEN RAISE(ABORT, 'illegal status change FAILED -> PAUSED: FAILED is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'FAILED' AND NEW.status = 'LOST' THEN RAISE(ABORT, 'illegal status change FAILED -> LOST: FAILED is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'FAILED' AND NEW.status = 'SUCCESS' THEN RAISE(ABORT, 'illegal status change FAILED -> SUCCESS: FAILED is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'FAILED' AND NEW.status = 'DEAD' THEN RAISE(ABORT, 'illegal status change FAILED -> DEAD: FAILED is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'FAILED' AND NEW.status = 'CANCELLED' THEN RAISE(ABORT, 'illegal status change FAILED -> CANCELLED: FAILED is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'DEAD' AND NEW.status = 'PENDING' THEN RAISE(ABORT, 'illegal status change DEAD -> PENDING: DEAD is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'DEAD' AND NEW.status = 'RUNNING' THEN RAISE(ABORT, 'illegal status change DEAD -> RUNNING: DEAD is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'DEAD' AND NEW.status = 'RETRYING' THEN RAISE(ABORT, 'illegal status change DEAD -> RETRYING: DEAD is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'DEAD' AND NEW.status = 'PAUSED' THEN RAISE(ABORT, 'illegal status change DEAD -> PAUSED: DEAD is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'DEAD' AND NEW.status = 'LOST' THEN RAISE(ABORT, 'illegal status change DEAD -> LOST: DEAD is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'DEAD' AND NEW.status = 'SUCCESS' THEN RAISE(ABORT, 'illegal status change DEAD -> SUCCESS: DEAD is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'DEAD' AND NEW.status = 'FAILED' THEN RAISE(ABORT, 'illegal status change DEAD -> FAILED: DEAD is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'DEAD' AND NEW.status = 'CANCELLED' THEN RAISE(ABORT, 'illegal status change DEAD -> CANCELLED: DEAD is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'CANCELLED' AND NEW.status = 'PENDING' THEN RAISE(ABORT, 'illegal status change CANCELLED -> PENDING: CANCELLED is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'CANCELLED' AND NEW.status = 'RUNNING' THEN RAISE(ABORT, 'illegal status change CANCELLED -> RUNNING: CANCELLED is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'CANCELLED' AND NEW.status = 'RETRYING' THEN RAISE(ABORT, 'illegal status change CANCELLED -> RETRYING: CANCELLED is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'CANCELLED' AND NEW.status = 'PAUSED' THEN RAISE(ABORT, 'illegal status change CANCELLED -> PAUSED: CANCELLED is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'CANCELLED' AND NEW.status = 'LOST' THEN RAISE(ABORT, 'illegal status change CANCELLED -> LOST: CANCELLED is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'CANCELLED' AND NEW.status = 'SUCCESS' THEN RAISE(ABORT, 'illegal status change CANCELLED -> SUCCESS: CANCELLED is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'CANCELLED' AND NEW.status = 'FAILED' THEN RAISE(ABORT, 'illegal status change CANCELLED -> FAILED: CANCELLED is final; `nightshift rerun` makes a new task from it')
    WHEN OLD.status = 'CANCELLED' AND NEW.status = 'DEAD' THEN RAISE(ABORT, 'illegal status change CANCELLED -> DEAD: CANCELLED is final; `nightshift rerun` makes a new task from it')
    ELSE RAISE(ABORT, 'illegal status: it is one of PENDING, RUNNING, RETRYING, PAUSED, LOST, SUCCESS, FAILED, DEAD, CANCELLED')
  END;
  INSERT INTO task_events (task_id, from_status, to_status, reason, executor_id, exec_id, at)
  VALUES (NEW.task_id, OLD.status, NEW.status, NEW.reason, ifnull(NEW.executor_id, OLD.executor_id), NEW.exec_id,
    CASE WHEN NEW.updated_at IS OLD.updated_at THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') ELSE NEW.updated_at END);
END;

-- What no update may break. Its last statement brings times into our form and sets updated_at for
-- those who did not (our own statements always change it).
CREATE TRIGGER tasks_update_rules AFTER UPDATE ON tasks
WHEN NEW.updated_at IS OLD.updated_at OR NEW.updated_at IS NULL
  OR strftime('%Y-%m-%dT%H:%M:%fZ', NEW.updated_at, '+0 days') IS NOT NEW.updated_at
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
  SELECT CASE
    WHEN NEW.rowid <> OLD.rowid OR NEW.task_id <> OLD.task_id THEN RAISE(ABORT, 'task_id and rowid never change: add another task')
    WHEN NEW.unique_key IS NOT NULL AND NEW.unique_key IS NOT OLD.unique_key THEN RAISE(ABORT, 'unique_key is given when the task is inserted; it can only be set to NULL')
    WHEN NEW.schedule IS NOT NULL AND NEW.schedule IS NOT OLD.schedule THEN RAISE(ABORT, 'schedule is given when the task is inserted; it can only be set to NULL')
    WHEN NEW.task_type <> OLD.task_type AND (length(CAST(NEW.task_type AS BLOB)) NOT BETWEEN 1 AND 255 OR instr(CAST(NEW.task_type AS BLOB), x'00') > 0
      OR NEW.task_type GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
      OR (NEW.task_type GLOB '*�*' AND instr(NEW.task_type, '�') = 0)) THEN RAISE(ABORT, 'task_type must be text of 1 to 255 bytes without control characters')
    WHEN NEW.reason IS NOT OLD.reason AND NEW.status = OLD.status THEN RAISE(ABORT, 'reason belongs to a status change')
    WHEN NEW.exec_id IS NOT OLD.exec_id AND (NEW.status <> 'RUNNING' OR NEW.exec_id <= OLD.exec_id OR NEW.exec_id IS NULL) THEN RAISE(ABORT, 'exec_id is the number of an execution: only a worker that starts one sets it')
    WHEN NEW.executor_id IS NOT OLD.executor_id AND NEW.exec_id IS OLD.exec_id
      AND (OLD.status = 'RUNNING' OR OLD.status = 'LOST') AND (NEW.status = 'RUNNING' OR NEW.status = 'LOST') THEN RAISE(ABORT, 'executor_id: a task that runs belongs to its executor; set control = ''cancel'' or ''pause''')
    WHEN NEW.max_retry NOT BETWEEN 0 AND 1000000000 THEN RAISE(ABORT, 'max_retry must be between 0 (one attempt) and 1000000000')
    WHEN NEW.timeout_seconds NOT BETWEEN 0 AND 1000000000 THEN RAISE(ABORT, 'timeout_seconds must be between 0 (none) and 1000000000')
    WHEN NEW.retry_count < 0 OR NEW.crash_count < 0 OR NEW.executions < OLD.executions THEN RAISE(ABORT, 'retry_count and crash_count cannot be negative, executions cannot fall')
    WHEN NEW.next_run_time IS NOT OLD.next_run_time AND (NOT (NEW.next_run_time GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' OR NEW.next_run_time GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]*')
      OR date(substr(NEW.next_run_time, 1, 10), '+0 days') IS NOT substr(NEW.next_run_time, 1, 10) OR substr(NEW.next_run_time, 12, 2) >= '24'
      OR strftime('%Y-%m-%dT%H:%M:%fZ', NEW.next_run_time, '+0 days') IS NULL OR length(strftime('%Y-%m-%dT%H:%M:%fZ', NEW.next_run_time, '+0 days')) <> 24) THEN RAISE(ABORT, 'next_run_time is not a time: write 2026-12-01T16:04:05Z, 2026-12-01 16:04 (UTC), an offset such as +08:00, or datetime(''now'',''+1 hour'')')
    WHEN NEW.lease_expire_time IS NOT OLD.lease_expire_time AND (NOT (NEW.lease_expire_time GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' OR NEW.lease_expire_time GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]*')
      OR date(substr(NEW.lease_expire_time, 1, 10), '+0 days') IS NOT substr(NEW.lease_expire_time, 1, 10) OR substr(NEW.lease_expire_time, 12, 2) >= '24'
      OR strftime('%Y-%m-%dT%H:%M:%fZ', NEW.lease_expire_time, '+0 days') IS NULL OR length(strftime('%Y-%m-%dT%H:%M:%fZ', NEW.lease_expire_time, '+0 days')) <> 24) THEN RAISE(ABORT, 'lease_expire_time is not a time: write 2026-12-01T16:04:05Z, 2026-12-01 16:04 (UTC), an offset such as +08:00, or datetime(''now'',''+1 hour'')')
    WHEN NEW.created_at IS NOT OLD.created_at AND (NOT (NEW.created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' OR NEW.created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]*')
      OR date(substr(NEW.created_at, 1, 10), '+0 days') IS NOT substr(NEW.created_at, 1, 10) OR substr(NEW.created_at, 12, 2) >= '24'
      OR strftime('%Y-%m-%dT%H:%M:%fZ', NEW.created_at, '+0 days') IS NULL OR length(strftime('%Y-%m-%dT%H:%M:%fZ', NEW.created_at, '+0 days')) <> 24) THEN RAISE(ABORT, 'created_at is not a time: write 2026-12-01T16:04:05Z, 2026-12-01 16:04 (UTC), an offset such as +08:00, or datetime(''now'',''+1 hour'')')
    WHEN NEW.updated_at IS NOT OLD.updated_at AND (NOT (NEW.updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' OR NEW.updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]*')
      OR date(substr(NEW.updated_at, 1, 10), '+0 days') IS NOT substr(NEW.updated_at, 1, 10) OR substr(NEW.updated_at, 12, 2) >= '24'
      OR strftime('%Y-%m-%dT%H:%M:%fZ', NEW.updated_at, '+0 days') IS NULL OR length(strftime('%Y-%m-%dT%H:%M:%fZ', NEW.updated_at, '+0 days')) <> 24) THEN RAISE(ABORT, 'updated_at is not a time: write 2026-12-01T16:04:05Z, 2026-12-01 16:04 (UTC), an offset such as +08:00, or datetime(''now'',''+1 hour'')')
  END;
  UPDATE tasks
  SET next_run_time = strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(NEW.next_run_time, 'now'), '+0 days'),
      lease_expire_time = strftime('%Y-%m-%dT%H:%M:%fZ', NEW.lease_expire_time, '+0 days'),
      created_at = strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(NEW.created_at, 'now'), '+0 days'),
      updated_at = CASE WHEN NEW.updated_at IS NULL OR NEW.updated_at IS OLD.updated_at
        THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') ELSE strftime('%Y-%m-%dT%H:%M:%fZ', NEW.updated_at, '+0 days') END
  WHERE rowid = NEW.rowid;
END;

CREATE TRIGGER tasks_update_json AFTER UPDATE OF payload, checkpoint, result ON tasks
WHEN NEW.payload IS NOT OLD.payload OR NEW.checkpoint IS NOT OLD.checkpoint OR NEW.result IS NOT OLD.result
BEGIN
  SELECT CASE
    WHEN typeof(NEW.payload) <> 'text' THEN RAISE(ABORT, 'payload must be JSON text, not a BLOB: CAST(readfile(…) AS TEXT)')
    WHEN length(CAST(NEW.payload AS BLOB)) > 1048576 THEN RAISE(ABORT, 'payload is larger than 1 MiB')
    WHEN instr(CAST(NEW.payload AS BLOB), x'00') > 0 THEN RAISE(ABORT, 'payload holds a NUL byte')
    WHEN NEW.payload GLOB '*�*' AND instr(NEW.payload, '�') = 0 THEN RAISE(ABORT, 'payload is not valid UTF-8')
    WHEN NOT json_valid(NEW.payload) THEN RAISE(ABORT, 'payload is not valid JSON')
    WHEN length(CAST(NEW.checkpoint AS BLOB)) > 1048576 THEN RAISE(ABORT, 'checkpoint is larger than 1 MiB')
    WHEN instr(CAST(NEW.checkpoint AS BLOB), x'00') > 0 THEN RAISE(ABORT, 'checkpoint holds a NUL byte')
    WHEN NEW.checkpoint GLOB '*�*' AND instr(NEW.checkpoint, '�') = 0 THEN RAISE(ABORT, 'checkpoint is not valid UTF-8')
    WHEN NOT json_valid(NEW.checkpoint) THEN RAISE(ABORT, 'checkpoint is not valid JSON')
    WHEN length(CAST(NEW.result AS BLOB)) > 1048576 THEN RAISE(ABORT, 'result is larger than 1 MiB')
    WHEN instr(CAST(NEW.result AS BLOB), x'00') > 0 THEN RAISE(ABORT, 'result holds a NUL byte')
    WHEN NEW.result GLOB '*�*' AND instr(NEW.result, '�') = 0 THEN RAISE(ABORT, 'result is not valid UTF-8')
    WHEN NOT json_valid(NEW.result) THEN RAISE(ABORT, 'result is not valid JSON')
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
