package liveness

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ignoredSink receives, and drops, the signals of UnignoreSignals.
var ignoredSink = make(chan os.Signal, 1)

// UnignoreSignals sees to it that children do not inherit the signals that this
// process was started to ignore (under nohup: SIGHUP): exec resets a signal that is
// caught and leaves one that is ignored. To this process they mean what they did:
// nothing. Call it once, before the first child. Without /proc it does nothing.
func UnignoreSignals() {
	for _, sig := range ignoredSignals() {
		signal.Notify(ignoredSink, sig)
	}
	// Go catches none of the C library's own (32 and 33). Nobody sends them to a
	// process that has no use for them, so there the default is as good.
	for _, sig := range ignoredSignals() {
		var byDefault [64]byte // longer than struct sigaction; SIG_DFL, no flag and no mask are 0
		const maskSize = 8
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&byDefault)), 0, maskSize, 0, 0)
	}
}

// ignoredSignals are those that this process ignores: "SigIgn" of proc_pid_status(5),
// whose lowest bit is signal 1.
func ignoredSignals() (all []syscall.Signal) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(status), "\nSigIgn:\t")
	text, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return nil // not this kernel's form
	}
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		if mask&(1<<(sig-1)) != 0 {
			all = append(all, sig)
		}
	}
	return all
}
