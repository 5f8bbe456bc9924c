package fetchdata

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightshift/pkg/handler"
)

func TestPayloadsThatAreRefused(t *testing.T) {
	for payload, says := range map[string]string{
		`[]`:                                 "payload: a JSON object is wanted",
		`null`:                               "payload: a JSON object is wanted",
		`{}`:                                 "payload.url: is missing",
		`{"url":1.5e3}`:                      `payload.url: scheme ""`,
		`{"url":["x"]}`:                      "payload.url: a text is wanted",
		`{"URL":"http://x/"}`:                `unknown key "URL"; did you mean "url"?`,
		`{"url":"http://x/","ouput":"x"}`:    `unknown key "ouput"; did you mean "output"?`,
		`{"url":"http://x/","headers":{}}`:   `payload: unknown key "headers"`,
		`{"url":"ftp://x/"}`:                 `payload.url: scheme "ftp"`,
		`{"url":"http:///x"}`:                "payload.url: it names no server",
		`{"url":"http://u:pw@x/"}`:           "payload.url: it holds a user name or password",
		`{"url":"http://x:bad/"}`:            "payload.url: it can't be read",
		`{"url":"http://x/","max_pages":0}`:  "payload.max_pages: a whole number of at least 1",
		`{"url":"http://x/","max_items":-1}`: "payload.max_items: a whole number",
		`{"url":"http://x/","max_page_bytes":"1MB"}`:                                              "payload.max_page_bytes: a whole number",
		`{"url":"http://x/","query":{"a":[]}}`:                                                    "payload.query: an object of texts or numbers",
		`{"url":"http://x/","items":"a..b"}`:                                                      "payload.items: path \"a..b\" has an empty step",
		`{"url":"http://x/","paging":"link"}`:                                                     "payload.paging: a JSON object is wanted",
		`{"url":"http://x/","paging":{"mode":"curser"}}`:                                          `did you mean "cursor"?`,
		`{"url":"http://x/","paging":{"mod":"cursor"}}`:                                           `payload.paging: unknown key "mod"; did you mean "mode"?`,
		`{"url":"http://x/","paging":{"mode":"cursor","param":"c"}}`:                              "needs field",
		`{"url":"http://x/","paging":{"mode":"cursor","param":"c","field":"a","item_field":"b"}}`: "one of them",
		`{"url":"http://x/","paging":{"mode":"token","field":"a"}}`:                               "payload.paging.param: is missing",
		`{"url":"http://x/","paging":{"mode":"token","param":"a"}}`:                               "payload.paging.field: is missing",
		`{"url":"http://x/","paging":{"mode":"page","param":"p","start":"x"}}`:                    "needs a number",
		`{"url":"http://x/","paging":{"mode":"link","param":"p"}}`:                                `payload.paging.param: means nothing in mode "link"`,
		`{"url":"http://x/","output":"/etc/passwd"}`:                                              "payload.output: \"/etc/passwd\"",
		`{"url":"http://x/","output":"../x"}`:                                                     "payload.output",
		`{"url":"http://x/","output":"a/../../x"}`:                                                "payload.output",
		`{"url":"http://x/","output":"."}`:                                                        "payload.output",
		`{"url":"http://x/","output":"a/"}`:                                                       "payload.output",
		`{"url":"http://x/","output":"a\u0000b"}`:                                                 "control character",
		`{"url":"http://x/","output":"a\nb"}`:                                                     "control character",
	} {
		_, err := ParsePayload(json.RawMessage(payload))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, wanted %q", payload, err, says)
		}
	}
}

func TestNamesOfOutputs(t *testing.T) {
	for _, c := range []struct{ output, id, want string }{
		{"", "20261201T160405.123-0a1b2c3d4e", "20261201T160405.123-0a1b2c3d4e.jsonl"},
		{"", "../../etc/passwd", "_._.._etc_passwd.jsonl"},
		{"", "nightly@2026-12-01T02:00:00Z", "nightly@2026-12-01T02:00:00Z.jsonl"},
		{"", strings.Repeat("é", 120), strings.Repeat("_", 120) + ".jsonl"},
		{"a/b.jsonl", "x", "a/b.jsonl"},
		{"a/./b//c.jsonl", "x", "a/b/c.jsonl"},
		{"in/{id}.jsonl", "a/b", "in/a_b.jsonl"},
	} {
		p := &Payload{Output: c.output}
		if got := p.outputName(c.id); got != c.want {
			t.Errorf("output %q of %q: %q, wanted %q", c.output, c.id, got, c.want)
		}
	}
}

