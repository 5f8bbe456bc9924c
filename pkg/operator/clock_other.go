//go:build !linux

package operator

// kernelClock can't be asked here.
func kernelClock() (synced, known bool) { return false, false }
