package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// duty is what a worker process is told in its argument.
type duty struct {
	settings
	Tell bool // each start, as it comes
	List bool // all numbers, at the end
	Idle bool // say nothing meanwhile: what is measured is the rest
}

// word is a line of a worker process to us.
type word struct {
	Ready   bool     `json:"ready,omitempty"`
	Count   int64    `json:"count,omitempty"`  // jobs so far
	Start   *job     `json:"start,omitempty"`  // a job that starts, at
	At      int64    `json:"at,omitempty"`     // this wall time, ns
	End     bool     `json:"end,omitempty"`    // the last word, with:
	Errors  int64    `json:"errors,omitempty"` // what the library logged
	Locked  int64    `json:"locked,omitempty"` // "database is locked" among them
	Samples []string `json:"samples,omitempty"`
	Seqs    []int64  `json:"seqs,omitempty"`
}

// serve is a worker process: it works from the first line on stdin to the second.
func serve(arg string) error {
	var d duty
	if err := json.Unmarshal([]byte(arg), &d); err != nil {
		return err
	}
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	say := func(w word) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(w) // a parent that is gone ends us through stdin
	}
	p, err := newPeer(d.settings)
	if err != nil {
		return err
	}
	if err := openPatiently(p); err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	say(word{Ready: true})
	if !in.Scan() {
		return nil
	}
	var count atomic.Int64
	var seqs []int64
	err = p.Start(func(j job) {
		if d.Tell {
			say(word{Start: &j, At: time.Now().UnixNano()})
		}
		if d.List {
			mu.Lock()
			seqs = append(seqs, j.Seq)
			mu.Unlock()
		}
		count.Add(1)
		if j.Sleep > 0 {
			time.Sleep(time.Duration(j.Sleep) * time.Millisecond)
		}
	})
	if err != nil {
		troubles.add("start: " + err.Error())
	}
	if !d.Idle {
		go func() {
			for range time.Tick(10 * time.Millisecond) {
				say(word{Count: count.Load()})
			}
		}()
	}
	in.Scan()
	if err == nil {
		p.Stop()
	}
	troubles.mu.Lock()
	defer troubles.mu.Unlock()
	say(word{End: true, Count: count.Load(), Errors: troubles.n, Locked: troubles.locked, Samples: troubles.samples, Seqs: seqs})
	return nil
}

// openPatiently opens a file that several processes open at once.
func openPatiently(p peer) (err error) {
	for range 50 {
		if err = p.Open(); err == nil {
			return nil
		}
		troubles.add("open: " + err.Error())
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// process is a worker process, from our side.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	count  atomic.Int64
	starts chan word
	ended  chan struct{}
	last   word
}

func (r *run) startWorker(d duty) (*process, error) {
	arg, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &process{cmd: exec.Command(self, "worker", string(arg)), starts: make(chan word, 1000), ended: make(chan struct{})}
	w.cmd.Stderr = r.stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	go w.listen(out, ready)
	select {
	case <-ready:
		return w, nil
	case <-w.ended:
		return nil, errors.Join(fmt.Errorf("%s: its worker ended before it was ready", d.Peer), w.cmd.Wait())
	case <-time.After(30 * time.Second):
		w.kill()
		return nil, fmt.Errorf("%s: its worker is not ready in 30 s", d.Peer)
	}
}

func (w *process) listen(out io.Reader, ready chan<- struct{}) {
	defer close(w.ended)
	dec := json.NewDecoder(out)
	for {
		var v word
		if dec.Decode(&v) != nil {
			return
		}
		switch {
		case v.Ready:
			close(ready)
		case v.Start != nil:
			select {
			case w.starts <- v:
			default: // nobody asks any more
			}
		case v.End:
			w.last = v
			w.count.Store(v.Count)
		default:
			w.count.Store(v.Count)
		}
	}
}

// tell sends the next word: go, then stop.
func (w *process) tell(what string) error {
	_, err := fmt.Fprintln(w.in, what)
	return err
}

// stop lets it end, and kills it after 30 s.
func (w *process) stop() {
	if w.tell("stop") != nil {
		w.kill()
		return
	}
	select {
	case <-w.ended:
	case <-time.After(30 * time.Second):
	}
	w.kill()
}

func (w *process) kill() {
	_ = w.cmd.Process.Kill() // it may have ended
	<-w.ended
	_ = w.cmd.Wait() // how it ended is known
}
