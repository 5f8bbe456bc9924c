package program

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightshift/pkg/handler"
)

func cancel() handler.StopOrder { return handler.StopOrder{Err: handler.ErrCancelled} }

// The shell dies and the work below it must not go on (CA-03).
func TestCA03NothingOfTheTreeIsLeft(t *testing.T) {
	need(t, "bash")
	need(t, "python3")
	orders := map[string]struct {
		order   handler.StopOrder
		summary string
	}{
		"cancel":       {cancel(), "cancelled: SIGTERM"},
		"cancel --now": {handler.StopOrder{Err: handler.ErrCancelled, Force: true}, "cancelled: SIGTERM"},
		"timeout":      {handler.StopOrder{Err: handler.ErrTimeout}, "timeout: SIGTERM"},
		"lost":         {handler.StopOrder{Err: handler.ErrLost, Force: true}, "no longer this worker's: SIGKILL"},
	}
	for name, c := range orders {
		t.Run(name, func(t *testing.T) {
			tr := sh(t, `echo $$ >>pids
				setsid sh -c 'echo $$ >>pids; trap "" TERM; while :; do sleep 0.1; done' &
				env -i setsid sh -c 'echo $$ >>pids; trap "" TERM HUP; while :; do sleep 0.1; done' &
				(setsid sh -c 'exec 3>&- 4>&- >/dev/null 2>&1; echo $$ >>pids; while :; do sleep 0.1; done' &)
				bash -c 'echo $$ >>pids; python3 -c "import os,time; print(os.getpid(), file=open(\"pids\",\"a\")); time.sleep(1000)" & sleep 1000 | cat; wait'`)
			done := tr.start()
			pids := filepath.Join(tr.dir, "pids")
			until(t, "all six are there", func() bool {
				b, err := os.ReadFile(pids)
				return err == nil && strings.Count(string(b), "\n") == 6
			})
			tr.stop <- c.order
			o := await(t, done)
			o.want(t, strings.SplitN(c.summary, ":", 2)[0], c.summary)
			for _, pid := range strings.Fields(slurp(t, pids)) {
				if alive(pid) {
					t.Errorf("process %s lives on: %s", pid, slurp(t, "/proc/"+pid+"/cmdline"))
				}
			}
		})
	}
}

// A timeout that only reaches the shell, or waits for a pipe that a child keeps
// open, never fires (CA-07).
func TestCA07TimeoutFires(t *testing.T) {
	for _, shell := range []string{"bash", "dash"} {
		path := need(t, shell)
		for _, script := range []string{"sleep 200", "sleep 200; true", "sleep 200 & wait", "(sleep 200)", "sleep 200 | cat"} {
			t.Run(shell+" "+script, func(t *testing.T) {
				t.Parallel()
				tr := try(t, path, "-c", "echo on; "+script)
				done := tr.start()
				tr.untilLogged("on")
				began := time.Now()
				tr.stop <- handler.StopOrder{Err: handler.ErrTimeout}
				await(t, done).want(t, "timeout", "signal 15 (TERM)")
				if took := time.Since(began); took > 15*time.Second {
					t.Errorf("it took %v, near the grace time: TERM did not do it", took)
				}
			})
		}
	}
}

func TestTermIsFollowedByKill(t *testing.T) {
	tr := sh(t, `trap "" TERM; echo on; while :; do sleep 0.1; done`)
	tr.cfg.Grace = 300 * time.Millisecond
	done := tr.start()
	tr.untilLogged("on")
	tr.stop <- cancel()
	await(t, done).want(t, "cancelled", "cancelled: SIGTERM, SIGKILL after 300ms")
}

func TestForceShortensTheGrace(t *testing.T) {
	tr := sh(t, `trap "" TERM; echo on; while :; do sleep 0.1; done`)
	tr.cfg.Grace, tr.cfg.KillGrace = time.Hour, 200*time.Millisecond
	done := tr.start()
	tr.untilLogged("on")
	tr.stop <- cancel()
	tr.stop <- handler.StopOrder{Err: handler.ErrCancelled, Force: true}
	await(t, done).want(t, "cancelled", "cancelled: SIGTERM, SIGKILL after 200ms")
}

func TestGraceIsTimeToUndo(t *testing.T) {
	tr := sh(t, `trap 'echo undoing; sleep 0.2; echo "undo failed: no route" >&2; exit 3' TERM; echo on; while :; do sleep 0.05; done`)
	done := tr.start()
	tr.untilLogged("on")
	tr.stop <- cancel()
	await(t, done).want(t, "cancelled", "; exit 3: undo failed: no route")
}

func TestStoppedProgramIsWoken(t *testing.T) {
	tr := sh(t, `echo on; kill -STOP $$; echo never`)
	done := tr.start()
	tr.untilLogged("on")
	tr.stop <- cancel()
	await(t, done).want(t, "cancelled", "signal 15 (TERM)")
}

func TestOrderBeforeTheStart(t *testing.T) {
	tr := sh(t, "echo ran")
	tr.stop <- handler.StopOrder{Err: handler.ErrPaused}
	o := tr.run()
	o.want(t, "paused", "not started")
	if o.log != "" {
		t.Error("it was started nevertheless")
	}
}

func TestEndOfTheContextEndsTheProgram(t *testing.T) {
	tr := sh(t, `echo on; sleep 1000`)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan outcome, 1)
	go func() { done <- tr.runIn(ctx) }()
	tr.untilLogged("on")
	cancel()
	await(t, done).want(t, "the worker stopped", "SIGTERM")
}

