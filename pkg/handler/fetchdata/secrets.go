package fetchdata

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sort"
	"strconv"
	"strings"
)

// maxSecretBytes is far beyond any token; servers refuse headers of 8 to 16 KiB.
const maxSecretBytes = 16 << 10

// secrets are what the configuration adds to a request, read from its files for
// this execution, and what is needed to keep them out of everything else.
type secrets struct {
	header http.Header // all configured headers, the plain ones too
	query  url.Values
	forms  []string // every way in which a secret might turn up in a text
	hide   *strings.Replacer
}

func readSecrets(o Options) (*secrets, error) {
	s := &secrets{header: http.Header{}, query: url.Values{}}
	for name, value := range o.Headers {
		s.header.Set(name, value)
	}
	for _, name := range sortedKeys(o.HeaderFiles) {
		value, err := s.read("header_files."+name, o.HeaderFiles[name])
		if err != nil {
			return nil, err
		}
		s.header.Set(name, value)
	}
	for _, name := range sortedKeys(o.QueryFiles) {
		value, err := s.read("query_files."+name, o.QueryFiles[name])
		if err != nil {
			return nil, err
		}
		s.query.Set(name, value)
	}
	if o.TokenFile != "" {
		value, err := s.read("token_file", o.TokenFile)
		if err != nil {
			return nil, err
		}
		s.header.Set("Authorization", "Bearer "+value)
	}
	s.seal()
	return s, nil
}

// read reads one secret. Its errors name the file, never what is in it.
func (s *secrets) read(key, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("options.%s: %w", key, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("options.%s: %w", key, err)
	}
	value := strings.Trim(string(b), " \t\r\n")
	switch {
	case len(b) > maxSecretBytes:
		return "", fmt.Errorf("options.%s: %s is larger than %d bytes", key, path, maxSecretBytes)
	case value == "":
		return "", fmt.Errorf("options.%s: %s is empty", key, path)
	case strings.ContainsFunc(value, control):
		return "", fmt.Errorf("options.%s: %s holds a line break or another control character", key, path)
	}
	s.learn(value)
	return value, nil
}

// learn notes the forms of one value: as it is, without the word before it
// ("Bearer x"), as the user and password it may encode ("Basic …").
func (s *secrets) learn(value string) {
	s.forms = append(s.forms, value)
	scheme, rest, found := strings.Cut(value, " ")
	if !found {
		return
	}
	s.forms = append(s.forms, strings.TrimSpace(rest))
	if strings.EqualFold(scheme, "basic") {
		if pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil {
			_, password, _ := strings.Cut(string(pair), ":")
			s.forms = append(s.forms, string(pair), password)
		}
	}
}

// minSecretBytes: a shorter form would hide half of every text and protect nobody.
const minSecretBytes = 4

// seal adds the spellings in which texts carry a form: escaped for an address,
// for JSON, for Go's %q.
func (s *secrets) seal() {
	all := map[string]bool{}
	for _, f := range s.forms {
		quoted, err := json.Marshal(f)
		if err != nil {
			quoted = []byte(`""`)
		}
		goQuoted := strconv.Quote(f)
		for _, v := range []string{
			f, url.QueryEscape(f), url.PathEscape(f), string(quoted[1 : len(quoted)-1]), goQuoted[1 : len(goQuoted)-1],
			base64.StdEncoding.EncodeToString([]byte(f)),
		} {
			if len(v) >= minSecretBytes {
				all[v] = true
			}
		}
	}
	s.forms = sortedKeys(all)
	// The longest first, or a part would hide the whole that holds it.
	sort.SliceStable(s.forms, func(i, j int) bool { return len(s.forms[i]) > len(s.forms[j]) })
	pairs := make([]string, 0, 2*len(s.forms))
	for _, f := range s.forms {
		pairs = append(pairs, f, "[hidden]")
	}
	s.hide = strings.NewReplacer(pairs...)
}

// redact replaces every known form of a secret.
func (s *secrets) redact(text string) string { return s.hide.Replace(text) }

// in reports that text holds a secret.
func (s *secrets) in(text string) bool {
	for _, f := range s.forms {
		if strings.Contains(text, f) {
			return true
		}
	}
	return false
}

// keepOut makes a position fit for a checkpoint: a server that repeats our
// secret parameters in its links gets them again with the request, not from the
// database.
func (s *secrets) keepOut(position string, mode Mode) (string, error) {
	if mode == ModeLink && len(s.query) > 0 {
		if u, err := url.Parse(position); err == nil {
			position = s.without(u).String()
		}
	}
	if s.in(position) {
		return "", errors.New("the server put a configured secret into the position of the next page; it can't be saved")
	}
	return position, nil
}

// without is u less the parameters that query_files name.
func (s *secrets) without(u *url.URL) *url.URL {
	c := *u
	q := c.Query()
	removed := false
	for name := range s.query {
		removed = removed || q.Has(name)
		q.Del(name)
	}
	if removed {
		c.RawQuery = q.Encode()
	}
	return &c
}

// guard is the one place where secrets join a request: the http.Client above it
// never sees them, so that no redirect and no Referer can carry them on.
type guard struct {
	base      http.RoundTripper
	origin    *url.URL
	secrets   *secrets
	userAgent string
}

// RoundTrip sends one request, with what is configured if it goes to the server
// that the task names.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header = http.Header{}
	if sameOrigin(req.URL, g.origin) {
		req.URL = g.secrets.without(req.URL)
		q := req.URL.Query()
		for name, values := range g.secrets.query {
			q[name] = values
		}
		if len(g.secrets.query) > 0 {
			req.URL.RawQuery = q.Encode()
		}
		req.Header = g.secrets.header.Clone()
	} else {
		req.URL = g.secrets.without(req.URL)
		if g.secrets.in(req.URL.String()) {
			return nil, &refusal{fmt.Sprintf("an address at %s holds a configured secret", req.URL.Host)}
		}
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", g.userAgent)
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	req.Header.Set("Accept-Encoding", "gzip")
	return g.base.RoundTrip(req)
}

// refusal is a request that we do not make; no retry changes it.
type refusal struct{ msg string }

func (e *refusal) Error() string { return e.msg }
