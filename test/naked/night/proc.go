package night

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is one of this night's, as /proc shows it.
type process struct {
	pid, ppid int
	state     byte
	comm      string
	env       map[string]string
	forked    bool // by a worker, which it still looks like: it has not begun its program yet
}

// isWorker: a worker, not what it runs.
func (p *process) isWorker() bool {
	return p.env["NAKED"] != "" && p.env["NIGHTSHIFT_TASK_ID"] == "" && p.comm == "worker" && !p.forked
}

func (p *process) isScript() bool { return p.env["NIGHTSHIFT_TASK_ID"] != "" }

// processes finds everything that bears this night's directory in its environment.
func (g *ground) processes() []process {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		panic("night: " + err.Error()) // the pattern is a constant
	}
	var found []process
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile(filepath.Join(d, "environ"))
		if err != nil || !bytes.Contains(environ, []byte("="+g.root)) {
			continue
		}
		p := process{pid: pid, env: map[string]string{}}
		if !p.readStat() {
			continue
		}
		for _, v := range strings.Split(string(environ), "\x00") {
			name, value, _ := strings.Cut(v, "=")
			if strings.HasPrefix(name, "NIGHTSHIFT_") || name == "NAKED" {
				p.env[name] = value
			}
		}
		found = append(found, p)
	}
	for i := range found {
		found[i].forked = slices.ContainsFunc(found, func(q process) bool { return q.pid == found[i].ppid && q.comm == "worker" })
	}
	return found
}

func (p *process) readStat() bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return false
	}
	open, shut := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || shut < open {
		return false
	}
	p.comm = string(b[open+1 : shut])
	fields := strings.Fields(string(b[shut+1:]))
	if len(fields) < 2 {
		return false
	}
	p.state = fields[0][0]
	p.ppid, err = strconv.Atoi(fields[1])
	return err == nil
}

// signal sends sig to pid if it is still one of this night's.
func (g *ground) signal(pid int, sig syscall.Signal) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd) // a pidfd: nothing can be lost
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || !bytes.Contains(environ, []byte("="+g.root)) {
		return false
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0) == nil
}

// leftovers looks for what the night's processes left behind (I11): by
// environment, and by what they execute or hold open.
func (g *ground) leftovers() []string {
	var found []string
	for _, p := range g.processes() {
		if p.state != 'Z' && p.comm != "apiserver" {
			found = append(found, fmt.Sprintf("I11 left behind: pid %d (%s, task %s)", p.pid, p.comm, p.env["NIGHTSHIFT_TASK_ID"]))
		}
	}
	for pid, file := range g.holders(g.runDir()) {
		found = append(found, fmt.Sprintf("I11 left behind: pid %d holds %s", pid, file))
	}
	return found
}

// holders are the processes that have a file below dir open.
func (g *ground) holders(dir string) map[int]string {
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		panic("night: " + err.Error()) // the pattern is a constant
	}
	m := map[int]string{}
	for _, l := range links {
		to, err := os.Readlink(l)
		if err != nil || !strings.HasPrefix(to, dir+"/") {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(l, "/")[2])
		if err == nil && pid != os.Getpid() {
			m[pid] = to
		}
	}
	return m
}

// endHolders ends what of ours keeps the disk busy, when the checker has named it.
func (g *ground) endHolders() {
	for pid := range g.holders(filepath.Join(g.root, "disk")) {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err == nil && strings.HasPrefix(exe, g.bin+"/") {
			_ = syscall.Kill(pid, syscall.SIGKILL) // one of this night's witnesses
		}
	}
	time.Sleep(50 * time.Millisecond)
}
