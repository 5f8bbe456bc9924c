package fetchdata

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// maxPathSteps bounds a path; APIs nest three or four deep.
const maxPathSteps = 32

// splitPath reads a path into JSON: "data.items", "data.0.id", or a JSON Pointer
// (RFC 6901) when it begins with a slash, for keys that hold a dot.
func splitPath(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	steps := strings.Split(path, ".")
	if pointer, ok := strings.CutPrefix(path, "/"); ok {
		steps = strings.Split(pointer, "/")
		for i, s := range steps {
			steps[i] = strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
		}
	} else if contains(steps, "") {
		return nil, fmt.Errorf("path %q has an empty step; write data.items, or /data/items for keys with a dot", path)
	}
	if len(steps) > maxPathSteps {
		return nil, fmt.Errorf("path %q has %d steps, at most %d are allowed", path, len(steps), maxPathSteps)
	}
	return steps, nil
}

// lookup follows a path through raw, which is valid JSON, and returns the very
// bytes that stand there: a 64-bit number keeps its digits.
func lookup(raw json.RawMessage, path string) (json.RawMessage, bool) {
	steps, err := splitPath(path)
	if err != nil {
		return nil, false // checked with the payload; a path saved in a checkpoint came from there
	}
	for _, step := range steps {
		var ok bool
		if raw, ok = member(raw, step); !ok {
			return nil, false
		}
	}
	return raw, true
}

func member(raw json.RawMessage, step string) (json.RawMessage, bool) {
	switch kind(raw) {
	case '{':
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return nil, false
		}
		v, ok := object[step]
		return v, ok
	case '[':
		var array []json.RawMessage
		i, err := strconv.Atoi(step)
		if err != nil || json.Unmarshal(raw, &array) != nil || i < 0 || i >= len(array) {
			return nil, false
		}
		return array[i], true
	}
	return nil, false
}

// kind is the first byte of a value: { [ " t f n, a digit or a minus; 0 for none.
func kind(raw json.RawMessage) byte {
	for _, c := range raw {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 0
}

// scalar is a text's content, or a number as it is written. Anything else is none.
func scalar(raw json.RawMessage) (string, bool) {
	switch c := kind(raw); {
	case c == '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return "", false
		}
		return s, true
	case c == '-' || c >= '0' && c <= '9':
		return strings.TrimSpace(string(raw)), true
	}
	return "", false
}
