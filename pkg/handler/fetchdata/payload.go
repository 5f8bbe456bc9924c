package fetchdata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Payload is what a task asks for. It can't name a header: whatever needs one is
// the configuration's business.
type Payload struct {
	URL          string            // http or https, without user and password
	Output       string            // relative to the output directory; "": <task id>.jsonl
	Query        map[string]string // added to the url's own query
	Items        string            // path of the array in a page; "": the page itself, or its only array
	ID           string            // path of the id in an item; "": items are not told apart
	Paging       Paging
	MaxPages     int64 // 0: no limit
	MaxItems     int64 // 0: no limit
	MaxPageBytes int64 // 0: the configured limit, which it can only lower

	url *url.URL
}

// Paging is how one page leads to the next.
type Paging struct {
	Mode      Mode
	Next      string // link: path of the next page's URL; "": the Link header
	Param     string // cursor, token, page: the query parameter
	Field     string // cursor, token: path of the next position in a page
	ItemField string // cursor: path of the position in the last item of a page
	More      string // path of a boolean: false ends it
	Start     string // the first position; page: 1
}

// Mode is a way of paging, the safest first.
type Mode string

// The modes.
const (
	ModeLink   Mode = "link"   // the server gives the next page's address
	ModeCursor Mode = "cursor" // a business position: the last item's id, or a cursor made of it
	ModeToken  Mode = "token"  // an opaque token, which may expire
	ModePage   Mode = "page"   // a number: moves under changing data; the last resort
	ModeNone   Mode = "none"   // there is one page
)

var modes = []string{string(ModeLink), string(ModeCursor), string(ModeToken), string(ModePage), string(ModeNone)}

// Names of the keys, as documented in docs/fetch-data.md.
var (
	payloadKeys = []string{"url", "output", "query", "items", "id", "paging", "max_pages", "max_items", "max_page_bytes"}
	pagingKeys  = []string{"mode", "next", "param", "field", "item_field", "more", "start"}
)

// maxURLBytes is far beyond what servers take.
const maxURLBytes = 16 << 10

// ParsePayload reads and checks a payload. Its errors say which key is wrong.
func ParsePayload(raw json.RawMessage) (*Payload, error) {
	var p Payload
	r, err := newObjectReader(raw, "payload", payloadKeys)
	if err != nil {
		return nil, err
	}
	r.text("url", &p.URL)
	r.text("output", &p.Output)
	r.texts("query", &p.Query)
	r.text("items", &p.Items)
	r.text("id", &p.ID)
	r.count("max_pages", &p.MaxPages)
	r.count("max_items", &p.MaxItems)
	r.count("max_page_bytes", &p.MaxPageBytes)
	if r.err != nil {
		return nil, r.err
	}
	if paging, given := r.fields["paging"]; given {
		if err := p.Paging.parse(paging); err != nil {
			return nil, err
		}
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("payload.%w", err)
	}
	return &p, nil
}

func (g *Paging) parse(raw json.RawMessage) error {
	r, err := newObjectReader(raw, "payload.paging", pagingKeys)
	if err != nil {
		return err
	}
	var mode string
	r.text("mode", &mode)
	r.text("next", &g.Next)
	r.text("param", &g.Param)
	r.text("field", &g.Field)
	r.text("item_field", &g.ItemField)
	r.text("more", &g.More)
	r.text("start", &g.Start)
	g.Mode = Mode(mode)
	return r.err
}

func (p *Payload) check() error {
	u, err := url.Parse(p.URL)
	switch {
	case p.URL == "":
		return fmt.Errorf("url: is missing")
	case len(p.URL) > maxURLBytes:
		return fmt.Errorf("url: %d bytes, at most %d are allowed", len(p.URL), maxURLBytes)
	case err != nil:
		return fmt.Errorf("url: it can't be read as an address") // the error would repeat it, query and all
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("url: scheme %q: http or https is wanted", u.Scheme)
	case u.Hostname() == "":
		return fmt.Errorf("url: it names no server")
	case u.User != nil:
		return fmt.Errorf("url: it holds a user name or password; secrets belong into a file that the configuration names")
	}
	u.Fragment = ""
	p.url = u
	for _, f := range []struct{ key, path string }{
		{"items", p.Items}, {"id", p.ID}, {"paging.next", p.Paging.Next}, {"paging.field", p.Paging.Field},
		{"paging.item_field", p.Paging.ItemField}, {"paging.more", p.Paging.More},
	} {
		if _, err := splitPath(f.path); err != nil {
			return fmt.Errorf("%s: %w", f.key, err)
		}
	}
	if err := p.checkOutput(); err != nil {
		return err
	}
	return p.Paging.check()
}

func (p *Payload) checkOutput() error {
	name := p.Output
	switch {
	case name == "":
		return nil
	case strings.ContainsFunc(name, control):
		return fmt.Errorf("output: %q holds a control character", name)
	case !filepath.IsLocal(name) || strings.HasSuffix(name, "/") || path.Clean(name) == ".":
		return fmt.Errorf("output: %q: a file below the output directory is wanted, and no .. in it", name)
	case len(name) > 1024:
		return fmt.Errorf("output: %d bytes, at most 1024 are allowed", len(name))
	}
	return nil
}

