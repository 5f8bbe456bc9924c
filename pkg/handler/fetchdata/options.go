package fetchdata

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// Options come from the task type's section of the configuration, never from a
// payload. The zero value of a field means its default.
type Options struct {
	OutputDir string   // where outputs are made, and nowhere else; required
	Hosts     []string // servers that may be asked: name, name:port, name:*, *.domain; empty: any, but then no secrets

	// What is sent along to the server that the task's url names, and to no other.
	Headers     map[string]string // plain values
	HeaderFiles map[string]string // header name → file that holds its value
	QueryFiles  map[string]string // query parameter → file that holds its value
	TokenFile   string            // file with a token: Authorization: Bearer …
	AllowHTTP   bool              // secrets may go over http to another machine

	CAFile    string // more certificate authorities, PEM
	UserAgent string // default "nightshift"

	ConnectTimeout time.Duration // 10 s: name, connection and TLS
	HeaderTimeout  time.Duration // 30 s: from the request to the answer's first byte
	StallTimeout   time.Duration // 30 s: silence within a body
	PageTimeout    time.Duration // 5 min: a whole page
	MaxPageBytes   int64         // 32 MiB, decompressed: a page is held in memory

	// Tries is how often one page is asked for before the task as a whole goes to
	// RETRYING: 3. A task has few retries (5), and none is given back for progress:
	// with one connection in a thousand cut, a fetch of 10,000 pages would die of
	// them. Three tries make that one in a thousand million.
	Tries int
	// MaxWait is the longest Retry-After that is waited for in place: 1 min. A
	// server that asks for patience between pages is no failure; for a longer wait
	// the slot is given back.
	MaxWait time.Duration
	// TryDelay is the pause before the second try, three times as long before the
	// third, and so on: 1 s.
	TryDelay time.Duration
}

// Defaults of Options.
const (
	DefaultUserAgent      = "nightshift"
	DefaultConnectTimeout = 10 * time.Second
	DefaultHeaderTimeout  = 30 * time.Second
	DefaultStallTimeout   = 30 * time.Second
	DefaultPageTimeout    = 5 * time.Minute
	DefaultMaxPageBytes   = 32 << 20
	DefaultTries          = 3
	DefaultMaxWait        = time.Minute
	DefaultTryDelay       = time.Second
)

func (o Options) withDefaults() Options {
	orDuration := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	orDuration(&o.ConnectTimeout, DefaultConnectTimeout)
	orDuration(&o.HeaderTimeout, DefaultHeaderTimeout)
	orDuration(&o.StallTimeout, DefaultStallTimeout)
	orDuration(&o.PageTimeout, DefaultPageTimeout)
	orDuration(&o.MaxWait, DefaultMaxWait)
	orDuration(&o.TryDelay, DefaultTryDelay)
	if o.MaxPageBytes == 0 {
		o.MaxPageBytes = DefaultMaxPageBytes
	}
	if o.Tries == 0 {
		o.Tries = DefaultTries
	}
	if o.UserAgent == "" {
		o.UserAgent = DefaultUserAgent
	}
	return o
}

// hasSecrets reports that something is sent along that the payload's author may
// not know.
func (o Options) hasSecrets() bool {
	return o.TokenFile != "" || len(o.HeaderFiles) > 0 || len(o.QueryFiles) > 0
}

func (o Options) check() error {
	if o.OutputDir == "" || !filepath.IsAbs(o.OutputDir) {
		return fmt.Errorf("output_dir %q: an absolute directory is needed", o.OutputDir)
	}
	// Without a list of hosts whoever may insert a task could have the token sent
	// to a server of their own.
	if o.hasSecrets() && len(o.Hosts) == 0 {
		return errors.New("hosts is empty, but a token, header_files or query_files are set: name the servers that may get them")
	}
	for _, h := range o.Hosts {
		if _, err := parseHost(h); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"connect_timeout", o.ConnectTimeout}, {"header_timeout", o.HeaderTimeout}, {"stall_timeout", o.StallTimeout},
		{"page_timeout", o.PageTimeout}, {"max_wait", o.MaxWait}, {"try_delay", o.TryDelay},
	} {
		if d.d < 0 {
			return fmt.Errorf("%s %s: less than nothing", d.name, d.d)
		}
	}
	if o.MaxPageBytes < 1 || o.MaxPageBytes > 1<<30 {
		return fmt.Errorf("max_page_bytes %d: between 1 byte and 1 GiB (a page is held in memory)", o.MaxPageBytes)
	}
	if o.Tries < 1 || o.Tries > 10 {
		return fmt.Errorf("tries %d: between 1 and 10", o.Tries)
	}
	return o.checkHeaders()
}

