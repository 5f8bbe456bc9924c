package fetchdata

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nightshift/examples/apiserver/paged"
)

// TestItemsByteForByte: numbers keep their digits, escapes stay as they are,
// nothing but white space between the parts goes.
func TestItemsByteForByte(t *testing.T) {
	b := newBench(t, map[string]any{"url": pages(t, "\xef\xbb\xbf[ {\"id\": 9007199254740993, \"u\":18446744073709551615,\n \"f\":1.10, \"e\":1e400},\r\n"+
		` {"id":"\u00e9\ud83d\ude00 \/","h":"<&>\u2028","z":-0.0}, null, [1 ,2], "a\nb", {"id":1,"id":2} ]`)})
	r := b.mustRun()
	want := `{"id":9007199254740993,"u":18446744073709551615,"f":1.10,"e":1e400}` + "\n" +
		`{"id":"\u00e9\ud83d\ude00 \/","h":"<&>\u2028","z":-0.0}` + "\n" +
		"null\n[1,2]\n" + `"a\nb"` + "\n" + `{"id":1,"id":2}` + "\n"
	if got := b.output("t1.jsonl"); got != want {
		t.Errorf("got\n%swanted\n%s", got, want)
	}
	if r.Items != 6 || r.Bytes != int64(len(want)) {
		t.Errorf("result %+v", r)
	}
}

func TestWherePagesEnd(t *testing.T) {
	for name, c := range map[string]struct {
		payload map[string]any
		bodies  []string
		items   int64
		pages   int64
		end     string
	}{
		"null":          {bodies: []string{`{"i":[1],"next":"1"}`, `{"i":[2],"next":null}`}, items: 2, pages: 2, end: "no next position at next"},
		"absent":        {bodies: []string{`{"i":[1]}`}, items: 1, pages: 1, end: "no next position at next"},
		"empty text":    {bodies: []string{`{"i":[1],"next":""}`}, items: 1, pages: 1, end: "no next position at next"},
		"zero":          {bodies: []string{`{"i":[1],"next":0}`}, items: 1, pages: 1, end: "no next position at next"},
		"false":         {bodies: []string{`{"i":[1],"next":false}`}, items: 1, pages: 1, end: "no next position at next"},
		"null items":    {payload: map[string]any{"items": "i"}, bodies: []string{`{"i":null}`}, pages: 1, end: "no next position at next"},
		"max_pages":     {payload: map[string]any{"max_pages": 2}, bodies: []string{`{"i":[1],"next":1}`, `{"i":[2],"next":2}`, `{"i":[3]}`}, items: 2, pages: 2, end: "max_pages"},
		"max_items":     {payload: map[string]any{"max_items": 3}, bodies: []string{`{"i":[1,2],"next":1}`, `{"i":[3,4],"next":2}`}, items: 3, pages: 2, end: "max_items"},
		"limit at end":  {payload: map[string]any{"max_pages": 1}, bodies: []string{`{"i":[1]}`}, items: 1, pages: 1, end: "no next position at next"},
		"empty between": {bodies: []string{`{"i":[1],"next":1}`, `{"i":[],"next":2}`, `{"i":[3]}`}, items: 2, pages: 3, end: "no next position at next"},
		"more is false": {payload: map[string]any{"paging": map[string]any{"mode": "cursor", "param": "cursor", "field": "next", "more": "m"}},
			bodies: []string{`{"i":[1],"next":1,"m":true}`, `{"i":[2],"next":2,"m":false}`}, items: 2, pages: 2, end: "m is false"},
		"one page": {payload: map[string]any{"paging": map[string]any{"mode": "none"}}, bodies: []string{`{"i":[1],"next":1}`}, items: 1, pages: 1, end: "one page"},
		"empty page": {payload: map[string]any{"paging": map[string]any{"mode": "cursor", "param": "cursor", "item_field": "n"}},
			bodies: []string{`[{"n":1}]`, `[]`}, items: 1, pages: 2, end: "empty page"},
	} {
		t.Run(name, func(t *testing.T) {
			payload := map[string]any{"url": pages(t, c.bodies...), "paging": paging()}
			for k, v := range c.payload {
				payload[k] = v
			}
			r := newBench(t, payload).mustRun()
			if r.Items != c.items || r.Pages != c.pages || r.End != c.end {
				t.Errorf("%d items, %d pages, end %q; wanted %d, %d, %q", r.Items, r.Pages, r.End, c.items, c.pages, c.end)
			}
		})
	}
}

