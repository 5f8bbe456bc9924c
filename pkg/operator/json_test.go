package operator

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"nightshift/pkg/store"
)

// documented reads the tables of docs/json.md: heading → path → types.
func documented(t *testing.T) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("^\\| `([^`]+)` \\| ([a-z, ]+) \\|")
	pages := map[string]map[string]string{}
	heading := ""
	for _, line := range strings.Split(string(text), "\n") {
		if h, ok := strings.CutPrefix(line, "## "); ok {
			heading = h
			pages[heading] = map[string]string{}
		}
		if line == "Only `show`:" {
			heading = "show only"
			pages[heading] = map[string]string{}
		}
		if m := row.FindStringSubmatch(line); m != nil {
			pages[heading][m[1]] = m[2]
		}
	}
	return pages
}

// paths lists the values of a document by their path, each with the types seen.
func paths(prefix string, v any, seen map[string][]string) {
	note := func(kind string) {
		if prefix != "" && !slices.Contains(seen[prefix], kind) {
			seen[prefix] = append(seen[prefix], kind)
		}
	}
	switch v := v.(type) {
	case nil:
		note("null")
	case bool:
		note("boolean")
	case float64, json.Number:
		note("number")
	case string:
		note("string")
	case []any:
		note("array")
		for _, e := range v {
			paths(prefix+"[]", e, seen)
		}
	case map[string]any:
		note("object")
		for k, e := range v {
			p := k
			switch {
			case prefix == "counts":
				p = "counts.STATUS"
			case prefix != "":
				p = prefix + "." + k
			}
			paths(p, e, seen)
		}
	}
}

// leaf reports that a documented path says all about what lies below it.
func below(path string, pages map[string]string) bool {
	for p, kind := range pages {
		if (kind == "any" || p == "[].labels" || p == "owner" || p == "workers" || p == "[].next[]") && (strings.HasPrefix(path, p+".") || strings.HasPrefix(path, p+"[")) {
			return true
		}
	}
	return false
}

func compareShape(t *testing.T, name string, pages map[string]string, documents ...[]byte) {
	t.Helper()
	seen := map[string][]string{}
	for _, doc := range documents {
		var v any
		if err := json.Unmarshal(doc, &v); err != nil {
			t.Fatalf("%s is no JSON document: %v\n%s", name, err, doc)
		}
		paths("", v, seen)
	}
	var got []string
	for p, kinds := range seen {
		container := strings.HasSuffix(p, "[]") || slices.Equal(kinds, []string{"array"}) || slices.Equal(kinds, []string{"object"})
		kind, known := pages[p]
		switch {
		case below(p, pages):
		case !known && container:
		case !known:
			t.Errorf("%s: %s (%s) is not in docs/json.md", name, p, strings.Join(kinds, ", "))
		default:
			got = append(got, p)
			for _, k := range kinds {
				if kind != "any" && !slices.Contains(strings.Split(kind, ", "), k) {
					t.Errorf("%s: %s is a %s, documented as %s", name, p, k, kind)
				}
			}
		}
	}
	for p := range pages {
		if !slices.Contains(got, p) {
			t.Errorf("%s: docs/json.md has %s, which no document has", name, p)
		}
	}
}

