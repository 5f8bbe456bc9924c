package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// value fills v, a field of the key k, from a node; full is the key's name in
// the file.
func (d *decoder) value(k *key, full string, from *node, v reflect.Value) {
	problem := ""
	switch k.form {
	case text:
		var s string
		if s, problem = asText(from); problem == "" {
			v.SetString(s)
		}
	case path:
		problem = d.path(from, v)
	case choice:
		problem = setChoice(k, from, v)
	case integer:
		problem = setInteger(k, from, v)
	case boolean:
		problem = setBool(from, v)
	case duration:
		problem = setDuration(k, from, v)
	case size:
		problem = setSize(k, from, v)
	case octal:
		problem = setOctal(from, v)
	case words, choices, codes:
		d.list(k, full, from, v)
	case variables:
		d.variables(full, from, v)
	case document:
		d.document(full, from, v)
	case options:
		d.options(full, from, v)
	default:
		panic(fmt.Sprintf("config: key %s has form %d", k.name, k.form))
	}
	if problem != "" {
		d.fail(from.at, full, problem)
	}
}

// show names a node in an error: the value itself where there is one.
func show(n *node) string {
	switch n.kind {
	case mapNode, listNode, nullNode:
		return kindNames[n.kind]
	}
	s := n.text
	if len(s) > 80 {
		s = strings.ToValidUTF8(s[:80], "") + "…"
	}
	return strconv.Quote(s)
}

// asText takes any scalar as it was written: zone: 5 is the text 5.
func asText(n *node) (string, string) {
	switch n.kind {
	case textNode, numberNode, boolNode:
		if strings.ContainsRune(n.text, 0) {
			return "", "the text holds a NUL"
		}
		return n.text, ""
	}
	return "", show(n) + " stands where a text belongs"
}

func (d *decoder) path(n *node, v reflect.Value) string {
	s, problem := asText(n)
	switch {
	case problem != "":
		return problem
	case s == "":
		return "the path is empty"
	case strings.HasPrefix(s, "~"):
		return fmt.Sprintf("%q: ~ is not expanded; write the whole path", s)
	case strings.Contains(s, "$"):
		return fmt.Sprintf("%q: variables are not expanded; write the whole path", s)
	}
	v.SetString(absolute(d.base, s))
	return ""
}

func setChoice(k *key, n *node, v reflect.Value) string {
	s, problem := asText(n)
	if problem != "" {
		return problem
	}
	if !slices.Contains(k.choices, s) {
		return fmt.Sprintf("%q is not one of %s%s", s, strings.Join(k.choices, ", "), didYouMean(s, k.choices))
	}
	v.SetString(s)
	return ""
}

func setInteger(k *key, n *node, v reflect.Value) string {
	number := strings.ReplaceAll(n.text, "_", "")
	i, err := strconv.ParseInt(number, 10, 64)
	switch {
	case n.kind == textNode && n.quoted && err == nil:
		return fmt.Sprintf("%s is a text; write %s without quotes", show(n), number)
	case n.kind != numberNode || err != nil:
		return fmt.Sprintf("%s is no whole number; allowed is %s to %s", show(n), k.min, k.max)
	}
	if i < mustInt(k.min) || i > mustInt(k.max) {
		return k.outOfRange(n.text)
	}
	v.SetInt(i)
	return ""
}

func mustInt(s string) int64 {
	i, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic("config: bound " + s)
	}
	return i
}

func (k *key) outOfRange(value string) string {
	allowed := k.min + " to " + k.max
	if k.zero != "" && k.min != "0" {
		allowed += ", or 0 for " + k.zero
	}
	return fmt.Sprintf("%s is out of range; allowed is %s", value, allowed)
}

func setBool(n *node, v reflect.Value) string {
	if n.kind != boolNode {
		return show(n) + " is neither true nor false"
	}
	v.SetBool(strings.EqualFold(n.text, "true"))
	return ""
}

func setDuration(k *key, n *node, v reflect.Value) string {
	if n.kind != textNode && n.kind != numberNode {
		return fmt.Sprintf("%s is no duration; %s", show(n), durationHint)
	}
	t, err := ParseDuration(n.text)
	if err != nil {
		if f, bare := strconv.ParseFloat(n.text, 64); bare == nil && f >= 0 {
			return fmt.Sprintf("%s has no unit; %s", n.text, durationHint)
		}
		return err.Error()
	}
	low, high := mustDuration(k.min), mustDuration(k.max)
	if (t < low || t > high) && (t != 0 || k.zero == "") {
		return k.outOfRange(n.text)
	}
	v.SetInt(int64(t))
	return ""
}

func mustDuration(s string) time.Duration {
	d, err := ParseDuration(s)
	if err != nil {
		panic("config: bound " + err.Error())
	}
	return d
}

