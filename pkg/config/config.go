// Package config reads nightshift.yaml.
//
// One file, every key with a default, so that an absent file works. Reading is
// strict: an unknown key, a value of the wrong form or out of its range, a
// schedule of a type that does not exist are errors that name file, line,
// column, value and what to write instead, as many of them at once as there are.
// What Load returns is complete: every default is filled in, every path is
// absolute, every task type carries the values that are in force for it.
//
// The table in keys.go is the one place that knows a key's default, range and
// meaning; the decoder and docs/configuration.md are both made from it.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Config is a whole configuration. Treat it as read-only once loaded.
type Config struct {
	Path      string              // the file it was read from; "" when there is none
	DataDir   string              `key:"data_dir"`
	Worker    Worker              `key:"worker"`
	Retry     Retry               `key:"retry"`
	Timeout   time.Duration       `key:"timeout"`
	Log       Log                 `key:"log"`
	Retention Retention           `key:"retention"`
	Tasks     map[string]TaskType `key:"tasks"`
	Schedules map[string]Schedule `key:"schedules"`
	Hooks     Hooks               `key:"hooks"`

	base       string // the directory that relative paths start from
	logDirSet  bool   // log.dir stands in the file, so it does not follow data_dir
	typeAbsent TaskType
	hints      []string
}

// Worker is how a worker process behaves.
type Worker struct {
	Slots             int           `key:"slots"`
	PollInterval      time.Duration `key:"poll_interval"`
	HeartbeatInterval time.Duration `key:"heartbeat_interval"`
	SuspectAfter      time.Duration `key:"suspect_after"`
	OfflineAfter      time.Duration `key:"offline_after"`
	DrainTimeout      time.Duration `key:"drain_timeout"`
	Grace             time.Duration `key:"grace"`
}

// Retry is what becomes of a task that fails or takes its worker down.
type Retry struct {
	Base          time.Duration `key:"base"`
	Cap           time.Duration `key:"cap"`
	MaxRetry      int64         `key:"max_retry"`
	MaxCrashes    int64         `key:"max_crashes"`
	MaxExecutions int64         `key:"max_executions"`
}

// Log is the worker's own log. Everything in it changes on SIGHUP.
type Log struct {
	Level       string `key:"level"`
	Dir         string `key:"dir"`
	MaxSize     int64  `key:"max_size"`
	MaxBackups  int    `key:"max_backups"`
	ExecMaxSize int64  `key:"exec_max_size"`
}

// Retention bounds what is kept of finished things.
type Retention struct {
	Final      time.Duration `key:"final"`
	Logs       time.Duration `key:"logs"`
	DiskBudget int64         `key:"disk_budget"`
}

// TaskType is one entry of tasks, with the values in force: what the entry
// leaves out is taken from the sections above it. Command and Builtin exclude
// each other.
type TaskType struct {
	Command     []string          `key:"command"` // a program and its arguments, never a shell line
	Builtin     string            `key:"builtin"` // the Go handler that does the work
	Timeout     time.Duration     `key:"timeout"` // 0: none
	Concurrency int               `key:"concurrency"`
	SlowAfter   time.Duration     `key:"slow_after"` // 0: never
	Env         map[string]string `key:"env"`
	Dir         string            `key:"dir"`
	MaxRetry    int64             `key:"max_retry"`
	Retry       Backoff           `key:"retry"`
	Grace       time.Duration     `key:"grace"`
	Fatal       []int             `key:"fatal"`
	Retryable   []int             `key:"retryable"`
	Umask       int               `key:"umask"`
	Options     map[string]any    `key:"options"`
}

// Backoff is a task type's own retry delays.
type Backoff struct {
	Base time.Duration `key:"base"`
	Cap  time.Duration `key:"cap"`
}

// Schedule is one entry of schedules. Exactly one of Cron and Every is set.
type Schedule struct {
	Cron        string        `key:"cron"`
	Every       time.Duration `key:"every"`
	Zone        string        `key:"zone"`
	Task        string        `key:"task"`
	Payload     string        `key:"payload"` // JSON text
	Priority    int64         `key:"priority"`
	Missed      string        `key:"missed"`
	MissedLimit int           `key:"missed_limit"`
	Overlap     string        `key:"overlap"`
	Jitter      time.Duration `key:"jitter"`
	Enabled     bool          `key:"enabled"`
}

