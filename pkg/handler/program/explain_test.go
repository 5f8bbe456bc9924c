package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightshift/pkg/handler"
	"nightshift/pkg/task"
)

// badPrograms are the six of PR-04 and their kin. check: `config check` sees it.
func badPrograms(t *testing.T) map[string]struct {
	command []string
	says    string
} {
	t.Helper()
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) []string {
		path := filepath.Join(dir, name)
		write(t, path, text, mode)
		return []string{path}
	}
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	return map[string]struct {
		command []string
		says    string
	}{
		"no #! line":               {file("a", "echo hi\n", 0o755), "has no #! line"},
		"CR after the #! line":     {file("b", "#!/bin/sh\r\necho hi\r\n", 0o755), "ends in CR"},
		"byte order mark":          {file("c", "\xef\xbb\xbf#!/bin/sh\necho hi\n", 0o755), "byte order mark"},
		"env does not find it":     {file("d", "#!/usr/bin/env pythonX\n", 0o755), "program pythonX was not found in PATH"},
		"env with CR":              {file("e", "#!/usr/bin/env sh\r\n", 0o755), "ends in CR"},
		"interpreter missing":      {file("f", "#!/opt/none/python\n", 0o755), "interpreter /opt/none/python of"},
		"interpreter a directory":  {file("g", "#!/usr\n", 0o755), "is not executable"},
		"no x bit":                 {file("h", "#!/bin/sh\n", 0o644), "is not executable: chmod +x"},
		"no interpreter named":     {file("i", "#!\n", 0o755), "names no interpreter"},
		"empty":                    {file("j", "", 0o755), "is empty"},
		"#! line too long":         {file("k", "#!/bin/"+strings.Repeat("x", 300)+"\n", 0o755), "longer than"},
		"damaged":                  {file("l", "\x7fELFnonsense", 0o755), "damaged program file"},
		"does not exist":           {[]string{filepath.Join(dir, "none")}, "does not exist"},
		"a directory":              {[]string{dir}, "is a directory"},
		"a loop of links":          {[]string{filepath.Join(dir, "loop")}, "too many levels"},
		"not in PATH":              {[]string{"no-such-program"}, "was not found in PATH"},
		"relative, without a dir":  {[]string{"./script"}, "a relative path needs the type's dir"},
		"a file in place of a dir": {[]string{filepath.Join(dir, "a", "b")}, "not a directory"},
	}
}

func TestPR04WhatCannotBeExecutedIsExplained(t *testing.T) {
	for name, c := range badPrograms(t) {
		t.Run(name, func(t *testing.T) {
			try(t, c.command...).run().want(t, "fatal", c.says)
			if err := Check(Config{Command: c.command}); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Check says %v, want %q", err, c.says)
			}
		})
	}
}

func TestPR04GoodProgramsPassTheCheck(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "script"), "#!/usr/bin/env -S sh -e\n", 0o755)
	for _, c := range []Config{
		{Command: []string{"sh", "-c", "true"}},
		{Command: []string{script(t, "#!/bin/sh\n")}},
		{Command: []string{script(t, "#! /usr/bin/env sh\n")}},
		{Command: []string{"./script"}, Dir: dir},
		{Command: []string{"script"}, Env: map[string]string{"PATH": "/bin:" + dir}},
	} {
		if err := Check(c); err != nil {
			t.Errorf("%v: %v", c.Command, err)
		}
	}
	if err := Check(Config{Command: []string{"sh"}, Dir: filepath.Join(dir, "none")}); err == nil {
		t.Error("a missing dir passed")
	}
}

// The message stands alone: no errno is needed to understand it.
func TestPR04CommandMissingInAScript(t *testing.T) {
	try(t, script(t, "#!/bin/sh\nno-such-command\n")).run().want(t, "fatal", "exit 127 (a command was not found)")
	sh(t, "exec "+t.TempDir()).run().want(t, "fatal", "exit 126")
}

// A file that somebody writes to is tried again, and in the end is no failure of
// the task's (PR-12).
func TestPR12TextFileBusy(t *testing.T) {
	path := script(t, "#!/bin/sh\necho fresh\n")
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { w.Close() })
	try(t, path).run().wantResult(t, `"fresh"`)

	busy, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	try(t, path).run().want(t, "worker trouble", "with mv, not cp")
}

func TestPR11LimitsAreTheWorkersTrouble(t *testing.T) {
	for errno, says := range map[syscall.Errno]string{
		syscall.EAGAIN: "pids.max", syscall.EMFILE: "files open (ulimit -n", syscall.ENFILE: "fs.file-max", syscall.ENOMEM: "no memory",
	} {
		o := outcome{err: spawnFailure(errno, "/bin/x", "/", defaultPath)}
		o.Summary = o.err.Error()
		o.want(t, "worker trouble", says)
	}
}

// Out of descriptors for real: the task is not charged, and runs once there are some.
func TestPR11OutOfDescriptors(t *testing.T) {
	tr := try(t, testBinary(t))
	tr.cfg.Env = map[string]string{"PROGRAM_TEST_JOB": "few descriptors"}
	tr.run().wantResult(t, `"recovered"`)
}

func fewDescriptors() int {
	fail := func(args ...any) int { fmt.Println(args...); return 1 }
	r, err := NewReaper(ReaperOptions{Mark: "/x"})
	if err != nil {
		return fail(err)
	}
	defer r.Close()
	p, err := New(Config{Command: []string{"/bin/true"}, Reaper: r})
	if err != nil {
		return fail(err)
	}
	row := &task.Task{ID: "inner", Type: "test", Payload: "{}", ExecID: 1}
	dir, err := os.MkdirTemp("", "program-test")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	run := func() error {
		_, err := p.Run(context.Background(), handler.NewTask(row, dir, os.Stdout, &recorder{}, nil))
		return err
	}
	if err := run(); err != nil {
		return fail("with descriptors:", err)
	}
	limit := syscall.Rlimit{Cur: 100, Max: 100}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fail(err)
	}
	// Eat all but k, for every k that is too few for a program.
	var eaten []*os.File
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			break
		}
		eaten = append(eaten, f)
		if len(eaten) > 5000 {
			return fail("no limit in force")
		}
	}
	before := len(eaten)
	for k := range 7 {
		err := run()
		var f *handler.Failure
		if !errors.As(err, &f) || !f.Worker {
			return fail("with", k, "descriptors left:", err)
		}
		eaten[len(eaten)-1].Close()
		eaten = eaten[:len(eaten)-1]
	}
	for _, f := range eaten {
		f.Close()
	}
	if err := run(); err != nil {
		return fail("after recovery:", err)
	}
	// Nothing leaked in all that.
	eaten = eaten[:0]
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			break
		}
		eaten = append(eaten, f)
	}
	if len(eaten) < before {
		return fail("descriptors leaked:", before-len(eaten))
	}
	fmt.Println("recovered")
	return 0
}
