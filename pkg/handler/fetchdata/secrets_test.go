package fetchdata

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	theToken = "tok-s3cr3t/with+odd=\"chars\""
	theKey   = "k3y s3cr3t&more"
	theParam = "par4m?s3cr3t"
)

// armed gives a bench every kind of secret, bound to the given servers.
func armed(t *testing.T, b *bench, urls ...string) {
	t.Helper()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	b.options.TokenFile = file("token", theToken+"\n")
	b.options.HeaderFiles = map[string]string{"x-api-key": file("key", "  "+theKey+"\r\n")}
	b.options.QueryFiles = map[string]string{"apikey": file("param", theParam)}
	b.options.Headers = map[string]string{"Accept-Language": "en"}
	for _, u := range urls {
		b.options.Hosts = append(b.options.Hosts, strings.TrimPrefix(u, "http://"))
	}
}

// checkSilent looks for any form of a secret in everything that stays behind.
func checkSilent(t *testing.T, b *bench, err error) {
	t.Helper()
	places := map[string]string{"the log": b.mem.logged(), "the checkpoint": string(b.mem.state), "the error": fmt.Sprint(err)}
	files, globErr := filepath.Glob(filepath.Join(b.dir, "*"))
	if globErr != nil {
		t.Fatal(globErr)
	}
	for _, f := range files {
		places[f] = b.output(filepath.Base(f))
	}
	for place, text := range places {
		for _, s := range []string{theToken, theKey, theParam} {
			for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s), base64.StdEncoding.EncodeToString([]byte(s)), strings.ReplaceAll(s, `"`, `\"`)} {
				if strings.Contains(text, form) {
					t.Errorf("%s holds %q:\n%s", place, form, text)
				}
			}
		}
	}
}

func got(r *http.Request) string {
	return fmt.Sprintf("%s|%s|%s|%s", r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), r.URL.Query().Get("apikey"), r.Header.Get("Accept-Language"))
}

var (
	allOfThem = "Bearer " + theToken + "|" + theKey + "|" + theParam + "|en"
	nothing   = "|||"
)

// TestSE04SecretsStayWhereTheyBelong: they reach the server, and turn up nowhere
// else, though the server repeats them in its links, its errors and its headers.
func TestSE04SecretsStayWhereTheyBelong(t *testing.T) {
	for name, misdeed := range map[string]func(w http.ResponseWriter, r *http.Request){
		"repeated in the next link": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("page") == "" {
				w.Header().Set("Link", "</items?page=2&"+r.URL.RawQuery+`>; rel="next"`)
			}
			_, _ = w.Write([]byte("[1]"))
		},
		"repeated in a 400": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, "{%q:%q, %q:%q}", "you said", got(r), "at", r.URL.String())
		},
		"repeated in a 503, thrice": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintf(w, "%s%s", strings.Repeat("x", 190), got(r))
		},
		"repeated in an address that can't be read": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://[bad/"+r.Header.Get("X-Api-Key"))
			w.WriteHeader(http.StatusFound)
		},
		"repeated in the cursor": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</items?cursor="+url.QueryEscape(r.Header.Get("X-Api-Key"))+`>; rel="next"`)
			_, _ = w.Write([]byte("[1]"))
		},
		"repeated in the content type": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", `x/y-`+r.URL.Query().Get("apikey"))
			_, _ = w.Write([]byte("no JSON"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				if g := got(r); g != allOfThem {
					t.Errorf("the server got %q", g)
				}
				misdeed(w, r)
			}))
			b := newBench(t, map[string]any{"url": url + "/items"})
			armed(t, b, url)
			_, err := b.run(context.Background())
			checkSilent(t, b, err)
			if asked == 0 {
				t.Error("nothing was asked")
			}
		})
	}
}

// TestRedirectsCarryNoSecrets: not to another server, not in a Referer, not as a
// parameter; and the first server gets them again after a way back.
func TestRedirectsCarryNoSecrets(t *testing.T) {
	var home string
	stranger := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g := got(r); g != nothing {
			t.Errorf("the other server got %q", g)
		}
		if ref := r.Header.Get("Referer"); ref != "" {
			t.Errorf("the other server got a Referer %q", ref)
		}
		switch r.URL.Path {
		case "/back":
			http.Redirect(w, r, home+"/end", http.StatusFound)
		default:
			_, _ = w.Write([]byte("[1]"))
		}
	}))
	home = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g := got(r); g != allOfThem {
			t.Errorf("the server got %q", g)
		}
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, stranger+"/there?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
		case "/return":
			http.Redirect(w, r, stranger+"/back", http.StatusFound)
		case "/leak":
			http.Redirect(w, r, stranger+"/"+url.PathEscape(r.Header.Get("X-Api-Key")), http.StatusFound)
		case "/link":
			w.Header().Set("Link", "<"+stranger+`/page2>; rel="next"`)
			_, _ = w.Write([]byte("[1]"))
		default:
			_, _ = w.Write([]byte("[1]"))
		}
	}))
	for path, fails := range map[string]bool{"/away": false, "/return": false, "/link": false, "/leak": true} {
		t.Run(path, func(t *testing.T) {
			b := newBench(t, map[string]any{"url": home + path})
			armed(t, b, home, stranger)
			_, err := b.run(context.Background())
			if fails != (err != nil) {
				t.Errorf("error %v, wanted one: %v", err, fails)
			}
			checkSilent(t, b, err)
		})
	}
}