func setSize(k *key, n *node, v reflect.Value) string {
	if n.kind != textNode && n.kind != numberNode {
		return fmt.Sprintf("%s is no size; %s", show(n), sizeHint)
	}
	s, err := ParseSize(n.text)
	if err != nil {
		return err.Error()
	}
	low, errLow := ParseSize(k.min)
	high, errHigh := ParseSize(k.max)
	if errLow != nil || errHigh != nil {
		panic("config: bounds of " + k.name)
	}
	if (s < low || s > high) && (s != 0 || k.zero == "") {
		return k.outOfRange(n.text)
	}
	v.SetInt(s)
	return ""
}

// setOctal reads a umask: 022, 0o22 and "022" are the same.
func setOctal(n *node, v reflect.Value) string {
	s := strings.TrimPrefix(n.text, "0o")
	i, err := strconv.ParseInt(s, 8, 32)
	if n.kind != numberNode && n.kind != textNode || err != nil || i < 0 || i > 0o777 {
		return show(n) + " is no umask; write it in octal, such as 022 or 077"
	}
	v.SetInt(i)
	return ""
}

// list fills a slice of texts or exit statuses.
func (d *decoder) list(k *key, full string, from *node, v reflect.Value) {
	if from.kind != listNode {
		d.fail(from.at, full, listHint(k, from))
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, len(from.items))
	for _, item := range from.items {
		one, problem := listItem(k, item)
		if problem != "" {
			d.fail(item.at, full, problem)
			continue
		}
		if k.form != words && slices.ContainsFunc(asAny(out), func(o any) bool { return o == one.Interface() }) {
			d.fail(item.at, full, item.text+" stands twice in the list")
			continue
		}
		out = reflect.Append(out, one)
	}
	v.Set(out)
}

func asAny(v reflect.Value) []any {
	all := make([]any, v.Len())
	for i := range all {
		all[i] = v.Index(i).Interface()
	}
	return all
}

func listItem(k *key, n *node) (reflect.Value, string) {
	if k.form == codes {
		i, err := strconv.ParseInt(n.text, 10, 64)
		if n.kind != numberNode || err != nil || i < 1 || i > 255 {
			return reflect.Value{}, show(n) + " is no exit status; allowed is 1 to 255"
		}
		return reflect.ValueOf(int(i)), ""
	}
	s, problem := asText(n)
	if problem == "" && k.form == choices && !slices.Contains(k.choices, s) {
		problem = fmt.Sprintf("%q is not one of %s%s", s, strings.Join(k.choices, ", "), didYouMean(s, k.choices))
	}
	return reflect.ValueOf(s), problem
}

// listHint answers the commonest mistake, a command written as a shell line,
// with the list that it would be.
func listHint(k *key, from *node) string {
	if k.form == words && from.kind == textNode {
		if strings.ContainsAny(from.text, "|&;<>()$`\\\"'*?[]#~=%{}\n") {
			return fmt.Sprintf("%s is a shell line, and no shell reads it; put it into a script and write the script's name as a list: [./script.sh]", show(from))
		}
		return fmt.Sprintf("%s is a text; write it as a list: [%s]", show(from), strings.Join(strings.Fields(from.text), ", "))
	}
	return fmt.Sprintf("%s stands where a list belongs, such as %s", show(from), k.exampleWords())
}

// variables fills the environment of a program.
func (d *decoder) variables(full string, from *node, v reflect.Value) {
	if from.kind != mapNode {
		d.fail(from.at, full, show(from)+" stands where names with texts belong, such as {LANG: C.UTF-8}")
		return
	}
	m := make(map[string]string, len(from.pairs))
	for _, p := range from.pairs {
		s, problem := asText(p.value)
		switch {
		case strings.HasPrefix(p.key, "NIGHTSHIFT_"):
			problem = "names that begin with NIGHTSHIFT_ are set by the worker itself; choose another"
		case p.key == "" || strings.ContainsAny(p.key, "=\x00"):
			problem = fmt.Sprintf("%q cannot be the name of a variable", p.key)
		case p.value.kind == nullNode:
			problem = `no value is given; write "" for an empty one`
		}
		if problem != "" {
			d.fail(p.at, full+"."+p.key, problem)
			continue
		}
		m[p.key] = s
	}
	v.Set(reflect.ValueOf(m))
}

// isWordRune: letters and digits of any script, and _.
func isWordRune(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// plainNumber reads a YAML number that JSON does not know: 0x1f, 0o17, 1_000, .5, +3.
func plainNumber(s string) (string, bool) {
	clean := strings.ReplaceAll(s, "_", "")
	if i, err := strconv.ParseInt(clean, 0, 64); err == nil {
		return strconv.FormatInt(i, 10), true
	}
	if f, err := strconv.ParseFloat(clean, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return strconv.FormatFloat(f, 'g', -1, 64), true
	}
	return "", false
}
