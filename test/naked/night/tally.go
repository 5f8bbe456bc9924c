package night

import "sync/atomic"

// tally counts what was done to the system.
type tally struct {
	workers, supervisors, scripts, others atomic.Int64 // SIGKILLs that hit
	stops                                 atomic.Int64 // SIGSTOPs that hit
}

func (t *tally) kills() int64 {
	return t.workers.Load() + t.supervisors.Load() + t.scripts.Load() + t.others.Load()
}
