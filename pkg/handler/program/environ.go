package program

import (
	"bufio"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// defaultPath is PATH unless the type's env says otherwise. It is fixed, so that a
// program finds the same commands under systemd, supervisord and in a terminal.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// maxVariable is the largest value that travels in a variable: exec(2) refuses a
// string of 128 KiB (MAX_ARG_STRLEN), whatever the total is.
const maxVariable = 96 << 10

// ownPrefix is that of the variables that only Nightshift sets.
const ownPrefix = "NIGHTSHIFT_"

// account is who this process runs as.
type account struct{ name, home, shell string }

// self is looked up once: the answer can come from a directory service.
var self = sync.OnceValue(func() account {
	a := account{name: strconv.Itoa(os.Getuid()), home: "/", shell: "/bin/sh"}
	u, err := user.Current()
	if err != nil {
		return a // a uid without an account: what was filled in above is right for it
	}
	a.name = u.Username
	if u.HomeDir != "" {
		a.home = u.HomeDir
	}
	if s := shellOf(a.name); s != "" {
		a.shell = s
	}
	return a
})

// shellOf reads a login shell, which os/user does not tell, from /etc/passwd.
func shellOf(name string) string {
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return ""
	}
	defer f.Close() // opened for reading
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Split(s.Text(), ":"); len(fields) == 7 && fields[0] == name {
			return fields[6]
		}
	}
	return ""
}

// baseEnviron is the part of the environment that all tasks of a type share.
// Nothing is inherited: what a service manager or a terminal happens to set would
// make a program behave differently from one start to the next.
func baseEnviron(additions map[string]string, binDir string) ([]string, error) {
	a := self()
	vars := map[string]string{
		"PATH": defaultPath, "HOME": a.home, "USER": a.name, "LOGNAME": a.name, "SHELL": a.shell,
		"LANG": "C.UTF-8",
	}
	if binDir != "" {
		vars["PATH"] += string(filepath.ListSeparator) + binDir // so that `nightshift checkpoint` is found
	}
	for name, value := range additions {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00"):
			return nil, fmt.Errorf("env: %q is not a variable that a program can be given", name)
		case strings.HasPrefix(name, ownPrefix):
			return nil, fmt.Errorf("env: %s can't be set: variables that begin with %s are Nightshift's own", name, ownPrefix)
		}
		vars[name] = value
	}
	environ := make([]string, 0, len(vars))
	for name, value := range vars {
		environ = append(environ, name+"="+value)
	}
	sort.Strings(environ)
	return environ, nil
}

// environ is the environment of one execution.
func (x *execution) environ() []string {
	opt := &x.p.cfg.Reaper.opt
	env := make([]string, 0, len(x.p.environ)+10)
	env = append(env, x.p.environ...)
	add := func(name, value string) {
		if len(value) <= maxVariable && !strings.Contains(value, "\x00") {
			env = append(env, ownPrefix+name+"="+value)
		}
	}
	add("TASK_ID", x.t.ID)
	add("TASK_TYPE", x.t.Type)
	add("ATTEMPT", strconv.FormatInt(x.t.Attempt, 10))
	add("PAYLOAD", string(x.t.Payload))
	add("CHECKPOINT", string(x.t.LastCheckpoint()))
	add("TASK_DIR", x.dir)
	add("FD", "3")
	add("MARK", opt.Mark)
	return env
}

// lookup finds a variable.
func lookup(environ []string, name string) string {
	for _, v := range environ {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}
