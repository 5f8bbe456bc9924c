package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"nightshift/pkg/handler"
	"nightshift/pkg/handler/program/client"
)

// clientJob is `nightshift checkpoint put|get` and `still-mine` as the tests need them.
func clientJob() int {
	c, err := client.Connect()
	if err != nil {
		fmt.Println(err)
		return 66
	}
	switch os.Args[1] {
	case "put":
		err = c.Put([]byte(os.Args[2]), os.Args[3])
	case "get":
		var state []byte
		if state, err = c.Get(); err == nil {
			fmt.Printf("%s\n", state)
		}
	case "still-mine":
		err = c.StillMine()
	case "count":
		for n, _ := strconv.Atoi(os.Args[2]); n > 0 && err == nil; n-- {
			err = c.Put([]byte(strconv.Itoa(n)), "")
		}
	}
	var stop *client.Stop
	switch {
	case errors.As(err, &stop):
		fmt.Println(err)
		return 75
	case err != nil:
		fmt.Println(err)
		return 1
	}
	return 0
}

func ns(t *testing.T, script string) *trial {
	tr := sh(t, `ns() { PROGRAM_TEST_JOB=client "$NS" "$@"; }`+"\n"+script)
	tr.cfg.Env = map[string]string{"NS": testBinary(t)}
	return tr
}

func TestCommandsSpeakForTheProgram(t *testing.T) {
	tr := ns(t, `ns put '{
		"id": 9007199254740993, "s": "a\nb"}' 'half way ☾' && ns still-mine && ns get`)
	o := tr.run()
	want := `{ 		"id": 9007199254740993, "s": "a\nb"}`
	if o.err != nil || tr.rec.last() != want || string(o.Result) != want {
		t.Errorf("stored %s, got back %s, %v; want %s", tr.rec.last(), o.Result, o.err, want)
	}
	if got := tr.rec.progress; len(got) != 1 || got[0] != "half way ☾" {
		t.Errorf("progress %q", got)
	}
	ns(t, `ns get; ns put '' x && ns get`).run().wantResult(t, ``)
}

func TestCommandsTellAboutStopsAndErrors(t *testing.T) {
	tr := ns(t, `ns put 1 ""; echo $?; ns put '{' ''; echo $?; ns still-mine; echo $?`)
	tr.rec.answer = func(_ context.Context, n int) error {
		if n == 0 {
			return handler.ErrPaused
		}
		return errors.New("no room")
	}
	o := tr.run()
	for _, want := range []string{"no room\n1\n", "not valid JSON: {\n1\n", "the task was paused\n75\n"} {
		if !strings.Contains(o.log, want) {
			t.Errorf("the log lacks %q:\n%s", want, o.log)
		}
	}
}

func TestCommandsOutsideATask(t *testing.T) {
	o := ns(t, `exec 3>&-; ns get; echo $?; unset NIGHTSHIFT_FD; ns get; echo $?; exec 3>file; NIGHTSHIFT_FD=3 ns get; echo $?`).run()
	if strings.Count(o.log, "not inside a task") != 3 || strings.Count(o.log, "\n66\n") != 3 {
		t.Errorf("the log is\n%s", o.log)
	}
}

// Children that speak at the same time get their own answers.
func TestCommandsTakeTurns(t *testing.T) {
	tr := ns(t, `for i in 1 2 3 4 5 6; do ns count 40 & p="$p $!"; done; for q in $p; do wait $q || exit 1; done; echo all`)
	tr.run().wantResult(t, `"all"`)
	if n := len(tr.rec.states); n != 240 {
		t.Errorf("%d checkpoints, want 240", n)
	}
}
