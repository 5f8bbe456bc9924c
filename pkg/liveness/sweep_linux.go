package liveness

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Find looks once through the process table. An error means that it could not look (out
// of descriptors, say), and that nothing is proven; a process that another user owns is
// passed over, as it can be neither looked at nor killed.
func (s Sweep) Find() ([]Process, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	spared := s.spared(all)
	found := map[int]bool{}
	for pid, p := range all {
		if spared[pid] || !p.Alive() || p.PPID == 2 || s.tooYoung(p) { // 2: kthreadd
			continue
		}
		ours, err := s.isOurs(pid)
		if err != nil {
			return nil, err
		}
		if ours {
			found[pid] = true
		}
	}
	for grew := len(found) > 0; grew; {
		grew = false
		for pid, p := range all {
			if found[pid] || spared[pid] || !p.Alive() || s.tooYoung(p) {
				continue
			}
			if found[p.PPID] || found[p.PGID] || found[p.SID] {
				found[pid], grew = true, true
			}
		}
	}
	list := make([]Process, 0, len(found))
	for pid := range found {
		list = append(list, all[pid])
	}
	sort.Slice(list, func(i, j int) bool { return list[i].PID < list[j].PID })
	return list, nil
}

func (s Sweep) tooYoung(p Process) bool {
	return s.StartedBefore != 0 && p.StartTicks >= s.StartedBefore
}

// spared are process 1, the caller, its ancestors, and Not.
func (s Sweep) spared(all map[int]Process) map[int]bool {
	spared := map[int]bool{0: true, 1: true}
	for pid := os.Getpid(); pid > 1 && !spared[pid]; pid = all[pid].PPID {
		spared[pid] = true
	}
	for pid, not := range s.Not {
		spared[pid] = spared[pid] || not
	}
	return spared
}

func (s Sweep) isOurs(pid int) (bool, error) {
	if s.Mark != "" || len(s.Env) > 0 {
		marked, err := s.marked(pid)
		if marked || err != nil {
			return marked, err
		}
	}
	if s.LockIno == 0 && (s.Mark == "" || len(s.Env) > 0) {
		return false, nil
	}
	return holds(pid, s.Mark, s.LockDev, s.LockIno)
}

// marked reads the environment that the process was started with.
func (s Sweep) marked(pid int) (bool, error) {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false, unlessHidden(err)
	}
	env = append([]byte{0}, env...)
	has := func(entry string) bool { return bytes.Contains(env, []byte("\x00"+entry+"\x00")) }
	if s.Mark != "" && !has(markName+s.Mark) {
		return false, nil
	}
	for _, entry := range s.Env {
		if !has(entry) {
			return false, nil
		}
	}
	return true, nil
}

// holds says whether the process has the owner's descriptor of the lock open, or that of an
// earlier lock file at this path which somebody has removed. The name is compared first: a
// stat of any other descriptor could hang on a dead network mount.
func holds(pid int, path string, dev, ino uint64) (bool, error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
	d, err := os.Open(dir)
	if err != nil {
		return false, unlessHidden(err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return false, unlessHidden(err)
	}
	base := filepath.Base(path)
	for _, name := range names {
		link, err := os.Readlink(dir + name)
		if err != nil || filepath.Base(strings.TrimSuffix(link, " (deleted)")) != base {
			continue // closed meanwhile, or another file
		}
		var st unix.Stat_t
		same := link == path+" (deleted)" || unix.Stat(dir+name, &st) == nil && st.Dev == dev && st.Ino == ino
		if same && isOwners(pid, name) {
			return true, nil
		}
	}
	return false, nil
}

// isOwners looks for O_APPEND on the open file description (see the package comment).
func isOwners(pid int, fd string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/fdinfo/" + fd)
	if err != nil {
		return false // closed meanwhile
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(v), 8, 64)
			return err == nil && flags&unix.O_APPEND != 0
		}
	}
	return false
}

// Holders lists the processes that have the owner's descriptor of a lock open.
func Holders(path string, dev, ino uint64) ([]Process, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	var list []Process
	for pid, p := range all {
		ours, err := holds(pid, path, dev, ino)
		if err != nil {
			return nil, err
		}
		if ours {
			list = append(list, p)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].PID < list[j].PID })
	return list, nil
}

// heldError names the holders, and the taker if it is one of them.
func heldError(path string, dev, ino uint64) error {
	e := &HeldError{Path: path, Dev: dev, Ino: ino}
	var err error
	if e.Holders, err = Holders(path, dev, ino); err != nil {
		return fmt.Errorf("the lock %s is held; looking for its holder: %w", path, err)
	}
	takers := flockTakers(ino)
	for _, p := range e.Holders {
		if takers[p.PID] {
			e.Taker = p
		}
	}
	return e
}

// flockTakers reads from /proc/locks who took exclusive flocks on an inode of this number
// (proc(5); the device there is not always the one that stat shows, so it is left out).
// The kernel keeps the number of the process that called flock, dead or alive.
func flockTakers(ino uint64) map[int]bool {
	takers := map[int]bool{}
	b, err := os.ReadFile("/proc/locks")
	if err != nil {
		return takers // unreadable in some containers: then nobody is known to have taken it
	}
	suffix := ":" + strconv.FormatUint(ino, 10)
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) >= 6 && f[1] == "FLOCK" && f[3] == "WRITE" && strings.HasSuffix(f[5], suffix) {
			if pid, err := strconv.Atoi(f[4]); err == nil {
				takers[pid] = true
			}
		}
	}
	return takers
}

// unlessHidden drops the errors of a process that is gone or belongs to somebody else.
func unlessHidden(err error) error {
	if errors.Is(gone(err), ErrGone) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