// TestJSONShapesAreDocumented pins the documents of --json: what docs/json.md
// says is what is printed, no more, no less.
func TestJSONShapesAreDocumented(t *testing.T) {
	n := newNight(t)
	n.work()
	n.skips()
	pages := documented(t)
	doc := func(run func(d *Desk) error) []byte {
		t.Helper()
		d, out, _ := n.desk(0, 0)
		d.JSON = true
		if err := run(d); err != nil {
			if code := ExitCode(err); code >= 64 {
				t.Fatal(err)
			}
		}
		return out.Bytes()
	}
	id := func(i int) string { return fmt.Sprintf("20261201T100000.000-%016d", i) }

	compareShape(t, "list", prefixedPaths("[].", pages["list, show"]), doc(func(d *Desk) error { return d.List(ListOptions{}) }))
	show := map[string]string{}
	for _, part := range []string{"list, show", "show only"} {
		for p, kind := range pages[part] {
			show[p] = kind
		}
	}
	compareShape(t, "show", show, doc(func(d *Desk) error { return d.Show(id(1)) }), doc(func(d *Desk) error { return d.Show(id(3)) }), doc(func(d *Desk) error { return d.Show(id(7)) }))
	compareShape(t, "workers", pages["workers"], doc((*Desk).Workers))
	compareShape(t, "status", pages["status"], doc((*Desk).Status))
	compareShape(t, "why", pages["why"], doc(func(d *Desk) error { return d.Why(id(4)) }), doc(func(d *Desk) error { return d.Why("nightly@2026-11-28T18:00:00Z") }))
	compareShape(t, "wait", pages["wait"], doc(func(d *Desk) error { return d.Wait(t.Context(), WaitOptions{IDs: []string{id(1), id(3)}}) }))
	compareShape(t, "logs", pages["logs"], doc(func(d *Desk) error { return d.Logs(t.Context(), LogsOptions{ID: id(1)}) }))
	compareShape(t, "schedules", pages["schedules"], doc((*Desk).Schedules))
	compareShape(t, "schedules next", pages["schedules next, schedules simulate"], doc(func(d *Desk) error { return d.SchedulesNext("", "3") }))
	compareShape(t, "schedules simulate", pages["schedules next, schedules simulate"], doc(func(d *Desk) error { return d.SchedulesSimulate("nightly", "", "7d") }))
	compareShape(t, "metrics", pages["metrics"], doc(func(d *Desk) error { return d.Metrics("") }))
	compareShape(t, "drain", pages["drain"], doc((*Desk).DrainShow))
	compareShape(t, "version", pages["version"], doc(func(d *Desk) error { return d.ShowVersion("go1.26") }))
	var report map[string]json.RawMessage
	if err := json.Unmarshal(doc(func(d *Desk) error { return d.ShiftReport(t.Context(), ReportOptions{}) }), &report); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for key := range report {
		got = append(got, key)
	}
	for key := range pages["report"] {
		want = append(want, key)
	}
	sort.Strings(got)
	sort.Strings(want)
	if !slices.Equal(got, want) {
		t.Errorf("report: printed %q\ndocumented %q", got, want)
	}
	compareShape(t, "doctor", pages["doctor, db check, config check"], doc(func(d *Desk) error {
		return d.report([]Finding{{"disk", Well, "much room", ""}, {"disk", Bad, "no room", "make some"}})
	}))
}

func prefixedPaths(prefix string, pages map[string]string) map[string]string {
	out := map[string]string{}
	for p, kind := range pages {
		out[prefix+p] = kind
	}
	return out
}

// Every code of why is documented, and every documented code exists.
func TestCausesAreDocumented(t *testing.T) {
	source, err := os.ReadFile("why.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	var inCode, inDocs []string
	for _, m := range regexp.MustCompile(`(?:q\.add\(|Cause\{)"([a-z_]+)"`).FindAllStringSubmatch(string(source), -1) {
		inCode = append(inCode, m[1])
	}
	_, list, _ := strings.Cut(string(text), "\nCodes: ")
	list, _, _ = strings.Cut(list, "\n## ")
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(list, -1) {
		inDocs = append(inDocs, m[1])
	}
	sort.Strings(inCode)
	sort.Strings(inDocs)
	if inCode = slices.Compact(inCode); !slices.Equal(inCode, inDocs) {
		t.Errorf("in the code: %q\nin docs/json.md: %q", inCode, inDocs)
	}
}

// skips puts occurrences on record that did not run.
func (n *night) skips() {
	n.t.Helper()
	def, err := n.conf.Schedules["nightly"].Definition("nightly").Encode()
	n.must(err)
	n.must(n.store.SyncSchedules([]store.ScheduleDef{{Name: "nightly", Definition: def, Enabled: true}}, n.now))
	state, err := n.store.ScheduleState("nightly")
	n.must(err)
	from := midnight.AddDate(0, 0, -4).Truncate(24 * 3600e9).Add(18 * 3600e9)
	fired, err := n.store.FireOccurrences(store.Firing{
		Schedule: "nightly", Seen: state.ConsideredUntil, Until: n.now, High: n.now,
		Skips: []store.Skip{
			{Schedule: "nightly", Occurrence: from, Until: from.AddDate(0, 0, 1), Count: 2, Reason: "missed", Run: "nightly@2026-11-30T18:00:00Z"},
			{Schedule: "nightly", Occurrence: from.AddDate(0, 0, -1), Reason: "overlap"},
		},
	}, n.now)
	n.must(err)
	if !fired.Moved {
		n.t.Fatal("the schedule did not move")
	}
}
