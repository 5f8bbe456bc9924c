package config

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func mistakes(t *testing.T, text string, handlers ...string) string {
	t.Helper()
	_, err := Parse("n.yaml", "/etc/ns", []byte(text), handlers...)
	if err == nil {
		return ""
	}
	var list *Errors
	if !errors.As(err, &list) {
		t.Fatalf("error is a %T, not *Errors: %v", err, err)
	}
	return err.Error()
}

const work = "tasks:\n  w: {command: [/bin/true]}\n"

// Every mistake says where, what the value is and what to do.
func TestMistakes(t *testing.T) {
	for _, tc := range []struct{ name, yaml, want string }{
		{"unknown key with a near one", "worker:\n  slosts: 2\n", `n.yaml:2:3: unknown key "slosts" in worker; did you mean "slots"?`},
		{"unknown key at the top", "wroker: {slots: 2}\n", `n.yaml:1:1: unknown key "wroker" at the top level; did you mean "worker"?`},
		{"key in the wrong section", "slots: 2\n", `n.yaml:1:1: unknown key "slots" at the top level; there is worker.slots, does it belong there?`},
		{"unknown key like no other", "hooks: {zebra: 1}\n", `n.yaml:1:9: unknown key "zebra" in hooks; known are on, task`},
		{"unknown key of a type", "tasks:\n  w:\n    command: [a]\n    timout: 1h\n", `n.yaml:4:5: unknown key "timout" in tasks.w; did you mean "timeout"?`},
		{"key twice", "timeout: 1h\ntimeout: 2h\n", `n.yaml:2:1: "timeout" stands here for the second time; the first is in line 1`},
		{"number out of range", "worker: {slots: 0}\n", `n.yaml:1:17: worker.slots: 0 is out of range; allowed is 1 to 256`},
		{"number that is none", "worker: {slots: many}\n", `n.yaml:1:17: worker.slots: "many" is no whole number; allowed is 1 to 256`},
		{"fraction", "worker: {slots: 1.5}\n", `n.yaml:1:17: worker.slots: "1.5" is no whole number; allowed is 1 to 256`},
		{"quoted number", "worker: {slots: '2'}\n", `n.yaml:1:17: worker.slots: "2" is a text; write 2 without quotes`},
		{"2^63", "worker: {slots: 9223372036854775808}\n", `n.yaml:1:17: worker.slots: "9223372036854775808" is no whole number; allowed is 1 to 256`},
		{"list for a number", "worker: {slots: [1]}\n", `n.yaml:1:17: worker.slots: a list is no whole number; allowed is 1 to 256`},
		{"duration without unit", "timeout: 90\n", `n.yaml:1:10: timeout: 90 has no unit; write it like 500ms, 30s, 5m, 1h30m or 30d`},
		{"duration that is none", "timeout: soon\n", `n.yaml:1:10: timeout: "soon" is no duration; write it like 500ms, 30s, 5m, 1h30m or 30d`},
		{"negative duration", "timeout: -5s\n", `n.yaml:1:10: timeout: "-5s" is no duration; write it like 500ms, 30s, 5m, 1h30m or 30d`},
		{"duration out of range, 0 allowed", "timeout: 10ms\n", `n.yaml:1:10: timeout: 10ms is out of range; allowed is 1s to 3650d, or 0 for none`},
		{"duration out of range", "worker: {poll_interval: 99ms}\n", `n.yaml:1:25: worker.poll_interval: 99ms is out of range; allowed is 100ms to 1h`},
		{"size", "log: {max_size: 50M}\n", `n.yaml:1:17: log.max_size: "50M" is no size: the unit is one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB; write it like 64KiB, 50MB or 10GB`},
		{"size out of range", "log: {max_size: 1kB}\n", `n.yaml:1:17: log.max_size: 1kB is out of range; allowed is 64KiB to 10GB`},
		{"choice", "log: {level: inof}\n", `n.yaml:1:14: log.level: "inof" is not one of error, warn, info, debug, trace; did you mean "info"?`},
		{"no value", "worker:\n  slots:\n", `n.yaml:2:3: worker.slots: no value is given; leave the line out to get the default (1)`},
		{"text for a section", "worker: fast\n", "n.yaml:1:9: worker: \"fast\" stands where a section of keys belongs; write each key as `name: value` on a line of its own"},
		{"whole file is a list", "- a\n- b\n", "n.yaml:1:1: a list stands where a section of keys belongs; write each key as `name: value` on a line of its own"},
		{"home directory", "data_dir: ~/ns\n", `n.yaml:1:11: data_dir: "~/ns": ~ is not expanded; write the whole path`},
		{"variable in a path", "data_dir: $HOME/ns\n", `n.yaml:1:11: data_dir: "$HOME/ns": variables are not expanded; write the whole path`},
		{"suspect before two heartbeats", "worker: {heartbeat_interval: 1m}\n", `n.yaml:1:9: worker.suspect_after: 1m30s is less than twice worker.heartbeat_interval (1m): one late heartbeat would make every worker suspect`},
		{"offline before suspect", "worker: {offline_after: 90s}\n", `n.yaml:1:25: worker.offline_after: 1m30s is not more than worker.suspect_after (1m30s)`},
		{"cap below base", "retry: {base: 2h}\n", `n.yaml:1:8: retry.cap: 1h is less than retry.base (2h)`},
		{"task without work", "tasks:\n  w: {timeout: 1h}\n", `n.yaml:2:3: tasks.w: nothing says how to do the work; give it a command, such as command: [python3, work.py], or the builtin that does it`},
		{"task with nothing", "tasks:\n  w:\n", `n.yaml:2:3: tasks.w: nothing says how to do the work; give it a command, such as command: [python3, work.py], or the builtin that does it`},
		{"command as a text", "tasks:\n  w: {command: python3 work.py}\n", `n.yaml:2:16: tasks.w.command: "python3 work.py" is a text; write it as a list: [python3, work.py]`},
		{"command as a shell line", "tasks:\n  w: {command: 'a | b > c'}\n", `n.yaml:2:16: tasks.w.command: "a | b > c" is a shell line, and no shell reads it; put it into a script and write the script's name as a list: [./script.sh]`},
		{"empty command", "tasks:\n  w: {command: []}\n", `n.yaml:2:16: tasks.w.command: the command is empty; the first item is the program, such as [python3, work.py]`},
		{"NUL in an argument", "tasks:\n  w: {command: [a, \"b\\0\"]}\n", `n.yaml:2:20: tasks.w.command: the text holds a NUL`},
		{"command and builtin", "tasks:\n  w: {command: [a], builtin: fetch_data}\n", `n.yaml:2:30: tasks.w.builtin: a type has a command or a builtin, not both; remove one`},
		{"env of a handler", "tasks:\n  w: {builtin: fetch_data, env: {A: b}}\n", `n.yaml:2:33: tasks.w.env: this is for programs, and the type runs a Go handler; remove it`},
		{"options of a program", "tasks:\n  w: {command: [a], options: {A: b}}\n", `n.yaml:2:30: tasks.w.options: this is for Go handlers, and the type runs a program; give it env or more arguments`},
		{"our own variables", "tasks:\n  w: {command: [a], env: {NIGHTSHIFT_FD: 4}}\n", `n.yaml:2:27: tasks.w.env.NIGHTSHIFT_FD: names that begin with NIGHTSHIFT_ are set by the worker itself; choose another`},
		{"variable without value", "tasks:\n  w: {command: [a], env: {X: }}\n", `n.yaml:2:27: tasks.w.env.X: no value is given; write "" for an empty one`},
		{"exit status 0", "tasks:\n  w: {command: [a], fatal: [0]}\n", `n.yaml:2:29: tasks.w.fatal: "0" is no exit status; allowed is 1 to 255`},
		{"exit status in both lists", "tasks:\n  w: {command: [a], fatal: [3], retryable: [3]}\n", `n.yaml:2:44: tasks.w.retryable: exit status 3 is in fatal too; remove it from one of them`},
		{"umask", "tasks:\n  w: {command: [a], umask: 089}\n", `n.yaml:2:28: tasks.w.umask: "089" is no umask; write it in octal, such as 022 or 077`},
		{"name with a slash", "tasks:\n  ../../bin/sh: {command: [a]}\n", `n.yaml:2:3: tasks: "../../bin/sh" is no name: it cannot begin with '.'`},
		{"name with a newline", "tasks:\n  \"a\\n\": {command: [a]}\n", `n.yaml:2:3: tasks: "a\n" is no name: '\n' is not allowed in it; use letters, digits, _ - and .`},
		{"name with a semicolon", "tasks:\n  fetch_data;id: {command: [a]}\n", `n.yaml:2:3: tasks: "fetch_data;id" is no name: ';' is not allowed in it; use letters, digits, _ - and .`},
		{"name too long", "tasks:\n  " + strings.Repeat("x", 101) + ": {command: [a]}\n", "n.yaml:2:3: tasks: \"" + strings.Repeat("x", 101) + `" is no name: it must have 1 to 100 bytes`},
		{"schedule without a time", work + "schedules:\n  s: {task: w}\n", `n.yaml:4:3: schedules.s: nothing says when; give it cron: "0 2 * * *" or every: 15m`},
		{"schedule with two times", work + "schedules:\n  s: {task: w, cron: '@daily', every: 1h}\n", `n.yaml:4:39: schedules.s.every: a schedule has cron or every, not both; remove one`},
		{"schedule of no type", work + "schedules:\n  s: {every: 1h}\n", `n.yaml:4:3: schedules.s.task: no task type is named; add task: and one of fetch_data, render_report, w`},
		{"schedule of a misspelt type", work + "schedules:\n  s: {every: 1h, task: render_reprot}\n", `n.yaml:4:24: schedules.s.task: there is no task type "render_reprot" under tasks; did you mean "render_report"?`},
		{"cron expression that never comes", work + "schedules:\n  s: {cron: '0 0 30 2 *', task: w}\n", `n.yaml:4:13: schedules.s.cron: cron "0 0 30 2 *": column 5: day of month "30": no month that is admitted has such a day: it would never run`},
		{"cron expression out of range", work + "schedules:\n  s: {cron: '61 * * * *', task: w}\n", `n.yaml:4:13: schedules.s.cron: cron "61 * * * *": column 1: minute "61": end of range (61) above maximum (59)`},
		{"misspelt zone and bad expression", work + "schedules:\n  s: {cron: '* * *', zone: Europe/Berlim, task: w}\n", `n.yaml:4:13: schedules.s.cron: cron "* * *": it has 3 fields; five are needed: minute hour day-of-month month day-of-week` + "\n" +
			`n.yaml:4:28: schedules.s.zone: time zone "Europe/Berlim": unknown; did you mean Europe/Berlin?`},
		{"interval with a zone", work + "schedules:\n  s: {every: 1h, zone: UTC, task: w}\n", `n.yaml:4:24: schedules.s.zone: a fixed interval knows no zone; remove it, or use cron`},
		{"interval with a fraction", work + "schedules:\n  s: {every: 1500ms, task: w}\n", `n.yaml:4:14: schedules.s.every: every: 1.5s is not a whole number of seconds`},
		{"payload that is broken JSON", work + "schedules:\n  s: {every: 1h, task: w, payload: '{\"a\":'}\n", `n.yaml:4:36: schedules.s.payload: the text begins like JSON and is none: unexpected end of JSON input`},
		{"payload that JSON can't hold", work + "schedules:\n  s: {every: 1h, task: w, payload: {a: .inf}}\n", `n.yaml:4:40: schedules.s.payload: .inf is no number that JSON can hold`},
		{"hook without a task", "hooks: {on: [DEAD]}\n", `n.yaml:1:13: hooks.on: hooks need a task type to add; write task: under hooks`},
		{"hook for nothing that happens", "hooks: {on: [dead], task: render_report}\n", `n.yaml:1:14: hooks.on: "dead" is not one of SUCCESS, FAILED, DEAD, CANCELLED, slow, lost; did you mean "DEAD"?`},
		{"hook of no type", "hooks: {task: notify}\n", `n.yaml:1:15: hooks.task: there is no task type "notify" under tasks; known are fetch_data, render_report`},
		{"two documents", "timeout: 1h\n---\ntimeout: 2h\n", "n.yaml:3:8: a second YAML document; a configuration is one document, without a second `---`"},
		{"alias of nothing", "worker: *x\n", `n.yaml:1:9: alias *x: no anchor &x stands before it`},
		{"foreign tag", "data_dir: !!binary aGk=\n", `n.yaml:1:11: tag !!binary is not supported; leave it out`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := mistakes(t, tc.yaml); got != tc.want {
				t.Errorf("got:  %s\nwant: %s", got, tc.want)
			}
		})
	}
}

