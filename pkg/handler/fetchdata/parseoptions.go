package fetchdata

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// optionKeys are the keys of the type's `options:` section, in the order of the
// documentation.
var optionKeys = []string{
	"output_dir", "hosts", "headers", "header_files", "query_files", "token_file", "allow_http", "ca_file", "user_agent",
	"connect_timeout", "header_timeout", "stall_timeout", "page_timeout", "max_page_bytes", "tries", "max_wait", "try_delay",
}

// ParseOptions reads the `options:` section of a task type as the configuration
// hands it over. Relative paths start from base, the configuration file's
// directory. outputDir is where outputs go when the section names no output_dir.
func ParseOptions(section map[string]any, base, outputDir string) (Options, error) {
	o := Options{OutputDir: outputDir}
	r := optionReader{section: section, base: base}
	if err := unknownKey(sortedKeys(section), optionKeys, "options"); err != nil {
		return o, err
	}
	r.path("output_dir", &o.OutputDir)
	r.list("hosts", &o.Hosts)
	r.names("headers", &o.Headers, false)
	r.names("header_files", &o.HeaderFiles, true)
	r.names("query_files", &o.QueryFiles, true)
	r.path("token_file", &o.TokenFile)
	r.flag("allow_http", &o.AllowHTTP)
	r.path("ca_file", &o.CAFile)
	r.text("user_agent", &o.UserAgent)
	r.duration("connect_timeout", &o.ConnectTimeout)
	r.duration("header_timeout", &o.HeaderTimeout)
	r.duration("stall_timeout", &o.StallTimeout)
	r.duration("page_timeout", &o.PageTimeout)
	r.size("max_page_bytes", &o.MaxPageBytes)
	r.number("tries", &o.Tries)
	r.duration("max_wait", &o.MaxWait)
	r.duration("try_delay", &o.TryDelay)
	return o, r.err
}

// optionReader reads one key after the other and keeps the first mistake.
type optionReader struct {
	section map[string]any
	base    string
	err     error
}

func (r *optionReader) take(key, want string, read func(v any) bool) {
	v, given := r.section[key]
	if !given || r.err != nil {
		return
	}
	if !read(v) {
		r.err = fmt.Errorf("options.%s: %s is wanted, not %v", key, want, v)
	}
}

func (r *optionReader) text(key string, into *string) {
	r.take(key, "a text", func(v any) (ok bool) {
		*into, ok = v.(string)
		return ok
	})
}

func (r *optionReader) path(key string, into *string) {
	r.take(key, "a path", func(v any) bool {
		s, ok := v.(string)
		*into = r.absolute(s)
		return ok && s != ""
	})
}

func (r *optionReader) absolute(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.base, path)
}

func (r *optionReader) flag(key string, into *bool) {
	r.take(key, "true or false", func(v any) (ok bool) {
		*into, ok = v.(bool)
		return ok
	})
}

func (r *optionReader) list(key string, into *[]string) {
	r.take(key, "a list of texts", func(v any) bool {
		entries, ok := v.([]any)
		for _, e := range entries {
			s, isText := e.(string)
			ok = ok && isText
			*into = append(*into, s)
		}
		return ok
	})
}

func (r *optionReader) names(key string, into *map[string]string, paths bool) {
	r.take(key, "names with texts", func(v any) bool {
		entries, ok := v.(map[string]any)
		*into = map[string]string{}
		for name, e := range entries {
			s, isText := e.(string)
			ok = ok && isText
			if paths {
				ok = ok && s != ""
				s = r.absolute(s)
			}
			(*into)[name] = s
		}
		return ok
	})
}

func (r *optionReader) duration(key string, into *time.Duration) {
	r.take(key, "a duration such as 30s", func(v any) bool {
		s, ok := v.(string)
		d, err := time.ParseDuration(s)
		*into = d
		return ok && err == nil && d > 0
	})
}

func (r *optionReader) number(key string, into *int) {
	r.take(key, "a number", func(v any) bool {
		n, ok := integer(v)
		*into = int(n)
		return ok && n > 0 && n <= math.MaxInt32
	})
}

func (r *optionReader) size(key string, into *int64) {
	r.take(key, "a size such as 32MiB", func(v any) bool {
		n, ok := integer(v)
		if s, isText := v.(string); isText {
			n, ok = parseSize(s)
		}
		*into = n
		return ok && n > 0
	})
}

// integer accepts what YAML and JSON readers make of a whole number.
func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case uint64:
		return int64(n), n <= math.MaxInt64
	case float64:
		return int64(n), n == math.Trunc(n) && math.Abs(n) < 1<<53
	}
	return 0, false
}

// parseSize reads 1000, 64KiB, 32MB and the like.
func parseSize(s string) (int64, bool) {
	digits := strings.TrimRight(s, "BKMGi ")
	n, err := strconv.ParseInt(digits, 10, 64)
	units := map[string]int64{
		"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
	}
	unit, known := units[strings.TrimSpace(s[len(digits):])]
	if err != nil || !known || n < 0 || n > math.MaxInt64/unit {
		return 0, false
	}
	return n * unit, true
}

// unknownKey refuses the first key that is not in known, and names the nearest.
func unknownKey(keys, known []string, where string) error {
	for _, k := range keys {
		if !contains(known, k) {
			if near := nearest(k, known); near != "" {
				return fmt.Errorf("%s: unknown key %q; did you mean %q?", where, k, near)
			}
			return fmt.Errorf("%s: unknown key %q; known are %s", where, k, strings.Join(known, ", "))
		}
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// nearest is the candidate that a misspelt word most likely meant; "" when none
// is near: at most a third of its letters, and one, may differ.
func nearest(word string, candidates []string) string {
	best, least := "", 2+len(word)/3
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), c); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance is the number of letters to insert, drop or change (Levenshtein). A
// word longer than any key needs no exact answer.
func distance(a, b string) int {
	if len(a) > 40 {
		return len(a)
	}
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
