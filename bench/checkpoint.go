package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"nightshift/pkg/store"
)

// speaker is a program that checkpoints as fast as it is answered, over descriptor
// 3 as docs/writing-tasks.md says.
const speaker = `import json, os, time
s = open(3, "r+b", buffering=0)
span = json.loads(os.environ["NIGHTSHIFT_PAYLOAD"])["seconds"]
n, begin = 0, time.time()
end = begin
while end - begin < span:
    n += 1
    s.write(b'{"checkpoint": {"offset": %d}}\n' % n)
    if b'"ok"' not in s.read(4096):
        raise SystemExit(1)
    end = time.time()
print(json.dumps({"n": n, "begin": begin, "end": end}))
`

// checkpoints measures durable checkpoints: one writer alone against raw commits,
// and 16 that share commits.
func (b *bench) checkpoints() error {
	got := map[string][]float64{}
	python, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		python = ""
		fmt.Fprintln(os.Stderr, "bench: /usr/bin/python3 is not there: programs that checkpoint are left out")
	}
	for range b.rounds {
		rate, err := b.onRaw((*rawDB).bareTables, b.rawCheckpoints)
		if err != nil {
			return err
		}
		got["raw"] = append(got["raw"], rate)
		for _, writers := range []int{1, 16} {
			if rate, err = b.checkpointRate("count", "", writers); err != nil {
				return err
			}
			got[fmt.Sprint("go", writers)] = append(got[fmt.Sprint("go", writers)], rate)
			if python == "" {
				continue
			}
			if rate, err = b.checkpointRate("speak", python, writers); err != nil {
				return err
			}
			got[fmt.Sprint("python", writers)] = append(got[fmt.Sprint("python", writers)], rate)
		}
	}
	raw := b.put("raw SQLite, one row changed a commit", "/s", got["raw"]...)
	b.put("1 Go handler", "/s", got["go1"]...).of(raw)
	b.put("16 Go handlers", "/s", got["go16"]...).of(raw)
	if python != "" {
		b.put("1 Python program", "/s", got["python1"]...).of(raw)
		b.put("16 Python programs", "/s", got["python16"]...).of(raw)
	}
	return nil
}

func (b *bench) checkpointSpan() time.Duration { return scale(b, 2*time.Second, 300*time.Millisecond) }

func (b *bench) rawCheckpoints(r *rawDB) (float64, error) {
	if err := r.fill(1); err != nil {
		return 0, err
	}
	return ratePerSecond(b.checkpointSpan(), func(i int) error {
		return r.exec(`UPDATE tasks SET checkpoint = ?1, updated_at = ?2 WHERE rowid = 1`, fmt.Sprintf(`{"offset":%d}`, i), stampNow())
	})
}

// checkpointRate runs writers tasks of a type beside one another.
func (b *bench) checkpointRate(taskType, python string, writers int) (float64, error) {
	config := fmt.Sprintf("worker: {slots: %d}\n", writers)
	if python != "" {
		config += fmt.Sprintf("tasks: {speak: {command: [%q, speaker.py]}}\n", python)
	}
	s, err := b.newSystem(config)
	if err != nil {
		return 0, err
	}
	defer s.end()
	worker := b.self
	if python != "" {
		worker = filepath.Join(b.bin, "worker")
		if err := os.WriteFile(s.path("speaker.py"), []byte(speaker), 0o600); err != nil {
			return 0, err
		}
	}
	if err := s.start(1, worker); err != nil {
		return 0, err
	}
	payload := fmt.Sprintf(`{"seconds": %g}`, b.checkpointSpan().Seconds())
	if _, err := s.add(writers, store.NewTask{Type: taskType, Payload: payload}); err != nil {
		return 0, err
	}
	if err := s.untilDone(time.Minute); err != nil {
		return 0, err
	}
	return s.checkpointsPerSecond(writers)
}

func (s *system) checkpointsPerSecond(writers int) (float64, error) {
	var n int
	var begin, end float64
	err := s.results(writers, func(result string) error {
		var one span
		if err := json.Unmarshal([]byte(result), &one); err != nil {
			return fmt.Errorf("result %q: %w", result, err)
		}
		n += one.N
		if begin == 0 || one.Begin < begin {
			begin = one.Begin
		}
		end = max(end, one.End)
		return nil
	})
	return float64(n) / (end - begin), err
}

// results reads the results of all tasks, which must be want and SUCCESS.
func (s *system) results(want int, each func(result string) error) error {
	rows, err := s.db.Query(`SELECT ifnull(result, '') FROM tasks WHERE status = 'SUCCESS' ORDER BY rowid`)
	if err != nil {
		return err
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var result string
		if err := rows.Scan(&result); err != nil {
			return err
		}
		if err := each(result); err != nil {
			return err
		}
		n++
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if n != want {
		return fmt.Errorf("%d of %d tasks ended SUCCESS", n, want)
	}
	return nil
}
