package store

import (
	"fmt"
	"os"
	"strings"
)

// LockHolder is a process that holds the write lock, the turn or a read lock.
type LockHolder struct {
	PID   int
	Comm  string
	State string // one letter of /proc/PID/stat: T is stopped
	What  string // "write", "turn", "read"
}

// String is the holder for a message.
func (h LockHolder) String() string {
	if h.Comm == "" {
		return fmt.Sprintf("process %d", h.PID)
	}
	stopped := ""
	if h.State == "T" || h.State == "t" {
		stopped = ", stopped"
	}
	return fmt.Sprintf("process %d (%q%s)", h.PID, h.Comm, stopped)
}

// holderText says who blocks writers: the holder of the write lock, else of the turn.
func (s *Store) holderText() string {
	holders, err := s.Holders()
	if err != nil {
		return "unknown (" + err.Error() + ")"
	}
	for _, what := range []string{"write", "turn"} {
		var names []string
		for _, h := range holders {
			if h.What == what && (h.PID != os.Getpid() || what == "write") {
				names = append(names, h.String())
			}
		}
		if len(names) > 0 {
			return strings.Join(names, ", ")
		}
	}
	return "unknown"
}

// blame is holderText as the end of an error message.
func (s *Store) blame() string {
	text := s.holderText()
	if text == "unknown" {
		return ""
	}
	return "; held by " + text
}

// readersText names the processes that hold read locks and so pin the WAL.
func (s *Store) readersText() string {
	holders, err := s.Holders()
	if err != nil {
		return "unknown (" + err.Error() + ")"
	}
	var names []string
	for _, h := range holders {
		if h.What == "read" {
			names = append(names, h.String())
		}
	}
	if len(names) == 0 {
		return "unknown"
	}
	return strings.Join(names, ", ")
}