func (g *Paging) check() error {
	if g.Mode == "" {
		g.Mode = ModeLink
	}
	given := map[string]string{
		"next": g.Next, "param": g.Param, "field": g.Field, "item_field": g.ItemField, "more": g.More, "start": g.Start,
	}
	allowed := map[Mode][]string{
		ModeLink:   {"next", "more"},
		ModeCursor: {"param", "field", "item_field", "more", "start"},
		ModeToken:  {"param", "field", "more", "start"},
		ModePage:   {"param", "more", "start"},
		ModeNone:   {},
	}
	takes, known := allowed[g.Mode]
	if !known {
		if near := nearest(string(g.Mode), modes); near != "" {
			return fmt.Errorf("paging.mode: %q is none; did you mean %q?", g.Mode, near)
		}
		return fmt.Errorf("paging.mode: %q is none of %s", g.Mode, strings.Join(modes, ", "))
	}
	for _, key := range pagingKeys {
		if given[key] != "" && !contains(takes, key) {
			return fmt.Errorf("paging.%s: means nothing in mode %q", key, g.Mode)
		}
	}
	return g.checkPosition()
}

func (g *Paging) checkPosition() error {
	if contains([]string{string(ModeCursor), string(ModeToken), string(ModePage)}, string(g.Mode)) && g.Param == "" {
		return fmt.Errorf("paging.param: is missing: the query parameter that takes the position")
	}
	switch g.Mode {
	case ModeCursor:
		if (g.Field == "") == (g.ItemField == "") {
			return fmt.Errorf("paging: mode cursor needs field (a path in the page) or item_field (a path in its last item), one of them")
		}
	case ModeToken:
		if g.Field == "" {
			return fmt.Errorf("paging.field: is missing: the path of the next token in a page")
		}
	case ModePage:
		if g.Start == "" {
			g.Start = "1"
		}
		if n, err := strconv.ParseInt(g.Start, 10, 64); err != nil || n < 0 {
			return fmt.Errorf("paging.start: %q: mode page needs a number", g.Start)
		}
	}
	return nil
}

// outputName is the file a fresh task writes. The id is someone's text and
// becomes part of a file's name: what is not plain is replaced.
func (p *Payload) outputName(taskID string) string {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.@+:", r) {
			return r
		}
		return '_'
	}, taskID)
	if strings.HasPrefix(plain, ".") {
		plain = "_" + plain[1:]
	}
	// A name of 255 bytes is the file system's limit, ".jsonl.part" is to follow.
	plain = plain[:min(len(plain), 200)]
	if p.Output == "" {
		return plain + ".jsonl"
	}
	return path.Clean(strings.ReplaceAll(p.Output, "{id}", plain))
}

// request is the address of the page at position next ("" is the first one).
func (p *Payload) request(next string) (*url.URL, error) {
	if p.Paging.Mode == ModeLink && next != "" {
		u, err := url.Parse(next)
		if err != nil {
			return nil, fmt.Errorf("the saved link to the next page can't be read as an address")
		}
		return u, nil
	}
	u := *p.url
	q := u.Query()
	for k, v := range p.Query {
		q.Set(k, v)
	}
	if next != "" {
		q.Set(p.Paging.Param, next)
	}
	if len(p.Query) > 0 || next != "" {
		u.RawQuery = q.Encode()
	}
	return &u, nil
}

// objectReader reads the keys of one JSON object and keeps the first mistake.
// encoding/json alone would take "URL" for "url" and say nothing of a typo.
type objectReader struct {
	where  string
	fields map[string]json.RawMessage
	err    error
}

func newObjectReader(raw json.RawMessage, where string, known []string) (*objectReader, error) {
	r := &objectReader{where: where}
	if err := json.Unmarshal(raw, &r.fields); err != nil || r.fields == nil {
		return nil, fmt.Errorf("%s: a JSON object is wanted", where)
	}
	return r, unknownKey(sortedKeys(r.fields), known, where)
}

func (r *objectReader) take(key, want string, read func(raw json.RawMessage) bool) {
	raw, given := r.fields[key]
	if !given || r.err != nil {
		return
	}
	if !read(raw) {
		r.err = fmt.Errorf("%s.%s: %s is wanted", r.where, key, want)
	}
}

// text reads a text, or a number as it is written.
func (r *objectReader) text(key string, into *string) {
	r.take(key, "a text", func(raw json.RawMessage) bool {
		s, ok := scalar(raw)
		*into = s
		return ok
	})
}

func (r *objectReader) texts(key string, into *map[string]string) {
	r.take(key, "an object of texts or numbers", func(raw json.RawMessage) bool {
		var entries map[string]json.RawMessage
		if err := json.Unmarshal(raw, &entries); err != nil || entries == nil {
			return false
		}
		*into = map[string]string{}
		for name, v := range entries {
			s, ok := scalar(v)
			if bytes.Equal(v, []byte("true")) || bytes.Equal(v, []byte("false")) {
				s, ok = string(v), true
			}
			if !ok {
				return false
			}
			(*into)[name] = s
		}
		return true
	})
}

func (r *objectReader) count(key string, into *int64) {
	r.take(key, "a whole number of at least 1", func(raw json.RawMessage) bool {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		*into = n
		return err == nil && n > 0 && n < math.MaxInt64
	})
}