// speaker counts on descriptor 3 until it is told to stop.
const speaker = `n=0
	while :; do
		n=$((n+1)); printf '{"checkpoint":{"n":%d},"progress":"%d"}\n' $n $n >&3
		read -r a <&3
		case $a in *stop*) echo "told $a"; exit 75;; esac
		sleep 0.02
	done`

// A program that speaks is told at its next checkpoint, and not before (CA-06).
func TestCA06SpeakerIsToldAtItsCheckpoint(t *testing.T) {
	words := map[string]error{
		"cancel": handler.ErrCancelled, "pause": handler.ErrPaused, "shutdown": handler.ErrStopping,
	}
	for word, stop := range words {
		t.Run(word, func(t *testing.T) {
			tr := sh(t, speaker)
			ordered := make(chan struct{})
			tr.rec.answer = func(_ context.Context, n int) error {
				select {
				case <-ordered:
					return stop
				default:
					return nil
				}
			}
			done := tr.start()
			until(t, "it speaks", func() bool { return tr.rec.last() != "" })
			if word != "shutdown" { // a drain sends no order at first
				tr.stop <- handler.StopOrder{Err: stop}
			}
			time.AfterFunc(100*time.Millisecond, func() { close(ordered) })
			o := await(t, done)
			o.want(t, reason(stop), "told at its checkpoint; exit 75: told")
			if !strings.Contains(o.log, fmt.Sprintf(`told {"stop":%q}`, word)) {
				t.Errorf("it read %q", o.log)
			}
		})
	}
}

// One that has a checkpoint already is a speaker from its first moment on.
func TestResumedSpeakerIsNotTerminated(t *testing.T) {
	tr := sh(t, "echo on; sleep 0.3; echo finished its batch")
	tr.row.Checkpoint = `{"n":1}`
	done := tr.start()
	tr.untilLogged("on")
	tr.stop <- cancel()
	await(t, done).wantResult(t, `"finished its batch"`)
}

func TestSilentProgramIsTerminatedForAPause(t *testing.T) {
	tr := sh(t, "echo on; sleep 1000")
	done := tr.start()
	tr.untilLogged("on")
	tr.stop <- handler.StopOrder{Err: handler.ErrPaused}
	await(t, done).want(t, "paused", "signal 15 (TERM)")
}

func TestSpeakerThatIgnoresTheReplyIsKilledAfterTheGrace(t *testing.T) {
	tr := sh(t, `echo '{"progress":"x"}' >&3; read -r a <&3; echo on; while :; do sleep 0.1; done`)
	tr.cfg.Grace = 300 * time.Millisecond
	tr.rec.answer = func(context.Context, int) error { return handler.ErrCancelled }
	await(t, tr.start()).want(t, "cancelled", "told at its checkpoint, SIGKILL after 300ms")
}

// One that only writes never hears a stop; it gets TERM as one that never spoke.
func TestSpeakerThatDoesNotReadIsTerminated(t *testing.T) {
	if testing.Short() {
		t.Skip("takes unreadPatience")
	}
	tr := sh(t, `while :; do echo '{"progress":"x"}' >&3; sleep 0.1; done`)
	tr.cfg.Grace = time.Hour
	tr.rec.answer = func(context.Context, int) error { return handler.ErrCancelled }
	await(t, tr.start()).want(t, "cancelled", "told at its checkpoint, did not read the reply, SIGTERM")
}

// Whether it is told first or ends first: after a stop reply the exit status does
// not matter.
func TestCA05StopReplyWinsOverTheExit(t *testing.T) {
	for range 20 {
		tr := sh(t, `echo '{"checkpoint":1}' >&3; exit 0`)
		tr.rec.answer = func(context.Context, int) error { return handler.ErrCancelled }
		tr.run().want(t, "cancelled", "told at its checkpoint; exit 0")
	}
}

func TestLostIsKilledAtOnce(t *testing.T) {
	tr := sh(t, `trap "" TERM; echo '{"checkpoint":1}' >&3; read -r a <&3; while :; do sleep 0.1; done`)
	tr.cfg.Grace = time.Hour
	tr.rec.answer = func(context.Context, int) error { return handler.ErrLost }
	await(t, tr.start()).want(t, "no longer this worker's", "told at its checkpoint, SIGKILL")
}

// A checkpoint that waits for a full disk does not keep a program from being killed.
func TestForceDoesNotWaitForACheckpoint(t *testing.T) {
	tr := sh(t, `echo on; echo '{"checkpoint":1}' >&3; read -r a <&3; trap "" TERM; while :; do sleep 0.1; done`)
	tr.cfg.KillGrace = 200 * time.Millisecond
	tr.rec.answer = func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
	done := tr.start()
	until(t, "the checkpoint arrives", func() bool { return tr.rec.last() != "" })
	tr.stop <- handler.StopOrder{Err: handler.ErrStopping, Force: true}
	await(t, done).want(t, "the worker stopped", "SIGTERM")
}

// The last lines before the exit are heard, read or not.
func TestLastWordsOnDescriptorThree(t *testing.T) {
	tr := sh(t, `for i in 1 2 3 4 5; do echo "{\"checkpoint\":$i}"; done >&3; echo done`)
	tr.run().wantResult(t, `"done"`)
	if got := tr.rec.last(); got != "5" {
		t.Errorf("the last checkpoint is %s, want 5", got)
	}
}
