package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// part is one program that proves something, and how its output is read.
type part struct {
	name    string
	dir     string
	command []string
	figures []figure
	harm    *regexp.Regexp // of what must be 0; nil: the exit status says it all

	log  string
	out  string
	err  error
	took time.Duration
}

// figure is a number in a part's output, the last that matches.
type figure struct {
	what   string
	in     *regexp.Regexp
	wanted int
}

// do runs the part and keeps what it printed.
func (x *part) do(ctx context.Context, logs string) {
	x.log = filepath.Join(logs, strings.ReplaceAll(x.name, " ", "-")+".log")
	f, err := os.Create(x.log)
	if err != nil {
		x.err = err
		return
	}
	began := time.Now()
	fmt.Fprintf(os.Stderr, "proof: %s: %s\n", x.name, strings.Join(x.command, " "))
	c := exec.CommandContext(ctx, x.command[0], x.command[1:]...)
	c.Dir, c.Stdout, c.Stderr = x.dir, f, f
	// go run and go test pass no signal on: the whole group is told.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	x.err = c.Run()
	x.took = time.Since(began)
	if err := f.Close(); err != nil && x.err == nil {
		x.err = err
	}
	b, err := os.ReadFile(x.log)
	if err != nil && x.err == nil {
		x.err = err
	}
	x.out = string(b)
	fmt.Fprintf(os.Stderr, "proof: %s: %s after %v\n", x.name, x.how(), x.took.Round(time.Second))
}

func (x *part) how() string {
	if x.err != nil {
		return x.err.Error()
	}
	return "passed"
}

// found is a figure as the part printed it, "-" when it did not.
func (x *part) found(f figure) string {
	all := f.in.FindAllStringSubmatch(x.out, -1)
	if len(all) == 0 {
		return "-"
	}
	return all[len(all)-1][1]
}

// harmed counts what did not hold, "-" when the part does not say.
func (x *part) harmed() string {
	if x.harm == nil {
		if x.err != nil {
			return "yes"
		}
		return "0"
	}
	m := x.harm.FindStringSubmatch(x.out)
	if m == nil {
		return "-"
	}
	sum := 0
	for _, s := range m[1:] {
		k, err := strconv.Atoi(s)
		if err != nil {
			return s
		}
		sum += k
	}
	return strconv.Itoa(sum)
}

// wrong lists why the part proves nothing, or the opposite of what it should.
func (x *part) wrong() (all []string) {
	if x.err != nil {
		all = append(all, x.err.Error())
	}
	if h := x.harmed(); h != "0" && h != "yes" {
		all = append(all, "violations: "+h)
	}
	for _, f := range x.figures {
		got := x.found(f)
		if k, err := strconv.Atoi(got); err != nil || k < f.wanted {
			all = append(all, fmt.Sprintf("%s: %s, wanted %d", f.what, got, f.wanted))
		}
	}
	return all
}

// commit names what was proved.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