func TestServersThatAreNotAllowed(t *testing.T) {
	stranger := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other server was asked") }))
	home := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, stranger, http.StatusFound)
		case "/link":
			w.Header().Set("Link", "<"+stranger+`>; rel="next"`)
			_, _ = w.Write([]byte("[1]"))
		case "/scheme":
			w.Header().Set("Link", `<file:///etc/passwd>; rel="next"`)
			_, _ = w.Write([]byte("[1]"))
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		}
	}))
	name := strings.TrimPrefix(home, "http://")
	for _, c := range []struct {
		url   string
		hosts []string
		says  string
	}{
		{stranger, []string{name}, "is not among the configured hosts"},
		{home + "/redirect", []string{name}, "not among the configured hosts"},
		{home + "/link", []string{name}, "another server"},
		{home + "/link", nil, "another server"},
		{home + "/scheme", nil, "no address of a server"},
		{home + "/loop", nil, "more than 10 redirects"},
	} {
		b := newBench(t, map[string]any{"url": c.url})
		b.options.Hosts = c.hosts
		_, err := b.run(context.Background())
		wantFailure(t, err, true, c.says)
	}
}

func TestSecretsDoNotTravelInTheClear(t *testing.T) {
	b := newBench(t, map[string]any{"url": "http://api.example.invalid/items"})
	armed(t, b, "api.example.invalid")
	_, err := b.run(context.Background())
	wantFailure(t, err, true, "in the clear")
}

func TestSecretFiles(t *testing.T) {
	url := pages(t, "[]")
	for name, c := range map[string]struct {
		content string
		says    string
	}{
		"empty":         {"\n", "is empty"},
		"two lines":     {"a\nb", "line break"},
		"far too large": {strings.Repeat("x", maxSecretBytes+1), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, map[string]any{"url": url})
			armed(t, b, url)
			if err := os.WriteFile(b.options.TokenFile, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := b.run(context.Background())
			wantFailure(t, err, false, c.says)
		})
	}
	b := newBench(t, map[string]any{"url": url})
	armed(t, b, url)
	b.options.TokenFile = filepath.Join(b.dir, "none")
	_, err := b.run(context.Background())
	wantFailure(t, err, false, "options.token_file: open ")
}

// TestRotatedToken: the next execution reads the file anew.
func TestRotatedToken(t *testing.T) {
	want := theToken
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+want {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte("[]"))
	}))
	b := newBench(t, map[string]any{"url": url})
	armed(t, b, url)
	b.mustRun()
	want = "another"
	if err := os.WriteFile(b.options.TokenFile, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
	b.mem.state = nil
	b.mustRun()
}

func TestTLSWithOurOwnAuthority(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// As behind a proxy that ends TLS: the link says http.
		if r.URL.RawQuery == "" {
			w.Header().Set("Link", "<http://"+r.Host+`/?page=2>; rel="next"`)
		}
		if r.URL.Path == "/down" {
			http.Redirect(w, r, "http://"+r.Host+"/", http.StatusFound)
		}
		_, _ = w.Write([]byte("[1]"))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it tells of each handshake that we refuse
	server.StartTLS()
	t.Cleanup(server.Close)
	b := newBench(t, map[string]any{"url": server.URL})
	_, err := b.run(context.Background())
	wantFailure(t, err, false, "certificate")

	b.options.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(b.options.CAFile, block, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := b.mustRun(); r.Pages != 2 {
		t.Errorf("%d pages, wanted 2", r.Pages)
	}

	b = newBench(t, map[string]any{"url": server.URL + "/down"})
	b.options.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(b.options.CAFile, block, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = b.run(context.Background())
	wantFailure(t, err, true, "from https to http")

	if err := os.WriteFile(b.options.CAFile, []byte("no pem"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = b.run(context.Background())
	wantFailure(t, err, false, "no certificate in PEM form")
}

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		hosts string
		url   string
		want  bool
	}{
		{"api.example.com", "https://api.example.com/x", true},
		{"api.example.com", "https://API.Example.com:443/x", true},
		{"api.example.com", "http://api.example.com/x", true},
		{"api.example.com", "https://api.example.com:8443/x", false},
		{"api.example.com:8443", "https://api.example.com:8443/x", true},
		{"api.example.com:8443", "https://api.example.com/x", false},
		{"api.example.com:*", "https://api.example.com:1/x", true},
		{"*.example.com", "https://a.b.example.com/", true},
		{"*.example.com", "https://example.com/", false},
		{"*.example.com", "https://badexample.com/", false},
		{"example.com", "https://api.example.com/", false},
		{"[::1]:8080", "http://[::1]:8080/", true},
		{"[::1]", "http://[::1]/", true},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := (Options{Hosts: []string{c.hosts}}).allows(u); got != c.want {
			t.Errorf("%s allows %s: %v", c.hosts, c.url, got)
		}
	}
}
