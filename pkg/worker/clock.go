//go:build !testclock

package worker

import "nightshift/pkg/executor"

// systemClock is the machine's clock. A build with the tag testclock has one that
// a test can set; the product has no such switch.
func systemClock() executor.Clock { return executor.System{} }