// TestSE05NothingIsWrittenOutside: neither a link to a directory nor one to a
// file leads out, in a fresh run, in a resumed one or at the end.
func TestSE05NothingIsWrittenOutside(t *testing.T) {
	url := pages(t, `[{"id":1}]`)
	outside := t.TempDir()
	target := filepath.Join(outside, "precious")
	if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		output string
		trap   func(dir string) error
	}{
		"a directory that is a link":  {"sub/out.jsonl", func(d string) error { return os.Symlink(outside, filepath.Join(d, "sub")) }},
		"a part file that is a link":  {"out.jsonl", func(d string) error { return os.Symlink(target, filepath.Join(d, "out.jsonl.part")) }},
		"a link by way of ..":         {"sub/out.jsonl", func(d string) error { return os.Symlink("../"+filepath.Base(outside), filepath.Join(d, "sub")) }},
		"a pipe that would hang":      {"out.jsonl", func(d string) error { return syscall.Mkfifo(filepath.Join(d, "out.jsonl.part"), 0o600) }},
		"a directory that is a file":  {"sub/out.jsonl", func(d string) error { return os.WriteFile(filepath.Join(d, "sub"), nil, 0o600) }},
		"an output that is a catalog": {"sub", func(d string) error { return os.Mkdir(filepath.Join(d, "sub.part"), 0o700) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, map[string]any{"url": url, "output": c.output})
			if err := c.trap(b.dir); err != nil {
				t.Fatal(err)
			}
			_, err := b.run(context.Background())
			wantFailure(t, err, true, "")
			checkUntouched(t, outside, target)
		})
	}
	b := newBench(t, map[string]any{"url": url, "output": "out.jsonl"})
	if err := os.Symlink(target, filepath.Join(b.dir, "out.jsonl")); err != nil {
		t.Fatal(err)
	}
	b.mustRun() // the link is replaced, not followed
	checkUntouched(t, outside, target)

	b = newBench(t, map[string]any{"url": url, "output": "out.jsonl"})
	b.mem.state = json.RawMessage(`{"file":"../precious","offset":0}`)
	_, err := b.run(context.Background())
	wantFailure(t, err, true, "outside")
}

func checkUntouched(t *testing.T, outside, target string) {
	t.Helper()
	content, err := os.ReadFile(target)
	if err != nil || string(content) != "precious" {
		t.Errorf("the target was touched: %q, %v", content, err)
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("something was made outside: %v, %v", entries, err)
	}
}

// TestFullDisk: a full disk is the machine's trouble, costs the task nothing and
// leaves no half line behind.
func TestFullDisk(t *testing.T) {
	b := newBench(t, map[string]any{"url": pages(t, `{"i":["`+strings.Repeat("x", 5000)+`"],"next":1}`, `{"i":["`+strings.Repeat("y", 5000)+`"]}`),
		"output": "out.jsonl", "paging": paging()})
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	// EFBIG stands in for ENOSPC: it needs no file system of its own.
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 8000, Max: old.Max}); err != nil {
		t.Skipf("no limit on file sizes here: %v", err)
	}
	_, err := b.run(context.Background())
	if rerr := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); rerr != nil {
		t.Fatal(rerr)
	}
	if err == nil || isFatal(err) {
		t.Fatalf("wanted a retryable error, not %v", err)
	}
	if got := len(b.output("out.jsonl.part")); got != 5003 {
		t.Errorf("%d bytes are left, wanted those of the first page", got)
	}
	if r := b.mustRun(); r.Items != 2 {
		t.Errorf("%+v", r)
	}
	var f *handler.Failure
	if full := outputTrouble(syscall.ENOSPC); !asFailure(full, &f) || !f.Worker {
		t.Errorf("ENOSPC is %+v, wanted the worker's trouble", full)
	}
}

func asFailure(err error, f **handler.Failure) bool {
	var ok bool
	*f, ok = err.(*handler.Failure)
	return ok
}

