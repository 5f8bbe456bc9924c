package config

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Parse reads the text of a configuration whose relative paths start at the
// absolute directory base; path is for messages only. It touches no file and no
// environment. See Load for handlers.
func Parse(path, base string, text []byte, handlers ...string) (*Config, error) {
	d := &decoder{file: path, base: base, errs: &Errors{}, places: map[string]place{}, failed: map[string]bool{}}
	c := &Config{base: base}
	if path != "" {
		c.Path = absolute(base, filepath.Base(path))
	}
	d.defaults(name{}, reflect.ValueOf(c).Elem())
	if !utf8.Valid(text) {
		d.fail(place{}, "", "the file is not valid UTF-8; save it as UTF-8")
		return nil, d.errs
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // a byte order mark: editors of Windows write one
	root := parseYAML(text, func(at place, problem string) { d.fail(at, "", problem) })
	if root != nil && root.kind != nullNode {
		d.section(name{}, root, reflect.ValueOf(c).Elem())
	}
	d.finish(c, handlers)
	if len(d.errs.List) > 0 {
		d.errs.sort()
		return nil, d.errs
	}
	return c, nil
}

// decoder fills a Config from nodes, by the `key` tags of its fields and the
// table of keys, and gathers every mistake it meets.
type decoder struct {
	file, base string
	errs       *Errors
	places     map[string]place // where each key that stands in the file is, by its full name
	failed     map[string]bool  // keys that a mistake was reported for
}

// name of a key: in full (tasks.clean.timeout), and in the table (tasks.*.timeout).
type name struct{ full, inTable string }

func (n name) sub(key string) name {
	if n.full == "" {
		return name{key, key}
	}
	return name{n.full + "." + key, n.inTable + "." + key}
}

func (n name) entry(key string) name { return name{n.full + "." + key, n.inTable + ".*"} }

func (d *decoder) fail(at place, key, problem string) {
	d.failed[key] = true
	d.errs.List = append(d.errs.List, &Error{File: d.file, Line: at.line, Column: at.column, Key: key, Problem: problem})
}

// failKey is fail for a key that may stand in the file or not; then its section
// is the place. A key that has been failed already is not failed again: what
// follows from a mistake is none of its own.
func (d *decoder) failKey(key, problem string) {
	if d.failed[key] {
		return
	}
	section := key
	for {
		at, stands := d.places[section]
		dot := strings.LastIndexByte(section, '.')
		if stands || dot < 0 {
			d.fail(at, key, problem)
			return
		}
		section = section[:dot]
	}
}

// stands reports that the key is written in the file.
func (d *decoder) stands(key string) bool {
	_, ok := d.places[key]
	return ok
}

// defaults fills every field below v that has a fixed default.
func (d *decoder) defaults(n name, v reflect.Value) {
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag.Get("key")
		if tag == "" {
			continue
		}
		k := keyTable[n.sub(tag).inTable]
		switch {
		case k.form == section:
			d.defaults(n.sub(tag), v.Field(i))
		case k.def != "":
			value := parseYAML([]byte(k.def), func(_ place, problem string) { panic("config: default of " + k.name + ": " + problem) })
			d.value(k, k.name, value, v.Field(i))
		}
	}
}

// section fills the struct v from a mapping.
func (d *decoder) section(n name, from *node, v reflect.Value) {
	if from.kind != mapNode {
		d.fail(from.at, n.full, fmt.Sprintf("%s stands where a section of keys belongs; write each key as `name: value` on a line of its own", show(from)))
		return
	}
	fields, known := map[string]reflect.Value{}, []string{}
	for i := range v.NumField() {
		if tag := v.Type().Field(i).Tag.Get("key"); tag != "" {
			fields[tag] = v.Field(i)
			known = append(known, tag)
		}
	}
	for _, p := range from.pairs {
		field, ok := fields[p.key]
		if !ok {
			d.unknown(n, p, known)
			continue
		}
		sub := n.sub(p.key)
		k := keyTable[sub.inTable]
		d.places[sub.full] = p.value.at
		switch {
		case p.value.kind == nullNode && (k.form == section || k.form == entries):
			// An empty section is one that has been commented out.
		case p.value.kind == nullNode && k.form != document:
			d.fail(p.at, sub.full, fmt.Sprintf("no value is given; leave the line out to get the default (%s)", k.defaultWords()))
		case k.form == section:
			d.section(sub, p.value, field)
		case k.form == entries:
			d.entries(sub, p.value, field)
		default:
			d.value(k, sub.full, p.value, field)
		}
	}
}

// entries fills a map of structs from a mapping whose keys are the user's names.
func (d *decoder) entries(n name, from *node, v reflect.Value) {
	if from.kind != mapNode {
		d.fail(from.at, n.full, fmt.Sprintf("%s stands where names with sections belong, such as `%s: {clean: {…}}`", show(from), n.full))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, p := range from.pairs {
		entry := n.entry(p.key)
		d.places[entry.full] = p.at
		if problem := badName(p.key); problem != "" {
			d.fail(p.at, n.full, fmt.Sprintf("%q is no name: %s", p.key, problem))
			continue
		}
		one := reflect.New(v.Type().Elem()).Elem()
		d.defaults(entry, one)
		if p.value.kind != nullNode {
			d.section(entry, p.value, one)
		}
		v.SetMapIndex(reflect.ValueOf(p.key), one)
	}
}

// unknown reports a key that does not exist, with the nearest one of its
// section, or with the section where a key of that name does exist.
func (d *decoder) unknown(n name, p pair, known []string) {
	where := "at the top level"
	if n.full != "" {
		where = "in " + n.full
	}
	hint := didYouMean(p.key, known)
	for i := 0; hint == "" && i < len(keys); i++ {
		if keys[i].name == p.key || strings.HasSuffix(keys[i].name, "."+p.key) {
			hint = fmt.Sprintf("; there is %s, does it belong there?", strings.ReplaceAll(keys[i].name, "*", "NAME"))
		}
	}
	if hint == "" {
		hint = "; known are " + strings.Join(known, ", ")
	}
	d.fail(p.at, "", fmt.Sprintf("unknown key %q %s%s", p.key, where, hint))
}

// absolute makes a path absolute from base.
func absolute(base, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}

// maxNameBytes leaves room for `@<time>` in the id of a schedule's task.
const maxNameBytes = 100

// badName says what is wrong with the name of a task type or schedule; "" is
// nothing. Names go into paths, ids and log lines, so they hold letters, digits,
// _ - and . only.
func badName(s string) string {
	if s == "" || len(s) > maxNameBytes {
		return fmt.Sprintf("it must have 1 to %d bytes", maxNameBytes)
	}
	for i, r := range s {
		switch {
		case isWordRune(r):
		case i > 0 && (r == '-' || r == '.'):
		case i == 0 && (r == '-' || r == '.'):
			return fmt.Sprintf("it cannot begin with %q", r)
		default:
			return fmt.Sprintf("%q is not allowed in it; use letters, digits, _ - and .", r)
		}
	}
	return ""
}
