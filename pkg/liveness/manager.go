package liveness

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ServiceManager is the socket on which systemd, or what speaks its protocol, listens
// (sd_notify(3)). The zero value, and none, listen to nothing.
type ServiceManager struct {
	fd       int
	addr     unix.Sockaddr
	watchdog time.Duration // how often it wants a sign of life at least; 0: never
	said     string
	saidAt   time.Duration
}

// FindServiceManager reads the environment that the manager set for this process.
func FindServiceManager() *ServiceManager {
	m := &ServiceManager{}
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return m
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return m
	}
	unix.CloseOnExec(fd)
	m.fd, m.addr = fd, &unix.SockaddrUnix{Name: name} // a leading @ means the abstract space
	var micros, pid int64
	if n, _ := fmt.Sscan(os.Getenv("WATCHDOG_USEC"), &micros); n == 1 {
		if n, _ := fmt.Sscan(os.Getenv("WATCHDOG_PID"), &pid); n == 0 || pid == int64(os.Getpid()) {
			m.watchdog = time.Duration(micros) * time.Microsecond
		}
	}
	return m
}

// Tell sends the state (lines as READY=1, STATUS=…) when it has changed, or when the
// watchdog wants to hear of us; what could not be sent is tried again at the next call. It
// never blocks: a socket that nobody reads is full after some messages, and a client that
// waits then hangs for good.
func (m *ServiceManager) Tell(state string, now time.Duration) {
	beat := m.watchdog > 0 && now-m.saidAt >= m.watchdog/3
	if m.addr == nil || state == m.said && !beat {
		return
	}
	if unix.Sendto(m.fd, []byte(state+"\nWATCHDOG=1"), unix.MSG_DONTWAIT, m.addr) == nil {
		m.said, m.saidAt = state, now
	}
}
