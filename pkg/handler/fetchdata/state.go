package fetchdata

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// state is the checkpoint: where the file and the server's list stand together.
type state struct {
	File   string `json:"file"`           // the output, relative to the output directory
	Offset int64  `json:"offset"`         // its length; what lies beyond is not part of it
	Tail   string `json:"tail,omitempty"` // fingerprint of its last bytes: is it still the same file?

	Next    string `json:"next"`               // position of the next page; "" is the first
	ItemsAt string `json:"items_at,omitempty"` // where the array was found, if the payload does not say
	Same    string `json:"same,omitempty"`     // mode page: fingerprint of the last page
	Loop    loop   `json:"loop"`

	Pages      int64 `json:"pages"`
	Items      int64 `json:"items"`
	Duplicates int64 `json:"duplicates,omitempty"`
	WithoutID  int64 `json:"without_id,omitempty"`

	Done bool   `json:"done,omitempty"` // all is in the file; only its name is missing
	End  string `json:"end,omitempty"`  // why it ended
}

func newState(file, start string) state { return state{File: file, Next: start} }

func (s *state) end(why string) { s.Done, s.End = true, why }

func (s *state) progress() string {
	return fmt.Sprintf("%d items, %d pages, %s", s.Items, s.Pages, size(s.Offset))
}

// maxPositionBytes bounds a cursor or link: it goes into every checkpoint.
const maxPositionBytes = 16 << 10

// moveTo sets the next position, unless the walk has been there before.
func (s *state) moveTo(position string) error {
	if len(position) > maxPositionBytes {
		return fmt.Errorf("page %d leads to a position of %d bytes, at most %d are kept", s.Pages, len(position), maxPositionBytes)
	}
	if position == s.Next {
		return fmt.Errorf("page %d leads to itself: the position %q came a second time", s.Pages, shorten(position))
	}
	if s.Loop.closes(position) {
		return fmt.Errorf("page %d leads back to a page that was read before: the position %q came a second time", s.Pages, shorten(position))
	}
	s.Next = position
	return nil
}

// loop finds a circle of any length with a memory of one position (Brent): a
// mark is set at steps 1, 2, 4, 8 …, and a circle is closed when the walk meets
// the mark again, at the latest after three times its way.
type loop struct {
	Mark string `json:"mark,omitempty"`
	Step int64  `json:"step,omitempty"` // since the mark was set
	Span int64  `json:"span,omitempty"` // steps until it is set anew
}

func (l *loop) closes(position string) bool {
	f := fingerprint([]byte(position))
	if f == l.Mark {
		return true
	}
	l.Step++
	if l.Step >= l.Span {
		l.Mark, l.Step, l.Span = f, 0, max(1, 2*l.Span)
	}
	return false
}

// fingerprint is 64 bits of a hash: enough to notice a change, not to prove one.
func fingerprint(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:8])
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1000*1000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 1000*1000*1000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

// shorten is s for a message, at most 80 bytes of it.
func shorten(s string) string {
	if len(s) <= 80 {
		return s
	}
	return s[:77] + "..."
}
