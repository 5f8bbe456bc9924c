package program

import (
	"bytes"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"nightshift/pkg/liveness"
)

// processes lists all processes that can be seen.
func processes() ([]liveness.Process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close() // opened for reading
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	list := make([]liveness.Process, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // not a process
		}
		if p, err := liveness.ReadProcess(pid); err == nil { // else it has ended meanwhile
			list = append(list, p)
		}
	}
	return list, nil
}

// carries reports that a process was started with all of these variables.
func carries(pid int, vars ...string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil || len(env) == 0 {
		return false // gone, or another user's
	}
	env = append([]byte{0}, env...)
	for _, v := range vars {
		if !bytes.Contains(env, []byte("\x00"+v+"\x00")) {
			return false
		}
	}
	return true
}

// holds reports that a process has one of these pipes or sockets open. Names are
// compared, not files: a stat could hang on a dead network mount.
func holds(pid int, ends []string) bool {
	base := "/proc/" + strconv.Itoa(pid) + "/fd/"
	dir, err := os.Open(base)
	if err != nil {
		return false
	}
	defer dir.Close() // opened for reading
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return false
	}
	for _, name := range names {
		if link, err := os.Readlink(base + name); err == nil && slices.Contains(ends, link) {
			return true
		}
	}
	return false
}

// pidfdOwners are the processes that some part of this process holds a pidfd of,
// os/exec for one: somebody will wait for them. ok is false where that can't be told.
func pidfdOwners() (pids map[int]bool, ok bool) {
	probe, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return nil, false
	}
	defer unix.Close(probe)
	dir, err := os.Open("/proc/self/fdinfo")
	if err != nil {
		return nil, false
	}
	defer dir.Close() // opened for reading
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, false
	}
	pids = map[int]bool{}
	for _, name := range names {
		text, err := os.ReadFile("/proc/self/fdinfo/" + name)
		if err != nil {
			continue // closed meanwhile
		}
		if _, rest, found := bytes.Cut(text, []byte("\nPid:\t")); found {
			line, _, _ := bytes.Cut(rest, []byte("\n"))
			if pid, err := strconv.Atoi(string(line)); err == nil {
				pids[pid] = true
			}
		}
	}
	// The probe must have been seen, or this kernel tells nothing.
	return pids, pids[os.Getpid()]
}
