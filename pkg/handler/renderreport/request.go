package renderreport

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Request is what is asked for: the payload of a task, or the flags of
// `nightshift report`. Its zero value is the last twelve hours.
type Request struct {
	Since  string `json:"since"`  // a duration before Until ("12h", "7d") or a time; default 12h
	Until  string `json:"until"`  // a time; default: now
	Output string `json:"output"` // file below the output directory; {date}, {time} (of the window's end) and {id} are replaced
	Title  string `json:"title"`  // default "Shift report"
	Zone   string `json:"zone"`   // IANA name; default: the one of Options
}

// Defaults of a Request.
const (
	DefaultSince  = 12 * time.Hour
	DefaultTitle  = "Shift report"
	DefaultOutput = "shift-report-{date}-{time}.html"
)

// maxWindow keeps a slip of the pen ("120000h") from reading everything.
const maxWindow = 400 * 24 * time.Hour

var requestKeys = []string{"since", "until", "output", "title", "zone"}

// ParsePayload reads the payload of a render_report task. Its errors say which
// key is wrong.
func ParsePayload(raw json.RawMessage) (Request, error) {
	var r Request
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return r, fmt.Errorf("payload: a JSON object is wanted")
	}
	into := map[string]*string{"since": &r.Since, "until": &r.Until, "output": &r.Output, "title": &r.Title, "zone": &r.Zone}
	keys := make([]string, 0, len(fields))
	for k := range fields {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		field, known := into[k]
		if !known {
			if near := nearest(k, requestKeys); near != "" {
				return r, fmt.Errorf("payload: unknown key %q; did you mean %q?", k, near)
			}
			return r, fmt.Errorf("payload: unknown key %q; known are %s", k, strings.Join(requestKeys, ", "))
		}
		if err := json.Unmarshal(fields[k], field); err != nil {
			return r, fmt.Errorf("payload.%s: a text is wanted", k)
		}
	}
	if err := checkOutput(r.Output); err != nil {
		return r, fmt.Errorf("payload.%w", err)
	}
	return r, nil
}

// Window is the shift that is asked for, seen from now, with its zone.
func (r Request) Window(now time.Time, home *time.Location) (Window, *time.Location, error) {
	var w Window
	zone, err := r.zone(home)
	if err != nil {
		return w, nil, err
	}
	w.Until = now
	if r.Until != "" {
		if w.Until, err = moment(r.Until, zone); err != nil {
			return w, nil, fmt.Errorf("until: %w", err)
		}
	}
	w.Since = w.Until.Add(-DefaultSince)
	if r.Since != "" {
		d, isLength := length(r.Since)
		w.Since = w.Until.Add(-d)
		if !isLength {
			if w.Since, err = moment(r.Since, zone); err != nil {
				return w, nil, fmt.Errorf("since: %w", err)
			}
		}
	}
	w.Since, w.Until = w.Since.UTC().Truncate(time.Millisecond), w.Until.UTC().Truncate(time.Millisecond)
	switch {
	case !w.Since.Before(w.Until):
		return w, nil, fmt.Errorf("since: %q is not before until", r.Since)
	case w.Length() > maxWindow:
		return w, nil, fmt.Errorf("since: %q makes a report of more than %d days", r.Since, maxWindow/(24*time.Hour))
	}
	return w, zone, nil
}

func (r Request) zone(home *time.Location) (*time.Location, error) {
	if r.Zone == "" {
		return home, nil
	}
	// "Local" would be another one on another machine.
	zone, err := time.LoadLocation(r.Zone)
	if err != nil || r.Zone == "Local" {
		return nil, fmt.Errorf("zone: %q is no time zone; write Asia/Shanghai, Europe/Berlin, UTC", r.Zone)
	}
	return zone, nil
}

func (r Request) title() string {
	if r.Title == "" {
		return DefaultTitle
	}
	return cut(r.Title, 200)
}

// length reads "90m", "12h", "7d", "2w".
func length(s string) (time.Duration, bool) {
	for suffix, unit := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if digits, ok := strings.CutSuffix(s, suffix); ok {
			n, err := strconv.ParseInt(digits, 10, 32)
			return time.Duration(n) * unit, err == nil && n > 0
		}
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d > 0
}

// moment reads a time as people write it; without an offset it is one of zone.
func moment(s string, zone *time.Location) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time; write 2026-12-01T20:00:00Z, 2026-12-01 20:00, 2026-12-01", s)
}

func checkOutput(name string) error {
	switch {
	case name == "":
		return nil
	case strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return fmt.Errorf("output: %q holds a control character", name)
	case !filepath.IsLocal(name) || strings.HasSuffix(name, "/") || path.Clean(name) == ".":
		return fmt.Errorf("output: %q: a file below the output directory is wanted, and no .. in it", name)
	case len(name) > 1024:
		return fmt.Errorf("output: %d bytes, at most 1024 are allowed", len(name))
	}
	return nil
}

// outputName is the file of a task. Its id is someone's text and becomes part of
// a file's name: what is not plain is replaced.
func (r Request) outputName(w Window, zone *time.Location, taskID string) string {
	name := r.Output
	if name == "" {
		name = DefaultOutput
	}
	plain := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_@+:", c) {
			return c
		}
		return '_'
	}, taskID)
	end := w.Until.In(zone)
	name = strings.NewReplacer("{date}", end.Format("2006-01-02"), "{time}", end.Format("1504"), "{id}", plain[:min(len(plain), 200)]).Replace(name)
	return path.Clean(name)
}

// nearest is the candidate that a misspelt word most likely meant; "" when none
// is near: at most a third of its letters, and one, may differ.
func nearest(word string, candidates []string) string {
	best, least := "", 2+len(word)/3
	for _, c := range candidates {
		if d := distance(strings.ToLower(cut(word, 40)), c); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance is the number of letters to insert, drop or change (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := diagonal
			if a[i-1] != b[j-1] {
				change++
			}
			diagonal = row[j]
			row[j] = min(change, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

// OutputDir reads the `options:` section of the task type: it knows output_dir
// alone. A relative path starts from base, the configuration file's directory.
func OutputDir(section map[string]any, base, def string) (string, error) {
	dir := def
	for key, v := range section {
		s, isText := v.(string)
		switch {
		case key != "output_dir":
			return "", fmt.Errorf("options: unknown key %q; known is output_dir", key)
		case !isText || s == "":
			return "", fmt.Errorf("options.output_dir: a path is wanted, not %v", v)
		}
		dir = s
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(base, dir)
	}
	return dir, nil
}
