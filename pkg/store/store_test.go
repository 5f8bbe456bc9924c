package store

import (
	"testing"
	"time"

	"nightshift/pkg/task"
)

func TestTaskFromInsertToSuccess(t *testing.T) {
	s := newStore(t, Options{})
	now := time.Date(2026, 12, 1, 16, 4, 5, 123e6, time.UTC)
	ids, err := s.Add(now, NewTask{Type: "a", Payload: `{"n":1}`}, NewTask{Type: "a"})
	if err != nil {
		t.Fatal(err)
	}
	req := &ClaimRequest{Executors: []string{"w1"}, Worker: "w1", Types: map[string]TypeRule{"a": {Timeout: time.Hour}}, Now: now}
	r, err := s.Turn(nil, req)
	if err != nil || len(r.Claimed) != 1 || r.Claimed[0].ID != ids[0] {
		t.Fatalf("claimed %+v, %v", r, err)
	}
	c, err := s.Checkpoint(r.Claimed[0].Fence(), `{"at":5}`, "5/10", now.Add(time.Second))
	if err != nil || c != "" {
		t.Fatal(c, err)
	}
	r2, err := s.Turn([]Finish{{Fence: r.Claimed[0].Fence(), Verdict: Succeed, Result: `"ok"`, Now: now.Add(2 * time.Second)}}, req)
	if err != nil || r2.Finished[0].Err != nil || len(r2.Claimed) != 1 || r2.Claimed[0].ID != ids[1] {
		t.Fatalf("%+v, %v", r2, err)
	}
	got, err := s.Get(ids[0])
	if err != nil || got.Status != task.Success || got.Checkpoint != `{"at":5}` || got.Result != `"ok"` {
		t.Fatalf("%+v, %v", got, err)
	}
	ev, err := s.Events(ids[0])
	if err != nil || len(ev) != 2 || !ev[0].At.Equal(now.Add(time.Millisecond)) {
		t.Fatalf("%+v %v", ev, err)
	}
	h, err := s.History(ids[0])
	if err != nil || len(h) != 1 || h[0].Outcome != "success" {
		t.Fatalf("%+v %v", h, err)
	}
}