func TestSyntaxErrorsHaveAPlace(t *testing.T) {
	for _, tc := range []struct{ name, yaml, want string }{
		{"tab", "worker:\n\tslots: 1\n", "n.yaml:2:"},
		{"open bracket", "worker: {slots: 1\n", "n.yaml:1:"},
		{"open quote", "data_dir: \"x\n", "n.yaml:1:"},
		{"indentation", "worker:\n  slots: 1\n poll_interval: 1s\n", "n.yaml:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := mistakes(t, tc.yaml); !strings.HasPrefix(got, tc.want) || !strings.Contains(got, "not valid YAML") {
				t.Errorf("got %q, want a syntax error at %s", got, tc.want)
			}
		})
	}
}

func TestSeveralMistakesAtOnceInOrder(t *testing.T) {
	got := mistakes(t, "worker: {slots: 0, pol_interval: 1s}\nlog:\n  level: loud\ntasks:\n  a: {command: x}\n  b: {timeout: -1}\n")
	lines := strings.Split(got, "\n")
	wantPlaces := []string{"n.yaml:1:17:", "n.yaml:1:20:", "n.yaml:3:10:", "n.yaml:5:16:", "n.yaml:6:3:", "n.yaml:6:16:"}
	if len(lines) != len(wantPlaces) {
		t.Fatalf("%d mistakes, want %d:\n%s", len(lines), len(wantPlaces), got)
	}
	for i, place := range wantPlaces {
		if !strings.HasPrefix(lines[i], place) {
			t.Errorf("mistake %d is %q, want it at %s", i, lines[i], place)
		}
	}
	if got := mistakes(t, "tasks:\n"+strings.Repeat("  a b: {}\n", 30)); !strings.Contains(got, "… and 10 more") {
		t.Errorf("a long list is not cut: %s", got)
	}
}

