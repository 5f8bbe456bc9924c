package fetchdata

import (
	"bytes"
	"encoding/json"
	"net/url"
	"testing"
)

// FuzzReadPage: whatever a server sends, a page is taken apart without a panic,
// each line of the output is the item as it stood there, and the position that
// follows can be asked for.
func FuzzReadPage(f *testing.F) {
	f.Add([]byte(`{"items":[{"id":1},{"id":2}],"next":"x","has_more":true}`), "items", "next", "link")
	f.Add([]byte(`[{"id":9007199254740993}]`), "", "id", "cursor")
	f.Add([]byte(`{"a":{"b":[null,1e400,"\ud800"]},"c":0}`), "/a/b", "c", "token")
	f.Add([]byte(`{"a~/.":[{}]}`), "/a~0~1.", "next", "page")
	f.Add([]byte(`[[],[[]],{"":""}]`), "2", "", "none")
	base, err := url.Parse("https://api.example.com/v1/items?x=1")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte, items, field, mode string) {
		if !json.Valid(body) {
			return
		}
		p := &Payload{URL: base.String(), Items: items, ID: field, url: base, Paging: Paging{Mode: Mode(mode), Param: "p", Field: field, Next: field, ItemField: field}}
		s := newState("f", "1")
		pg, err := readPage(p, &s, &answer{body: body, url: base, links: []string{field}, mayVisit: func(*url.URL) bool { return false }})
		if err != nil {
			return
		}
		lines := newSeam(field).take(pg.items, p, &s)
		if n := bytes.Count(lines, []byte("\n")); int64(n) != s.Items {
			t.Fatalf("%d lines for %d items", n, s.Items)
		}
		for _, line := range bytes.Split(bytes.TrimSuffix(lines, []byte("\n")), []byte("\n")) {
			if len(lines) > 0 && !json.Valid(line) {
				t.Fatalf("line %q is no JSON", line)
			}
		}
		if pg.next == "" {
			return
		}
		u, err := p.request(pg.next)
		if err != nil {
			t.Fatalf("the next position %q can't be asked for: %v", pg.next, err)
		}
		if !sameOrigin(u, base) {
			t.Fatalf("the next position leads to %s", u)
		}
	})
}

// FuzzLinkHeader: a Link header of any form is read without a panic, and only a
// target that stands in it comes out.
func FuzzLinkHeader(f *testing.F) {
	f.Add(`<https://a/?x=1,2;3>; rel="prev", <https://a/n>; title="a,b;\"c>"; rel="last next"`)
	f.Add(`</x>;rel=next`)
	f.Add(`<`)
	f.Add(`<a>;"`)
	f.Fuzz(func(t *testing.T, h string) {
		if got := linkHeader([]string{h}, "next"); got != "" && !bytes.Contains([]byte(h), []byte(got)) {
			t.Fatalf("%q came out of %q", got, h)
		}
	})
}

// FuzzPayload: whatever is inserted is read or refused, and what is read writes
// below the output directory only.
func FuzzPayload(f *testing.F) {
	f.Add([]byte(`{"url":"http://x/","output":"a/{id}/b","paging":{"mode":"page","param":"p"}}`), "../id")
	f.Add([]byte(`{"url":"http://x/","query":{"a":1},"max_items":9}`), "")
	f.Fuzz(func(t *testing.T, raw []byte, id string) {
		p, err := ParsePayload(raw)
		if err != nil {
			return
		}
		name := p.outputName(id)
		if clean := (&Payload{Output: name}).checkOutput(); clean != nil {
			t.Fatalf("output %q of task %q becomes %q: %v", p.Output, id, name, clean)
		}
		if _, err := p.request("next"); err != nil && p.Paging.Mode != ModeLink {
			t.Fatal(err)
		}
	})
}

func TestLinkHeader(t *testing.T) {
	for header, want := range map[string]string{
		`<https://a/2>; rel="next"`:                                        "https://a/2",
		`<https://a/1>; rel="prev", <https://a/3>; rel="next"`:             "https://a/3",
		`<https://a/?q=a,b;c>; rel=next`:                                   "https://a/?q=a,b;c",
		`</x>; title="a, <b>; rel=\"next\""; rel="last", </y>; rel="Next"`: "/y",
		`</x>; rel="first next"`:                                           "/x",
		`</x>; rel="nextpage"`:                                             "",
		`</x>`:                                                             "",
		`</x; rel="next"`:                                                  "",
		``:                                                                 "",
	} {
		if got := linkHeader([]string{header}, "next"); got != want {
			t.Errorf("%s: %q, wanted %q", header, got, want)
		}
	}
}
