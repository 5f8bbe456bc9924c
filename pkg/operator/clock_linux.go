package operator

import "golang.org/x/sys/unix"

// kernelClock reads the clock's state: adjtimex(2) returns TIME_ERROR while
// nobody disciplines it.
func kernelClock() (synced, known bool) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return err == nil && state != unix.TIME_ERROR, err == nil
}
