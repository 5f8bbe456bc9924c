package store

import (
	"encoding/hex"
	"time"

	"nightshift/pkg/task"
)

// newIDs makes n ids that follow one another: the first is random within its
// millisecond, as task.NewID makes it, each next one counts up from there. Tasks that
// came together so lie together in every index of ids; with random ones a group
// commit touched a leaf page for each.
func newIDs(now time.Time, n int) []string {
	ids := make([]string, n)
	first := task.NewID(now)
	cut := len(first) - 16 // the random part: 64 bits in hex
	var b [8]byte
	if _, err := hex.Decode(b[:], []byte(first[cut:])); err != nil {
		panic("store: task.NewID no longer ends in 64 bits in hexadecimal: " + first)
	}
	for i := range ids {
		ids[i] = first[:cut] + hex.EncodeToString(b[:])
		for j := len(b) - 1; j >= 0; j-- {
			if b[j]++; b[j] != 0 {
				break
			}
		}
	}
	return ids
}
