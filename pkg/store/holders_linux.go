package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// SQLite's locks on the shared memory of a WAL: one byte each (walformat.html).
const (
	shmWriteByte     = 120
	shmFirstReadByte = 123
	shmLastReadByte  = 127
	reservedByte     = 0x40000001 // without a WAL: on the database file itself
)

// Holders reads from the kernel who holds the write lock, the turn and the read
// locks. Processes that this user's /proc does not show are missing.
func (s *Store) Holders() ([]LockHolder, error) {
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil, fmt.Errorf("holders: %w", err)
	}
	var holders []LockHolder
	for _, l := range parseLocks(string(text)) {
		what := s.lockKind(l)
		if what == "" {
			continue
		}
		h := LockHolder{PID: l.pid, What: what}
		h.Comm, h.State = processName(l.pid)
		holders = append(holders, h)
	}
	return holders, nil
}

// lockLine is a line of /proc/locks, as far as it matters here.
type lockLine struct {
	flock      bool
	write      bool
	pid        int
	dev, ino   uint64
	start, end uint64
}

// parseLocks reads lines such as
//
//	1: POSIX  ADVISORY  WRITE 3568 fd:00:2531452 120 120
//
// and leaves out those that wait ("1: -> POSIX …").
func parseLocks(text string) []lockLine {
	var all []lockLine
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) < 8 || f[1] == "->" {
			continue
		}
		id := strings.Split(f[5], ":")
		if len(id) != 3 {
			continue
		}
		major, err1 := strconv.ParseUint(id[0], 16, 32)
		minor, err2 := strconv.ParseUint(id[1], 16, 32)
		ino, err3 := strconv.ParseUint(id[2], 10, 64)
		pid, err4 := strconv.Atoi(f[4])
		start, err5 := strconv.ParseUint(f[6], 10, 64)
		if errors.Join(err1, err2, err3, err4, err5) != nil {
			continue
		}
		end, err := strconv.ParseUint(f[7], 10, 64)
		if err != nil {
			end = 1<<64 - 1 // EOF
		}
		all = append(all, lockLine{
			flock: f[1] == "FLOCK", write: f[3] == "WRITE", pid: pid,
			dev: unix.Mkdev(uint32(major), uint32(minor)), ino: ino, start: start, end: end,
		})
	}
	return all
}

func (s *Store) lockKind(l lockLine) string {
	covers := func(b uint64) bool { return l.start <= b && b <= l.end }
	on := func(path string) bool {
		id, err := identify(path)
		return err == nil && id.dev == l.dev && id.ino == l.ino
	}
	switch {
	case l.flock:
		if on(filepath.Join(s.runDir(), "turn.lock")) {
			return "turn"
		}
	case l.write && covers(shmWriteByte) && on(s.path+"-shm"):
		return "write"
	case l.start <= shmLastReadByte && shmFirstReadByte <= l.end && on(s.path+"-shm"):
		return "read"
	case l.write && covers(reservedByte) && on(s.path):
		return "write"
	}
	return ""
}

// processName reads a process's name and state letter; "" when it is gone or hidden.
func processName(pid int) (comm, state string) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", ""
	}
	stat := string(text)
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open || end+2 >= len(stat) {
		return "", ""
	}
	return stat[open+1 : end], stat[end+2 : end+3]
}