func TestNoContentIsAnEnd(t *testing.T) {
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	b := newBench(t, map[string]any{"url": url})
	if r := b.mustRun(); r.Items != 0 || r.End != "no content" || b.output("t1.jsonl") != "" {
		t.Errorf("%+v", r)
	}
}

// TestNothingButAnAddress is the payload of a first try.
func TestNothingButAnAddress(t *testing.T) {
	b := newBench(t, map[string]any{"url": serve(t, paged.New(small)) + "/items"})
	if r := b.mustRun(); r.Items != int64(small.Items) {
		t.Errorf("%d items, wanted %d", r.Items, small.Items)
	}
	for _, line := range strings.Split(strings.TrimSpace(b.output("t1.jsonl")), "\n") {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
}

func TestQueryIsAddedToTheAddress(t *testing.T) {
	var got []string
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.RawQuery)
		_, _ = w.Write([]byte(`[{"id":7}]`))
		if r.URL.Query().Has("after") {
			return
		}
	}))
	b := newBench(t, map[string]any{
		"url": url + "/?a=1&limit=5", "query": map[string]any{"limit": 50, "q": "x & y", "deep": true}, "max_pages": 2,
		"paging": map[string]any{"mode": "cursor", "param": "after", "item_field": "id"},
	})
	b.mustRun()
	want := []string{"a=1&deep=true&limit=50&q=x+%26+y", "a=1&after=7&deep=true&limit=50&q=x+%26+y"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("asked for %q, wanted %q", got, want)
	}
}

func TestIdsOverTheSeam(t *testing.T) {
	b := newBench(t, map[string]any{"id": "a.id", "paging": paging(), "url": pages(t,
		`{"i":[{"a":{"id":1}},{"a":{"id":"1"}},{"a":{"id":9007199254740993}}],"next":1}`,
		`{"i":[{"a":{"id":9007199254740993}},{"a":{"id":9007199254740992}},{"a":{}},{"a":{}},{"a":{"id":1}}]}`)})
	r := b.mustRun()
	if r.Items != 6 || r.Duplicates != 2 || r.WithoutID != 2 {
		t.Errorf("%+v, wanted 6 items, 2 duplicates, 2 without id", r)
	}
}

// TestSeamReadBackIsTheSeam: what a resume reads from the file is what a running
// task remembers, whatever the items look like and wherever it was cut.
func TestSeamReadBackIsTheSeam(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfN(rapid.IntRange(0, 60), 0, 400).Draw(t, "ids")
		cut := rapid.IntRange(0, len(items)).Draw(t, "cut")
		live := newSeam("id")
		s, p := state{}, &Payload{ID: "id"}
		var file []byte
		for _, id := range items[:cut] {
			file = append(file, live.take([]json.RawMessage{json.RawMessage(`{"id":` + strconv.Itoa(id) + `}`)}, p, &s)...)
		}
		back := newSeam("id")
		for _, line := range strings.SplitAfter(string(file), "\n") {
			if line != "" {
				id, named := back.identify(json.RawMessage(line[:len(line)-1]))
				back.remember(seamEntry{id: id, named: named, size: len(line)})
			}
		}
		a, b := s, s
		rest := []json.RawMessage{}
		for _, id := range items[cut:] {
			rest = append(rest, json.RawMessage(`{"id":`+strconv.Itoa(id)+`}`))
		}
		if one, two := string(live.take(rest, p, &a)), string(back.take(rest, p, &b)); one != two || a != b {
			t.Fatalf("a resumed run writes %q, an undisturbed one %q", two, one)
		}
	})
}

// TestSeamForgets: the memory is bounded by number and by bytes, alike in a
// running and in a resumed run.
func TestSeamForgets(t *testing.T) {
	m := newSeam("id")
	p, s := &Payload{}, &state{}
	item := func(i, bytes int) []json.RawMessage {
		return []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"id":%d,"x":"%s"}`, i, strings.Repeat("x", bytes)))}
	}
	for i := range seamItems + 1 {
		m.take(item(i, 0), p, s)
	}
	if len(m.take(item(0, 0), p, s)) == 0 || len(m.take(item(2, 0), p, s)) != 0 {
		t.Error("the oldest is still known, or a younger one is not")
	}
	for i := range 40 {
		m.take(item(1_000_000+i, 1<<20), p, s)
	}
	if m.bytes > seamBytes || len(m.known) > 40 || len(m.order) > 40 {
		t.Errorf("%d bytes, %d ids are remembered", m.bytes, len(m.known))
	}
}
