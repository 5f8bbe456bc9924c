package config

import (
	"fmt"
	"reflect"
	"strings"
)

func valueOf(p any) reflect.Value { return reflect.ValueOf(p).Elem() }

// defaultWords is the default as it is told to people.
func (k *key) defaultWords() string {
	switch {
	case k.defText != "":
		return strings.ReplaceAll(k.defText, "`", "")
	case k.def != "":
		return k.def
	}
	return "none"
}

// exampleWords is a value that a person may write.
func (k *key) exampleWords() string {
	switch {
	case k.example != "":
		return k.example
	case k.def != "":
		return k.def
	}
	return "[…]"
}

// formWords describes what a key takes, with its bounds.
func (k *key) formWords() string {
	s := formNames[k.form]
	switch k.form {
	case choice:
		return strings.Join(k.choices, ", ")
	case choices:
		return s + " " + strings.Join(k.choices, ", ")
	case integer:
		if k.max == "9223372036854775807" {
			return s
		}
	}
	if k.min != "" && k.max != "" {
		s += ", " + k.min + " to " + k.max
		if k.zero != "" && k.min != "0" {
			s += ", or 0"
		}
	}
	return s
}

// Reference is docs/configuration.md, made from the table of keys.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	for i, k := range keys {
		if k.form == section || k.form == entries {
			if k.name == "tasks.*.retry" {
				continue // its two keys stand in the table of the type
			}
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", k.name, k.doc)
			tableHead(&b)
			continue
		}
		if i == 0 {
			b.WriteString("\n## Top level\n\n")
			tableHead(&b)
		}
		if k.name == "timeout" {
			fmt.Fprintf(&b, "\n## timeout\n\n")
			tableHead(&b)
		}
		def := "`" + k.def + "`"
		if k.defText != "" {
			def = k.defText
		} else if k.def == "" {
			def = "none"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s", strings.ReplaceAll(k.name, "*", "NAME"), k.formWords(), def, k.doc)
		if k.example != "" {
			fmt.Fprintf(&b, " Example: `%s`.", k.example)
		}
		b.WriteString(" |\n")
	}
	b.WriteString(referenceTail)
	return b.String()
}

func tableHead(b *strings.Builder) {
	b.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
}

const referenceHead = `# Configuration

<!-- Made from pkg/config/keys.go. Do not edit: go test ./pkg/config -run Reference -update -->

One YAML file. Every key has a default, so an absent file works. It is looked for at

1. ` + "`--config FILE`" + `
2. ` + "`$NIGHTSHIFT_CONFIG`" + `
3. ` + "`./nightshift.yaml`" + `
4. ` + "`/etc/nightshift/nightshift.yaml`" + `

and the first that is named or exists is read. Relative paths in it start at the
directory of the file. ` + "`nightshift config check`" + ` reads it as a worker would and
lists every mistake with line and column.

- A duration is ` + "`500ms`, `30s`, `5m`, `1h30m`, `30d`" + ` or ` + "`2w`" + `; a day is 24 hours.
- A size is ` + "`100B`, `64kB`, `50MB`, `10GB`" + ` (powers of 1,000) or ` + "`64KiB`, `50MiB`, `10GiB`" + ` (powers of 1,024).
- Anchors, aliases and merge keys of YAML work; unknown keys are errors.
- SIGHUP to the supervisor or to a worker reads the file again. A file with a
  mistake changes nothing: the old configuration stays in force and the log says why.
`

const referenceTail = `
## An example

` + "```yaml" + `
data_dir: ./data
worker: {slots: 2, drain_timeout: 1m}
log: {level: info, max_size: 50MB, max_backups: 10}
tasks:
  clean_csv:
    command: [python3, examples/clean_csv.py]
    timeout: 2h
    concurrency: 1
    env: {LANG: C.UTF-8}
  notify:
    command: [./notify.sh]
    timeout: 1m
schedules:
  nightly:
    cron: "0 2 * * *"
    zone: Asia/Shanghai
    task: render_report
    payload: {since: 24h}
hooks: {on: [FAILED, DEAD, slow], task: notify}
` + "```" + `
`