func TestOptionsThatAreRefused(t *testing.T) {
	for says, o := range map[string]Options{
		"output_dir":              {},
		"absolute":                {OutputDir: "rel"},
		"name the servers":        {OutputDir: "/x", TokenFile: "t"},
		"is no server":            {OutputDir: "/x", Hosts: []string{"https://x/"}},
		"is no name of a header":  {OutputDir: "/x", Headers: map[string]string{"a b": "c"}},
		"already set by":          {OutputDir: "/x", Hosts: []string{"x"}, TokenFile: "t", HeaderFiles: map[string]string{"authorization": "f"}},
		"is a secret":             {OutputDir: "/x", Headers: map[string]string{"cookie": "c"}},
		"set by the connection":   {OutputDir: "/x", Headers: map[string]string{"host": "c"}},
		"holds a control":         {OutputDir: "/x", Headers: map[string]string{"A": "c\r\nB: d"}},
		"less than nothing":       {OutputDir: "/x", MaxWait: -1},
		"between 1 and 10":        {OutputDir: "/x", Tries: 11},
		"between 1 byte and 1 Gi": {OutputDir: "/x", MaxPageBytes: 2 << 30},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, wanted %q", o, err, says)
		}
	}
}

func TestParseOptions(t *testing.T) {
	o, err := ParseOptions(map[string]any{
		"output_dir": "out", "hosts": []any{"a", "b:1"}, "headers": map[string]any{"A": "b"}, "header_files": map[string]any{"X": "s/x"},
		"query_files": map[string]any{"k": "/abs"}, "token_file": "s/t", "allow_http": true, "ca_file": "ca.pem", "user_agent": "me",
		"connect_timeout": "1s", "header_timeout": "2s", "stall_timeout": "3s", "page_timeout": "4m", "max_page_bytes": "2MiB",
		"tries": uint64(5), "max_wait": "90s", "try_delay": "10ms",
	}, "/etc/nightshift", "/data/output")
	if err != nil {
		t.Fatal(err)
	}
	want := Options{
		OutputDir: "/etc/nightshift/out", Hosts: []string{"a", "b:1"}, Headers: map[string]string{"A": "b"},
		HeaderFiles: map[string]string{"X": "/etc/nightshift/s/x"}, QueryFiles: map[string]string{"k": "/abs"}, TokenFile: "/etc/nightshift/s/t",
		AllowHTTP: true, CAFile: "/etc/nightshift/ca.pem", UserAgent: "me", ConnectTimeout: time.Second, HeaderTimeout: 2 * time.Second,
		StallTimeout: 3 * time.Second, PageTimeout: 4 * time.Minute, MaxPageBytes: 2 << 20, Tries: 5, MaxWait: 90 * time.Second, TryDelay: 10 * time.Millisecond,
	}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("got %+v\nwanted %+v", o, want)
	}
	if o, err := ParseOptions(nil, "/x", "/data/output"); err != nil || o.OutputDir != "/data/output" {
		t.Errorf("%+v, %v", o, err)
	}
	for says, section := range map[string]map[string]any{
		`unknown key "header_file"; did you mean "header_files"?`: {"header_file": map[string]any{}},
		"options.tries: a number is wanted, not many":             {"tries": "many"},
		"options.hosts: a list":                                   {"hosts": "a"},
		"options.stall_timeout: a duration":                       {"stall_timeout": 30},
		"options.max_page_bytes: a size":                          {"max_page_bytes": "lots"},
		"options.token_file: a path":                              {"token_file": ""},
	} {
		if _, err := ParseOptions(section, "/x", "/y"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, wanted %q", section, err, says)
		}
	}
}

// TestDocumentedKeys holds docs/fetch-data.md and the code together.
func TestDocumentedKeys(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/fetch-data.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```json schema\n(.*?)```").FindSubmatch(doc)
	if block == nil {
		t.Fatal("the schema is missing in docs/fetch-data.md")
	}
	type object struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Closed     *bool                      `json:"additionalProperties"`
	}
	var schema, pagingSchema object
	if err := json.Unmarshal(block[1], &schema); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(schema.Properties["paging"], &pagingSchema); err != nil {
		t.Fatal(err)
	}
	sameKeys(t, "payload", sortedKeys(schema.Properties), payloadKeys)
	sameKeys(t, "paging", sortedKeys(pagingSchema.Properties), pagingKeys)
	for _, k := range optionKeys {
		if !strings.Contains(string(doc), "`"+k+"`") {
			t.Errorf("the option %s is not documented", k)
		}
	}
}

func sameKeys(t *testing.T, what string, documented, known []string) {
	t.Helper()
	for _, k := range known {
		if !contains(documented, k) {
			t.Errorf("%s: %s is not documented", what, k)
		}
	}
	if len(documented) != len(known) {
		t.Errorf("%s: documented are %v, known are %v", what, documented, known)
	}
}
