package liveness

import (
	"runtime"
	"sync"
)

// spareThreads is more than a supervisor ever uses at a time: two processors, the loop's
// own, and one for each goroutine that may hang in a file system.
const spareThreads = 12

// keepThreads makes the threads of the future now. The Go runtime ends the process when it
// wants another one and the kernel has none to give (golang/go#14835), which is when a
// machine is out of processes, and its supervisor needed most.
func keepThreads() {
	runtime.GOMAXPROCS(min(2, runtime.GOMAXPROCS(0)))
	var all, done sync.WaitGroup
	all.Add(spareThreads)
	for range spareThreads {
		done.Go(func() {
			runtime.LockOSThread() // each goroutine has a thread of its own until all have one
			all.Done()
			all.Wait()
			runtime.UnlockOSThread() // else the thread would end with the goroutine
		})
	}
	done.Wait()
}