func TestBombsAreRefusedQuickly(t *testing.T) {
	laughs := "x: &a0 [1,1,1,1,1,1,1,1,1,1]\n"
	for i := 1; i < 10; i++ {
		ref := strings.Repeat("*a"+string(rune('0'+i-1))+",", 10)
		laughs += "y" + string(rune('0'+i)) + ": &a" + string(rune('0'+i)) + " [" + ref + "]\n"
	}
	for _, tc := range []struct{ name, yaml, want string }{
		{"billion laughs", laughs, "too large or nested too deep"},
		{"brackets", strings.Repeat("[", 100_000), "nested more than 100 deep"},
		{"dashes", strings.Repeat("- ", 5_000) + "a", "too large or nested too deep"},
		{"not UTF-8", "a: \xff\n", "not valid UTF-8"},
		{"large payload", work + "schedules:\n  s: {every: 1h, task: w, payload: \"" + strings.Repeat("x", 1<<20) + "\"}\n", "at most 1048576 are allowed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := mistakes(t, tc.yaml); !strings.Contains(got, tc.want) {
				t.Errorf("got %.300q, want %q", got, tc.want)
			}
		})
	}
}

func TestHintsSayWhatIsLegalAndSeldomMeant(t *testing.T) { // TI-07
	c := parse(t, work+"schedules:\n  s: {cron: '0 2 10 12 3', task: w}\n")
	if got := c.Hints(); len(got) != 1 || !strings.HasPrefix(got[0], "nightshift.yaml:4:13: schedules.s.cron: ") {
		t.Errorf("hints = %q", got)
	}
}

