package program

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"nightshift/pkg/handler"
	"nightshift/pkg/task"
)

// parallel is the number of programs at a time: the slots of a worker.
const parallel = 4

// BenchmarkBareExec is the yardstick: os/exec, nothing kept, nothing promised.
func BenchmarkBareExec(b *testing.B) {
	inParallel(b, func(int) error { return exec.Command("/bin/true").Run() })
}

// BenchmarkTrue is the same with a directory, files, output, descriptor 3 and a
// clean end of everything. The database is not in it.
func BenchmarkTrue(b *testing.B) {
	root := b.TempDir()
	p, err := New(Config{Command: []string{"/bin/true"}, Reaper: one})
	if err != nil {
		b.Fatal(err)
	}
	inParallel(b, func(n int) error {
		row := &task.Task{ID: fmt.Sprintf("20261201T160405.%d", n), Type: "true", Payload: "{}", ExecID: int64(n)}
		dir, err := TaskDir(root, row.ID)
		if err != nil {
			return err
		}
		if _, err := p.Run(context.Background(), handler.NewTask(row, dir, io.Discard, &recorder{}, nil)); err != nil {
			return err
		}
		return RemoveTaskDir(root, row.ID)
	})
}

func inParallel(b *testing.B, run func(n int) error) {
	b.Helper()
	numbers := make(chan int)
	errs := make(chan error, parallel)
	for range parallel {
		go func() {
			var err error
			for n := range numbers {
				if err == nil {
					err = run(n)
				}
			}
			errs <- err
		}()
	}
	b.ResetTimer()
	before := cpu()
	for n := range b.N {
		numbers <- n
	}
	close(numbers)
	for range parallel {
		if err := <-errs; err != nil {
			b.Error(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "programs/s")
	// The steadier figure on a machine that others use, too.
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "µs-cpu/op")
}

// cpu is the time that this process and its buried children have computed.
func cpu() (d time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if syscall.Getrusage(who, &r) == nil { // it can't fail with these arguments
			d += time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
	}
	return d
}

// BenchmarkCheckpoints is one program that reports as fast as it is answered, by a
// recorder that costs nothing.
func BenchmarkCheckpoints(b *testing.B) {
	py := "/usr/bin/python3"
	if _, err := os.Stat(py); err != nil {
		b.Skip("no python3")
	}
	p, err := New(Config{Reaper: one, Command: []string{py, "-c", `import json, os
f = open(3, "r+b", buffering=0)
for i in range(json.loads(os.environ["NIGHTSHIFT_PAYLOAD"])):
    f.write(b'{"checkpoint":{"n":%d}}\n' % i)
    f.readline()`}})
	if err != nil {
		b.Fatal(err)
	}
	row := &task.Task{ID: "bench", Type: "bench", Payload: fmt.Sprint(b.N), ExecID: 1}
	if _, err := p.Run(context.Background(), handler.NewTask(row, b.TempDir(), io.Discard, &recorder{}, nil)); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checkpoints/s")
}
