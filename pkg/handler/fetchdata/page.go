package fetchdata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"sort"
	"strconv"
	"strings"

	"nightshift/pkg/handler"
)

// page is what one answer comes to.
type page struct {
	items []json.RawMessage // compact, free of newlines
	next  string            // position of the next page; "": there is none
	end   string            // why there is none
}

// shapeError is valid JSON of the wrong shape: the payload and the API do not
// agree, or the server had a bad moment.
type shapeError struct{ msg string }

func (e *shapeError) Error() string { return e.msg }

func misfit(format string, args ...any) error { return &shapeError{fmt.Sprintf(format, args...)} }

// readPage takes an answer apart. It notes in s where the items were found.
func readPage(p *Payload, s *state, r *answer) (*page, error) {
	body := r.body
	if r.empty {
		return &page{end: "no content"}, nil
	}
	raw, err := findItems(body, p, s)
	if err != nil {
		return nil, err
	}
	pg := &page{}
	var found []json.RawMessage
	if err := json.Unmarshal(raw, &found); err != nil {
		return nil, err
	}
	for _, item := range found {
		compact, err := compacted(item)
		if err != nil {
			return nil, err
		}
		pg.items = append(pg.items, compact)
	}
	if p.Paging.Mode == ModePage && len(found) > 0 {
		same := fingerprint(raw)
		if same == s.Same {
			return nil, handler.Fatal(fmt.Errorf("page %s holds the same items as the one before: the server does not heed %q", s.Next, p.Paging.Param))
		}
		s.Same = same
	}
	pg.next, pg.end, err = nextPosition(p, s, r, body, pg.items)
	return pg, err
}

// compacted is the item as it was received, less the white space between its
// parts: numbers, escapes and the order of keys stay as they are.
func compacted(item json.RawMessage) (json.RawMessage, error) {
	var b bytes.Buffer
	b.Grow(len(item))
	err := json.Compact(&b, item)
	return b.Bytes(), err
}

// findItems returns the array of items of a page.
func findItems(body []byte, p *Payload, s *state) (json.RawMessage, error) {
	at := p.Items
	if at == "" {
		at = s.ItemsAt
	}
	if at == "" && kind(body) == '[' {
		return body, nil
	}
	if at == "" {
		return guessItems(body, s)
	}
	raw, ok := lookup(body, at)
	switch {
	case !ok:
		return nil, misfit("no items at %q; %s", at, keysOf(body))
	case kind(raw) == 'n':
		return json.RawMessage("[]"), nil // some APIs say null for an empty page
	case kind(raw) != '[':
		return nil, misfit("the value at %q is no array; %s", at, keysOf(body))
	}
	return raw, nil
}

// guessItems takes the only array of an object, so that a payload of nothing but
// a url works for most APIs; where there are two, the payload has to say which.
func guessItems(body []byte, s *state) (json.RawMessage, error) {
	var object map[string]json.RawMessage
	if kind(body) != '{' || json.Unmarshal(body, &object) != nil {
		return nil, misfit("the page is neither an array nor an object")
	}
	var arrays []string
	for _, k := range sortedKeys(object) {
		if kind(object[k]) == '[' {
			arrays = append(arrays, k)
		}
	}
	if len(arrays) != 1 {
		return nil, misfit("the page holds %d arrays: say in items where they are; %s", len(arrays), keysOf(body))
	}
	s.ItemsAt = "/" + strings.ReplaceAll(strings.ReplaceAll(arrays[0], "~", "~0"), "/", "~1")
	return object[arrays[0]], nil
}

// keysOf names what a page has, for the one who must correct a path.
func keysOf(body []byte) string {
	var object map[string]json.RawMessage
	if kind(body) != '{' || json.Unmarshal(body, &object) != nil {
		return "the page is no object"
	}
	names := sortedKeys(object)
	sort.Strings(names)
	more := ""
	if len(names) > 12 {
		names, more = names[:12], ", ..."
	}
	for i, n := range names {
		names[i] = strconv.Quote(shorten(n))
	}
	return "its keys are " + strings.Join(names, ", ") + more
}

// nextPosition says where the next page begins, or why there is none.
func nextPosition(p *Payload, s *state, r *answer, body []byte, items []json.RawMessage) (next, end string, err error) {
	g := &p.Paging
	if g.More != "" {
		raw, ok := lookup(body, g.More)
		switch {
		case ok && kind(raw) == 'f':
			return "", fmt.Sprintf("%s is false", g.More), nil
		case !ok || kind(raw) != 't':
			return "", "", misfit("no true or false at %q; %s", g.More, keysOf(body))
		}
	}
	switch g.Mode {
	case ModeLink:
		return nextLink(p, r, body)
	case ModeToken:
		return positionAt(body, g.Field)
	case ModeCursor:
		if g.Field != "" {
			return positionAt(body, g.Field)
		}
		return lastItem(items, g.ItemField)
	case ModePage:
		return nextNumber(s, items)
	}
	return "", "one page", nil
}