func TestBuiltinThatThisProgramLacksIsAHint(t *testing.T) {
	c := parse(t, "tasks: {w: {builtin: render_reprot}}\n")
	want := `nightshift.yaml:1:22: tasks.w.builtin: "render_reprot" is no handler of this program; did you mean "render_report"? (a worker of your own may have it)`
	if got := c.Hints(); len(got) != 1 || got[0] != want {
		t.Errorf("hints = %q", got)
	}
}

func TestByteOrderMark(t *testing.T) {
	if c := parse(t, "\ufefftimeout: 2h\n"); c.Timeout != 2*time.Hour {
		t.Errorf("timeout = %v", c.Timeout)
	}
}

func TestDefinitionsCompile(t *testing.T) {
	c := parse(t, work+`schedules:
  a: {cron: "0 2 * * *", zone: Asia/Shanghai, task: w, payload: {n: 9007199254740993}, jitter: 90s, missed: all, enabled: false}
  b: {every: 90s, task: w}
`)
	for name, s := range c.Schedules {
		if _, err := s.Definition(name).Compile(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := c.Schedules["a"].Definition("a")
	if d.Zone != "Asia/Shanghai" || d.Jitter != "1m30s" || !d.Disabled || string(d.Payload) != `{"n":9007199254740993}` || *d.Priority != 100 {
		t.Errorf("definition = %+v", d)
	}
}

func TestHandlersOfAUsersWorkerAreTypes(t *testing.T) {
	c := parse(t, "tasks: {mine: {builtin: resize}}\nschedules: {s: {every: 1h, task: resize}}\n", "resize")
	if c.Tasks["resize"].Builtin != "resize" || c.Tasks["mine"].Builtin != "resize" {
		t.Errorf("types = %+v", c.Tasks)
	}
	want := `n.yaml:1:25: tasks.mine.builtin: this worker has no handler "resizer", it has fetch_data, render_report, resize; did you mean "resize"?`
	if got := mistakes(t, "tasks: {mine: {builtin: resizer}}\n", "resize"); got != want {
		t.Errorf("got:  %s\nwant: %s", got, want)
	}
	// A tool that does not know the worker's handlers takes the name on trust.
	if got := mistakes(t, "tasks: {mine: {builtin: resizer}}\n"); got != "" {
		t.Errorf("without handlers: %s", got)
	}
}

func TestNearest(t *testing.T) {
	for _, tc := range []struct{ word, want string }{
		{"slosts", "slots"}, {"SLOTS", "slots"}, {"slost", "slots"}, {"zebra", ""}, {"", ""}, {"s", ""},
	} {
		if got := Nearest(tc.word, []string{"slots", "grace", "drain_timeout"}); got != tc.want {
			t.Errorf("Nearest(%q) = %q, want %q", tc.word, got, tc.want)
		}
	}
}
