package operator

import (
	"fmt"
	"sort"

	"nightshift/pkg/handler/program"
	"nightshift/pkg/operator/screen"
)

// ConfigCheck reads the configuration as a worker would, and looks at the
// programs that it names.
func (d *Desk) ConfigCheck() error {
	if err := d.configure(); err != nil {
		return err
	}
	x := &examination{d: d, now: d.Now()}
	x.programs()
	for _, hint := range d.Config.Hints() {
		x.find("schedule", Notable, "", "%s", esc(hint))
	}
	if len(x.findings) == 0 {
		x.find("configuration", Well, "", "%s: %s, %s", d.configName(),
			screen.Plural(int64(len(d.Config.Tasks)), "task type"), screen.Plural(int64(len(d.Config.Schedules)), "schedule"))
	}
	return d.report(x.findings)
}

// programs looks at each type's program as an execution would (case PR-04).
func (x *examination) programs() {
	c := x.d.Config
	var names []string
	for name, t := range c.Tasks {
		if isProgram(t) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		t := c.Tasks[name]
		if err := program.Check(program.Config{Command: t.Command, Dir: t.Dir, Env: t.Env}); err != nil {
			x.find("type "+name, Bad, fmt.Sprintf("correct tasks.%s in %s, or the program", esc(name), x.d.configName()), "%s", esc(err.Error()))
		}
	}
}
