package fetchdata

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
)

// Limits of the seam: how far back an item is known by its id. The same rule
// holds while running and when it is read back from the file, so that a resumed
// run drops exactly what an undisturbed one drops.
const (
	seamItems = 10_000
	seamBytes = 32 << 20
)

// seam knows the ids of the items last written. It is not in the checkpoint but
// in the file: what is written there is what must not be written again.
type seam struct {
	path  string // of the id in an item; "": items are not told apart
	known map[idHash]int
	order []seamEntry // a queue: oldest first
	bytes int
}

// idHash is enough of a hash to be sure: two ids of 10,000 meet with a
// probability of 10^-31.
type idHash [16]byte

type seamEntry struct {
	id    idHash
	named bool
	size  int
}

func newSeam(path string) *seam { return &seam{path: path, known: map[idHash]int{}} }

// take returns the lines to append: the items that are not known, at most as
// many as the task still may have.
func (m *seam) take(items []json.RawMessage, p *Payload, s *state) []byte {
	var lines []byte
	for _, item := range items {
		if p.MaxItems > 0 && s.Items >= p.MaxItems {
			break
		}
		id, named := m.identify(item)
		if named && m.known[id] > 0 {
			s.Duplicates++
			continue
		}
		if m.path != "" && !named {
			s.WithoutID++
		}
		s.Items++
		lines = append(append(lines, item...), '\n')
		m.remember(seamEntry{id: id, named: named, size: len(item) + 1})
	}
	return lines
}

// identify takes the id as it is written: "1" and 1 are two ids, and a 64-bit
// number is never rounded into its neighbour.
func (m *seam) identify(item json.RawMessage) (idHash, bool) {
	if m.path == "" {
		return idHash{}, false
	}
	raw, ok := lookup(item, m.path)
	if _, isScalar := scalar(raw); !ok || !isScalar {
		return idHash{}, false
	}
	h := sha256.Sum256(raw)
	return idHash(h[:16]), true
}

func (m *seam) remember(e seamEntry) {
	if m.path == "" {
		return
	}
	m.order = append(m.order, e)
	m.bytes += e.size
	if e.named {
		m.known[e.id]++
	}
	for len(m.order) > seamItems || m.bytes > seamBytes {
		old := m.order[0]
		m.order, m.bytes = m.order[1:], m.bytes-old.size
		if !old.named {
			continue
		}
		if m.known[old.id]--; m.known[old.id] == 0 {
			delete(m.known, old.id)
		}
	}
}

// readSeam reads the ids of the last lines back.
func (o *output) readSeam(path string) (*seam, error) {
	m := newSeam(path)
	if path == "" || o.offset == 0 || o.done {
		return m, nil
	}
	// One byte more than the limit: if it is the end of a line, the next one is whole.
	from := max(0, o.offset-seamBytes-1)
	r := bufio.NewReaderSize(io.NewSectionReader(o.file, from, o.offset-from), 1<<20)
	if from > 0 {
		if _, err := r.ReadBytes('\n'); err != nil {
			return m, nil // one line larger than the seam: an undisturbed run has forgotten it, too
		}
	}
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return nil, err
		}
		item := json.RawMessage(line[:len(line)-1])
		id, named := m.identify(item)
		m.remember(seamEntry{id: id, named: named, size: len(line)})
	}
}
