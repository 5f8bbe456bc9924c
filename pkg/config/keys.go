package config

// form is the kind of value a key takes.
type form int

const (
	section form = iota
	text
	path
	choice
	integer
	boolean
	duration
	size
	words     // a list of texts
	choices   // a list of texts out of Choices
	codes     // a list of exit statuses
	octal     // 022
	variables // a mapping of names to texts
	document  // anything, kept as JSON
	options   // a mapping of anything
	entries   // a mapping of names to sections
)

// formNames are what the reference and the errors call them.
var formNames = map[form]string{
	section: "section", text: "text", path: "path", choice: "one of", integer: "number", boolean: "true or false",
	duration: "duration", size: "size", words: "list of texts", choices: "list of", codes: "list of exit statuses",
	octal: "octal number", variables: "names with texts", document: "anything", options: "names with anything", entries: "names with sections",
}

// key is all that is known about one key of the file. Defaults and bounds are
// written as a person would write them, and are read by the decoder itself.
type key struct {
	name     string // "worker.slots"; * stands for a name of the user's
	form     form
	def      string   // the default; "" when there is none of that form
	defText  string   // the default in words, where it is no fixed value
	min, max string   // bounds, for numbers, durations and sizes
	zero     string   // what 0 means, where 0 is allowed outside of min
	choices  []string // for choice and choices
	doc      string
	example  string
}