// Hooks names the task type that is added when something happens to a task.
type Hooks struct {
	On   []string `key:"on"`
	Task string   `key:"task"` // "": no hooks
}

// Builtins are the task types that exist without being declared.
func Builtins() []string { return []string{"fetch_data", "render_report"} }

// Where a configuration is looked for when no flag names one.
const (
	EnvConfig  = "NIGHTSHIFT_CONFIG"
	EnvData    = "NIGHTSHIFT_DATA"
	LocalFile  = "nightshift.yaml"
	SystemFile = "/etc/nightshift/nightshift.yaml"
)

// Find returns the file to load: flag, $NIGHTSHIFT_CONFIG, ./nightshift.yaml,
// /etc/nightshift/nightshift.yaml, the first that is named or exists; "" when
// there is none, which Load takes as all defaults. A file that was named and is
// missing is an error; one that exists and can't be read is left for Load to say.
func Find(flag string) (string, error) {
	if flag != "" {
		return named(flag, "--config")
	}
	if env := os.Getenv(EnvConfig); env != "" {
		return named(env, "$"+EnvConfig)
	}
	for _, path := range []string{LocalFile, SystemFile} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
	}
	return "", nil
}

func named(path, by string) (string, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", &MissingError{Path: path, By: by}
	}
	return path, nil
}

// MissingError says that a configuration file was named and does not exist.
type MissingError struct{ Path, By string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("configuration file %q, named by %s, does not exist; correct the name, or leave it out to run on defaults", e.Path, e.By)
}

// maxFile bounds what is read: a larger file is none that a person wrote, and
// the parser's memory is many times the text.
const maxFile = 4 << 20

// Load reads a configuration file; "" gives the defaults relative to the current
// directory. $NIGHTSHIFT_DATA, when set, wins over data_dir. handlers are the
// names of a worker's own Go handlers: types that exist beside the built-in ones
// and the declared ones. A file with mistakes gives an *Errors.
func Load(path string, handlers ...string) (*Config, error) {
	var text []byte
	base := "."
	if path != "" {
		var err error
		if text, err = readFile(path); err != nil {
			return nil, err
		}
		base = filepath.Dir(path)
	}
	abs, err := filepath.Abs(base)
	if err != nil {
		return nil, fmt.Errorf("directory of the configuration: %w", err)
	}
	c, err := Parse(path, abs, text, handlers...)
	if err != nil {
		return nil, err
	}
	if dir := os.Getenv(EnvData); dir != "" {
		if err := c.UseData(dir); err != nil {
			return nil, fmt.Errorf("$%s: %w", EnvData, err)
		}
	}
	return c, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("configuration %s is a directory; name the file in it", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("configuration %s is larger than %s; is it the right file?", path, FormatSize(maxFile))
	}
	return text, nil
}

// UseData makes dir the data directory, as --data and $NIGHTSHIFT_DATA do; a
// relative one starts at the current directory. Logs follow unless log.dir is set.
func (c *Config) UseData(dir string) error {
	if dir == "" {
		return errors.New("the data directory's name is empty")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("data directory %q: %w", dir, err)
	}
	c.DataDir = abs
	if !c.logDirSet {
		c.Log.Dir = filepath.Join(abs, "logs")
	}
	return nil
}

// Hints are remarks on what is legal and seldom meant, such as a cron expression
// with both day fields set; `config check` shows them.
func (c *Config) Hints() []string { return slices.Clone(c.hints) }

// Database is the path of nightshift.db.
func (c *Config) Database() string { return filepath.Join(c.DataDir, "nightshift.db") }

// RunDir is the directory of locks and of the supervisor's status file.
func (c *Config) RunDir() string { return filepath.Join(c.DataDir, "run") }

// TasksDir is the directory that holds a directory for each unfinished task.
func (c *Config) TasksDir() string { return filepath.Join(c.DataDir, "tasks") }

// ExecLogDir is the directory of the executions' log files.
func (c *Config) ExecLogDir() string { return filepath.Join(c.Log.Dir, "exec") }

// Type returns the task type's values in force; for a name that is not declared
// (a Go handler may do without an entry) those of the sections above.
func (c *Config) Type(name string) TaskType {
	if t, ok := c.Tasks[name]; ok {
		return t
	}
	t := c.typeAbsent
	t.Builtin = name
	return t
}
