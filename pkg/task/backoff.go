package task

import (
	"math"
	"time"
)

// Backoff says how long a failed task waits (the seed, §3.2):
//
//	min(Cap, Base × 2^retry_count) + random(0, Base)
//
// with retry_count after its increment: 60–90 s, 120–150 s, 240–270 s for the
// default base of 30 s. The jitter keeps tasks that failed together from coming
// back together.
type Backoff struct {
	Base time.Duration // > 0; default 30 s
	Cap  time.Duration // ≥ Base; default 1 h
}

// Defaults of the retry section of the configuration.
const (
	DefaultRetryBase = 30 * time.Second
	DefaultRetryCap  = time.Hour
)

// Delay returns the wait before attempt retryCount+1; retryCount counts the
// failure just seen. rnd must return a number in [0, n); it is only called with
// n > 0. The result is always within [min(Cap, 2×Base), Cap+Base].
func (b Backoff) Delay(retryCount int64, rnd func(n int64) int64) time.Duration {
	d := b.Cap
	// Shifting is safe below 63 bits only; a larger exponent has long reached the cap.
	if retryCount < 62 && b.Base <= b.Cap>>uint(max(retryCount, 0)) {
		d = b.Base << uint(max(retryCount, 0))
	}
	jitter := time.Duration(0)
	if b.Base > 0 {
		jitter = time.Duration(rnd(int64(b.Base)))
	}
	if d > math.MaxInt64-jitter {
		return math.MaxInt64
	}
	return d + jitter
}

// Limit is the furthest that a retry may lie ahead: a RETRYING row beyond it
// was stamped under a wrong clock and is drawn in.
func (b Backoff) Limit() time.Duration {
	if b.Cap > math.MaxInt64-b.Base {
		return math.MaxInt64
	}
	return b.Cap + b.Base
}