func positionAt(body []byte, at string) (next, end string, err error) {
	raw, ok := lookup(body, at)
	none := fmt.Sprintf("no next position at %s", at)
	if !ok || kind(raw) == 'n' || kind(raw) == 'f' {
		return "", none, nil
	}
	position, ok := scalar(raw)
	if !ok {
		return "", "", misfit("the position at %q is neither a text nor a number", at)
	}
	// A number 0 as the *next* position means none wherever it was seen.
	if position == "" || kind(raw) == '0' && position == "0" {
		return "", none, nil
	}
	return position, "", nil
}

func lastItem(items []json.RawMessage, at string) (next, end string, err error) {
	if len(items) == 0 {
		return "", "empty page", nil
	}
	raw, ok := lookup(items[len(items)-1], at)
	if !ok {
		return "", "", misfit("the last item has no %q", at)
	}
	position, ok := scalar(raw)
	if !ok || position == "" {
		return "", "", misfit("the last item's %q is neither a text nor a number", at)
	}
	return position, "", nil
}

func nextNumber(s *state, items []json.RawMessage) (next, end string, err error) {
	// A short page is no end: items may have been filtered out of it.
	if len(items) == 0 {
		return "", "empty page", nil
	}
	n, err := strconv.ParseInt(s.Next, 10, 64)
	if err != nil || n == math.MaxInt64 {
		return "", "", misfit("the page number %q cannot be counted on", shorten(s.Next))
	}
	return strconv.FormatInt(n+1, 10), "", nil
}

// nextLink resolves the link to the next page, and keeps it on the server that
// the task names, or on the configured ones.
func nextLink(p *Payload, r *answer, body []byte) (next, end string, err error) {
	link, none := linkHeader(r.links, "next"), "no next link"
	if p.Paging.Next != "" {
		none = fmt.Sprintf("no next link at %s", p.Paging.Next)
		if link, _, err = positionAt(body, p.Paging.Next); err != nil {
			return "", "", err
		}
	}
	if link == "" {
		return "", none, nil
	}
	u, err := r.url.Parse(link)
	if err != nil {
		return "", "", misfit("the link to the next page can't be read as an address")
	}
	u.Fragment, u.User = "", nil
	// Many an API behind a proxy that ends TLS writes http into its links.
	if u.Scheme == "http" && r.url.Scheme == "https" && u.Hostname() == r.url.Hostname() &&
		(u.Port() == "" || u.Port() == "80" || u.Port() == r.url.Port()) {
		u.Scheme, u.Host = "https", r.url.Host
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", "", misfit("the link to the next page is no address of a server: scheme %q", u.Scheme)
	}
	if !sameOrigin(u, p.url) && !sameOrigin(u, r.url) && !r.mayVisit(u) {
		return "", "", misfit("the link to the next page leads to %s, another server than %s: name it in hosts if that is right", u.Host, r.url.Host)
	}
	return u.String(), "", nil
}

// linkHeader finds the target of a relation in Link headers (RFC 8288).
func linkHeader(headers []string, rel string) string {
	for _, h := range headers {
		for h != "" {
			var target, params string
			if target, params, h = cutLink(h); target == "" && params == "" {
				break
			}
			if relation(params, rel) {
				return target
			}
		}
	}
	return ""
}

// cutLink takes one "<target>; params" off the front. Commas and semicolons
// within < > and quotes are part of what they stand in.
func cutLink(h string) (target, params, rest string) {
	start := strings.IndexByte(h, '<')
	if start < 0 {
		return "", "", ""
	}
	h = h[start+1:]
	stop := strings.IndexByte(h, '>')
	if stop < 0 {
		return "", "", ""
	}
	target, h = strings.TrimSpace(h[:stop]), h[stop+1:]
	quoted := false
	for i := 0; i < len(h); i++ {
		switch {
		case quoted && h[i] == '\\':
			i++
		case h[i] == '"':
			quoted = !quoted
		case !quoted && h[i] == ',':
			return target, h[:i], h[i+1:]
		}
	}
	return target, h, ""
}

func relation(params, rel string) bool {
	for _, p := range strings.Split(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "rel") {
			continue
		}
		for _, r := range strings.Fields(strings.Trim(strings.TrimSpace(value), `"`)) {
			if strings.EqualFold(r, rel) {
				return true
			}
		}
	}
	return false
}

// answer is a page as it came over the wire.
type answer struct {
	body     []byte // one valid JSON document
	empty    bool   // 204: there is none
	links    []string
	url      *url.URL            // where it came from, after redirects
	mayVisit func(*url.URL) bool // named in hosts
}
