package task

import (
	"errors"
	"testing"
)

func TestEveryPairIsAdmittedExactlyByTheTable(t *testing.T) {
	admitted := map[Transition]bool{}
	for _, tr := range Transitions() {
		admitted[tr] = true
	}
	reasons := []Reason{Claimed, UserCancel, UserPause, UserResume, Done, FatalError, RetryableError, TimedOut,
		LeaseExpired, RetriesExhausted, WorkerCrash, WorkerOffline, Takeover, WorkerBack, CrashesExhausted, "", "other"}
	for _, from := range Statuses() {
		for _, to := range Statuses() {
			for _, why := range reasons {
				err := Check(from, to, why)
				if want := admitted[Transition{from, to, why}]; want != (err == nil) {
					t.Errorf("%s -> %s (%s): admitted %v, error %v", from, to, why, want, err)
				}
				var illegal *IllegalTransition
				if err != nil && !errors.As(err, &illegal) {
					t.Errorf("%s -> %s: error is a %T", from, to, err)
				}
			}
		}
	}
}

func TestNothingLeavesAFinalState(t *testing.T) {
	if n := len(Statuses()); n != 9 {
		t.Fatalf("%d states, the seed has nine", n)
	}
	for _, tr := range Transitions() {
		if tr.From.Final() {
			t.Errorf("%s is final, yet goes to %s", tr.From, tr.To)
		}
		if !tr.From.Known() || !tr.To.Known() {
			t.Errorf("unknown state in %v", tr)
		}
	}
}

func TestEveryUnfinishedStateReachesAFinalOne(t *testing.T) {
	reaches := map[Status]bool{}
	for changed := true; changed; {
		changed = false
		for _, tr := range Transitions() {
			if (tr.To.Final() || reaches[tr.To]) && !reaches[tr.From] {
				reaches[tr.From], changed = true, true
			}
		}
	}
	for _, s := range Statuses() {
		if !s.Final() && !reaches[s] {
			t.Errorf("no way from %s to an end", s)
		}
	}
}
