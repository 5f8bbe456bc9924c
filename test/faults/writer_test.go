package faults

import (
	"syscall"
	"testing"
	"time"

	"nightshift/test/naked/night"
)

// TestStoppedWriterIsFoundAndEnded: a worker that is stopped inside a write
// transaction keeps every other from writing. The others find it, name it and end
// it, and the night goes on.
func TestStoppedWriterIsFoundAndEnded(t *testing.T) {
	play(t, night.Options{
		Workers: -1, Free: 3, Slots: 2, NoLoop: true, Mix: []string{"plain", "batch"},
		Script: func(st *night.Stage) error {
			if err := st.Wait("tasks end", 30*time.Second, func() bool { return st.Done() > 5 }); err != nil {
				return err
			}
			var caught int
			if err := st.Wait("a worker is caught writing", 30*time.Second, func() bool {
				for _, pid := range st.Workers() {
					if st.HoldsDatabase(pid) && st.Signal(pid, syscall.SIGSTOP) {
						if st.HoldsDatabase(pid) {
							caught = pid
							return true
						}
						st.Signal(pid, syscall.SIGCONT)
					}
				}
				return false
			}); err != nil {
				return err
			}
			began := time.Now()
			st.Did("stopped writer")
			done := st.Done()
			err := st.Wait("the others go on", 60*time.Second, func() bool { return st.Done() > done+5 })
			st.Signal(caught, syscall.SIGCONT)
			t.Logf("others wrote again after %v", time.Since(began).Round(time.Second))
			return err
		},
	})
}