// ours are the headers that the handler sets itself, or that belong to the
// connection.
var ours = []string{"Accept-Encoding", "Connection", "Content-Length", "Host", "Transfer-Encoding", "Upgrade"}

func (o Options) checkHeaders() error {
	seen := map[string]string{}
	if o.TokenFile != "" {
		seen["Authorization"] = "token_file"
	}
	for _, set := range []struct {
		key     string
		headers map[string]string
	}{{"headers", o.Headers}, {"header_files", o.HeaderFiles}} {
		for _, name := range sortedKeys(set.headers) {
			canonical := textproto.CanonicalMIMEHeaderKey(name)
			if !token(name) {
				return fmt.Errorf("%s: %q is no name of a header", set.key, name)
			}
			for _, own := range ours {
				if canonical == own {
					return fmt.Errorf("%s: %s is set by the connection itself", set.key, own)
				}
			}
			if other, twice := seen[canonical]; twice {
				return fmt.Errorf("%s: %s is already set by %s", set.key, canonical, other)
			}
			seen[canonical] = set.key
		}
	}
	for name, value := range o.Headers {
		if strings.ContainsFunc(value, control) {
			return fmt.Errorf("headers: the value of %s holds a control character", name)
		}
		if h := textproto.CanonicalMIMEHeaderKey(name); h == "Authorization" || h == "Cookie" {
			return fmt.Errorf("headers: %s is a secret: put its value into a file of its own and name that in header_files", h)
		}
	}
	return nil
}

// host is one entry of hosts.
type host struct {
	name     string // lower case; without the star
	wildcard bool   // any name below
	port     string // "": the scheme's own; "*": any
}

func parseHost(s string) (host, error) {
	h := host{name: strings.ToLower(s)}
	if strings.ContainsAny(s, "/@?# ") || s == "" {
		return h, fmt.Errorf("hosts: %q is no server: write name, name:port, name:* or *.domain", s)
	}
	if i := strings.LastIndex(h.name, ":"); i >= 0 && !strings.HasSuffix(h.name, "]") {
		h.name, h.port = h.name[:i], h.name[i+1:]
	}
	h.name = strings.Trim(h.name, "[]")
	if rest, ok := strings.CutPrefix(h.name, "*."); ok {
		h.name, h.wildcard = rest, true
	}
	if h.name == "" || strings.Contains(h.name, "*") {
		return h, fmt.Errorf("hosts: %q is no server: write name, name:port, name:* or *.domain", s)
	}
	return h, nil
}

func (h host) matches(u *url.URL) bool {
	name := strings.ToLower(u.Hostname())
	if name != h.name && !(h.wildcard && strings.HasSuffix(name, "."+h.name)) {
		return false
	}
	if h.wildcard && name == h.name {
		return false
	}
	switch h.port {
	case "*":
		return true
	case "":
		return u.Port() == "" || u.Port() == defaultPort(u.Scheme)
	}
	return portOf(u) == h.port
}

// allows reports that u may be asked at all.
func (o Options) allows(u *url.URL) bool {
	if len(o.Hosts) == 0 {
		return true
	}
	for _, s := range o.Hosts {
		if h, err := parseHost(s); err == nil && h.matches(u) {
			return true
		}
	}
	return false
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return defaultPort(u.Scheme)
}

// sameOrigin reports that a secret which may go to a may go to b.
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("()<>@,;:\\\"/[]?={}", r)
	})
}

func control(r rune) bool { return r < 0x20 || r == 0x7f }

func sortedKeys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// bare is u for people: without query, which may hold what is nobody's business.
func bare(u *url.URL) string {
	c := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return c.String()
}

var _ http.RoundTripper = (*guard)(nil)
