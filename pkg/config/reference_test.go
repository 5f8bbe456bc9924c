package config

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md")

func TestReferenceIsCurrent(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "configuration.md")
	if *update {
		if err := os.WriteFile(file, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Reference() {
		t.Errorf("docs/configuration.md is stale; run: go test ./pkg/config -run Reference -update")
	}
}

func TestReferenceExampleIsValid(t *testing.T) {
	_, rest, found := strings.Cut(Reference(), "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the reference has no example")
	}
	parse(t, example)
}

// The table and the structs are one: no key without a field, no field without a key.
func TestTableAndFieldsAgree(t *testing.T) {
	var fields []string
	var walk func(prefix string, typ reflect.Type)
	walk = func(prefix string, typ reflect.Type) {
		for i := range typ.NumField() {
			tag := typ.Field(i).Tag.Get("key")
			if tag == "" {
				continue
			}
			full := strings.TrimPrefix(prefix+"."+tag, ".")
			fields = append(fields, full)
			switch ft := typ.Field(i).Type; {
			case ft.Kind() == reflect.Struct:
				walk(full, ft)
			case ft.Kind() == reflect.Map && ft.Elem().Kind() == reflect.Struct:
				walk(full+".*", ft.Elem())
			}
		}
	}
	walk("", reflect.TypeFor[Config]())
	var table []string
	for _, k := range keys {
		table = append(table, k.name)
		if k.doc == "" {
			t.Errorf("%s has no doc", k.name)
		}
	}
	sort.Strings(fields)
	sort.Strings(table)
	if !reflect.DeepEqual(fields, table) {
		t.Errorf("fields and table differ:\n%v\n%v", fields, table)
	}
}

// Every example of the table is a value that the key takes.
func TestExamplesAreValid(t *testing.T) {
	for _, k := range keys {
		if k.example == "" {
			continue
		}
		top, key, _ := strings.Cut(strings.ReplaceAll(k.name, ".*.", "."), ".")
		entry := map[string]string{
			"tasks.command": "", "tasks.builtin": "", "schedules.cron": "task: fetch_data, ", "schedules.every": "task: fetch_data, ",
			"schedules.task": "every: 1h, ", "schedules.zone": "task: fetch_data, cron: '@daily', ", "schedules.payload": "task: fetch_data, every: 1h, ",
			"tasks.options": "builtin: fetch_data, ",
		}[top+"."+key]
		if entry == "" && top == "tasks" && key != "command" && key != "builtin" {
			entry = "command: [a], "
		}
		text := top + ": {n: {" + entry + key + ": " + k.example + "}}\n"
		if top == "hooks" {
			text = "hooks: {" + key + ": " + k.example + "}\ntasks: {notify: {command: [a]}}\n"
		}
		if got := mistakes(t, text); got != "" {
			t.Errorf("example of %s:\n%s%s", k.name, text, got)
		}
	}
}