// keys is the table of all keys, in the order of the reference.
var keys = []key{
	{name: "data_dir", form: path, def: "./data",
		doc: "Where everything is kept: `nightshift.db`, `run/`, `logs/` and `tasks/`. `$NIGHTSHIFT_DATA` and `--data` win over it."},

	{name: "worker", form: section, doc: "How a worker process behaves."},
	{name: "worker.slots", form: integer, def: "1", min: "1", max: "256",
		doc: "How many tasks a worker runs at the same time. With one slot the executor is called `w1`, with more `w1.1`, `w1.2` …"},
	{name: "worker.poll_interval", form: duration, def: "5s", min: "100ms", max: "1h",
		doc: "The net under the wake-ups: a worker looks for due tasks at least this often, should no event have told it."},
	{name: "worker.heartbeat_interval", form: duration, def: "30s", min: "100ms", max: "1h",
		doc: "How often a worker writes its row in `worker_heartbeats`."},
	{name: "worker.suspect_after", form: duration, def: "90s", min: "200ms", max: "24h",
		doc: "A worker whose heartbeat has not moved for this long is suspect. At least twice `heartbeat_interval`."},
	{name: "worker.offline_after", form: duration, def: "5m", min: "500ms", max: "7d",
		doc: "A worker whose heartbeat has not moved for this long is offline and its tasks are LOST, until its death is proven or it reports again. More than `suspect_after`."},
	{name: "worker.drain_timeout", form: duration, def: "30s", min: "0", max: "24h",
		doc: "How long a worker that stops waits for its tasks to reach their next checkpoint."},
	{name: "worker.grace", form: duration, def: "30s", min: "0", max: "24h",
		doc: "How long a task that was told to stop may take to undo what it must, before it is killed."},

	{name: "retry", form: section, doc: "What becomes of a task that fails, or takes its worker down. The wait before attempt n+1 is `min(cap, base × 2^n) + random(0, base)`: 60–90 s, 120–150 s, 240–270 s … with the defaults."},
	{name: "retry.base", form: duration, def: "30s", min: "1ms", max: "7d",
		doc: "The base of the delays, and the width of their jitter."},
	{name: "retry.cap", form: duration, def: "1h", min: "1ms", max: "365d",
		doc: "The longest delay before jitter. At least `base`."},
	{name: "retry.max_retry", form: integer, def: "5", min: "0", max: "1000000",
		doc: "How many retries a task gets that `add` or a schedule inserts; 0 is one attempt. A plain SQL INSERT that does not name `max_retry` gets 5, the table's own default."},
	{name: "retry.max_crashes", form: integer, def: "3", min: "1", max: "1000",
		doc: "A task ends DEAD when its executor has crashed this many times in a row with no checkpoint in between."},
	{name: "retry.max_executions", form: integer, def: "1000", min: "0", max: "1000000000", zero: "no limit",
		doc: "A task ends DEAD when it has been started this many times, progress or not. 0: no limit."},

	{name: "timeout", form: duration, def: "1h", min: "1s", max: "3650d", zero: "none",
		doc: "How long an execution may take, by the monotonic clock. 0: no limit. The lease is twice this."},

	{name: "log", form: section, doc: "The worker's own log (logs.md). Every key of it changes on SIGHUP, without a restart."},
	{name: "log.level", form: choice, def: "info", choices: []string{"error", "warn", "info", "debug", "trace"},
		doc: "`w1.log` holds this level and worse, never finer than info. With `debug` or `trace` a second file, `w1.debug.log`, holds everything."},
	{name: "log.dir", form: path, defText: "`logs` in `data_dir`",
		doc: "Where the log files are. Each worker keeps its files under its own name; two data directories need two log directories."},
	{name: "log.max_size", form: size, def: "50MB", min: "64KiB", max: "10GB",
		doc: "A log file is rotated before it grows beyond this."},
	{name: "log.max_backups", form: integer, def: "10", min: "0", max: "1000",
		doc: "How many rotated files are kept of each log file: the whole takes at most (`max_backups` + 1) × `max_size`."},
	{name: "log.exec_max_size", form: size, def: "50MB", min: "64KiB", max: "10GB",
		doc: "The cap of one execution's log file. Of a larger output head and tail are kept."},

	{name: "retention", form: section, doc: "What is kept of finished things. Unfinished tasks are never removed."},
	{name: "retention.final", form: duration, def: "30d", min: "1m", max: "36500d", zero: "for ever",
		doc: "How long a finished task, its executions and its events are kept after its end. 0: for ever."},
	{name: "retention.logs", form: duration, def: "30d", min: "1m", max: "36500d", zero: "for ever",
		doc: "How long the log files of finished executions are kept. 0: for ever."},
	{name: "retention.disk_budget", form: size, def: "10GB", min: "100MB", max: "1000TB", zero: "none",
		doc: "What the data directory may take. Beyond it the oldest finished things go first. 0: no budget."},

	{name: "tasks", form: entries, doc: "The task types, by name. A name is letters, digits, `_`, `-` and `.`, at most 100 bytes. `fetch_data` and `render_report` exist without an entry. A type is the only way to name a program: a payload never can."},
	{name: "tasks.*.command", form: words, example: "[python3, examples/clean_csv.py]",
		doc: "The program and its arguments, as a list. No shell reads it. A program with a slash in its name is relative to `dir`; without one it is looked up in `PATH`. The arguments are passed as they stand; the program starts in `dir`."},
	{name: "tasks.*.builtin", form: text, defText: "the type's own name, for `fetch_data` and `render_report`", example: "fetch_data",
		doc: "The Go handler that does the work, in place of `command`: a built-in one, or one of your own worker."},
	{name: "tasks.*.timeout", form: duration, defText: "`timeout`", min: "1s", max: "3650d", zero: "none",
		doc: "As `timeout` above, for this type."},
	{name: "tasks.*.concurrency", form: integer, def: "0", min: "0", max: "100000", zero: "no limit",
		doc: "How many of this type may run at once over all workers. 0: no limit."},
	{name: "tasks.*.slow_after", form: duration, defText: "half the timeout, at most 30m", min: "1s", max: "3650d", zero: "never",
		doc: "A running task whose progress has not changed for this long is slow: a warning, a mark in `status`, a hook. 0: never."},
	{name: "tasks.*.env", form: variables, example: "{LANG: C.UTF-8}",
		doc: "Environment variables of the program. Names that begin with `NIGHTSHIFT_` are ours."},
	{name: "tasks.*.dir", form: path, defText: "the directory of the configuration file",
		doc: "The working directory of the program. What it writes under a relative name lands there; its own directory, which goes with the task, is `$NIGHTSHIFT_TASK_DIR`."},
	{name: "tasks.*.max_retry", form: integer, defText: "`retry.max_retry`", min: "0", max: "1000000",
		doc: "As `retry.max_retry`, for this type."},
	{name: "tasks.*.retry", form: section, doc: "This type's own delays."},
	{name: "tasks.*.retry.base", form: duration, defText: "`retry.base`", min: "1ms", max: "7d", doc: "As `retry.base`."},
	{name: "tasks.*.retry.cap", form: duration, defText: "`retry.cap`", min: "1ms", max: "365d", doc: "As `retry.cap`."},
	{name: "tasks.*.grace", form: duration, defText: "`worker.grace`", min: "0", max: "24h", doc: "As `worker.grace`, for this type."},
	{name: "tasks.*.fatal", form: codes, def: "[64, 65, 77, 78, 126, 127]",
		doc: "Exit statuses (1–255) that end the task FAILED at once."},
	{name: "tasks.*.retryable", form: codes, def: "[]", example: "[65]",
		doc: "Exit statuses that are retried although the default list of `fatal` holds them. All others are retried anyway."},
	{name: "tasks.*.umask", form: octal, def: "022", max: "777",
		doc: "The umask of the program."},
	{name: "tasks.*.options", form: options, example: "{headers: {Accept: application/json}}",
		doc: "Settings of the Go handler."},

	{name: "schedules", form: entries, doc: "What is added by the clock (schedules.md), by name. Names are as for `tasks`."},
	{name: "schedules.*.cron", form: text, example: `"0 2 * * *"`,
		doc: "A cron expression of five fields, or `@daily` and its like. This or `every`."},
	{name: "schedules.*.every", form: duration, min: "1s", max: "36500d", example: "15m",
		doc: "A fixed interval in whole seconds: its multiples, counted from 1970-01-01T00:00:00Z. This or `cron`."},
	{name: "schedules.*.zone", form: text, def: "UTC", example: "Asia/Shanghai",
		doc: "The time zone of `cron`, by its name in the tz database. Not with `every`."},
	{name: "schedules.*.task", form: text, defText: "required", example: "render_report",
		doc: "The task type to add."},
	{name: "schedules.*.payload", form: document, def: "{}", example: "{since: 24h}",
		doc: "The payload, written as YAML or as JSON text; it is stored as JSON, numbers digit for digit."},
	{name: "schedules.*.priority", form: integer, def: "100", min: "-9223372036854775808", max: "9223372036854775807",
		doc: "The priority of the tasks; smaller runs first."},
	{name: "schedules.*.missed", form: choice, def: "once", choices: []string{"skip", "once", "all"},
		doc: "What happens to occurrences that were missed while nothing ran: none is made up for, one stands for all, or each (up to `missed_limit`)."},
	{name: "schedules.*.missed_limit", form: integer, def: "10080", min: "1", max: "100000",
		doc: "With `missed: all`, how many of the latest missed occurrences are made up for."},
	{name: "schedules.*.overlap", form: choice, def: "skip", choices: []string{"skip", "allow"},
		doc: "What happens when the previous run is not finished: this occurrence is skipped and recorded, or runs beside it."},
	{name: "schedules.*.jitter", form: duration, def: "0", min: "0", max: "24h",
		doc: "Each occurrence starts up to this much later, by a random amount."},
	{name: "schedules.*.enabled", form: boolean, def: "true",
		doc: "Whether the schedule is in force."},

	{name: "hooks", form: section, doc: "A task of type `task` is added, in the same transaction, for each change in `on`. Its payload tells what happened: `event`, `task_id`, `task_type`, `status`, `reason`, `exec_id`, `executor_id`, `retry_count`, `progress`. A hook's own task fires no hook."},
	{name: "hooks.on", form: choices, def: "[FAILED, DEAD, slow, lost]", choices: []string{"SUCCESS", "FAILED", "DEAD", "CANCELLED", "slow", "lost"},
		doc: "What fires the hook: a task that ends so, is slow, or is lost."},
	{name: "hooks.task", form: text, defText: "no hooks", example: "notify",
		doc: "The task type to add."},
}

// keyTable finds a key by its name.
var keyTable = func() map[string]*key {
	m := make(map[string]*key, len(keys))
	for i := range keys {
		m[keys[i].name] = &keys[i]
	}
	return m
}()
