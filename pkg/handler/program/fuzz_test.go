package program

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"nightshift/pkg/task"
)

// FuzzUnderstand: whatever a program writes on descriptor 3, a line is refused or says something
// that can be kept: the checkpoint in the very bytes that were written, within the limits.
func FuzzUnderstand(f *testing.F) {
	for _, line := range []string{
		`{"checkpoint":{"n":1},"progress":"1/2"}`, `{"progress":"é"}`, `{"ask":"still-mine"}`, `{"ask":"checkpoint"}`, `{"checkpoint":null}`,
		`{"checkpoint": 1e999 }`, `{"checkpoint":"\u0000\ud800"}`, `{"checkpoint":1,"checkpoint":2}`, `{"Checkpoint":1}`, `{"ask":"still-mine","progress":""}`,
		`{"checkpoint":[[[[[]]]]]}`, `null`, `[]`, `{}`, `{"progress":7}`, `{"checkpoint":1} x`, "\xff", "",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := understand(line)
		if err != nil {
			return
		}
		said := m.checkpoint != nil
		if said && (!json.Valid(m.checkpoint) || !bytes.Contains(line, m.checkpoint) || len(m.checkpoint) > task.MaxJSONBytes || depth(m.checkpoint) > maxDepth) {
			t.Errorf("%q gives the checkpoint %q", line, m.checkpoint)
		}
		if len(m.progress) > maxProgress || !utf8.ValidString(m.progress) {
			t.Errorf("%q gives the progress %q", line, m.progress)
		}
		if m.ask != "" && (said || m.progress != "" || m.ask != "still-mine" && m.ask != "checkpoint") {
			t.Errorf("%q gives %+v", line, m)
		}
		if !bytes.ContainsAny(line, "{") {
			t.Errorf("%q is taken for an object", line)
		}
	})
}
