// Package sim is the deterministic simulation: whole nights of a machine with
// several workers in virtual time, one seed a night.
//
// Real: the scheduler's loop, heart, warden and timetable, the executor, the
// store with its SQL and a real SQLite file, recovery and takeover. Simulated: the
// clock (wall and monotonic apart), processes with pids that are reused, locks,
// signals, SIGSTOP, boots, the write lock and the troubles of the disk, the
// supervisor (an actor that keeps the contract of DESIGN §8: clear, lock, start,
// back off, watch the control byte), task programs and what they leave behind,
// users. A process's goroutines meet the simulated world at its gate (gate): a
// stopped process waits there, a dead one ends there.
//
// A kill in the middle of a write falls before the transaction, inside it or
// behind its COMMIT and before its answer. For a database that is atomic the
// first two are the same rows; test/faults kills real processes at each point.
//
// Time is that of testing/synctest. So that a seed is one run, no two timers of
// different owners fire at one instant, processes reach each other by timers only,
// randomness is drawn from the seed and the name of who draws, a process that goes
// on wakes its goroutines one after the other, and the write lock is handed on a
// moment later. Ids of reruns are random and not traced. The trace's hash says
// whether two runs were the same.
//
// Left open is what the Go runtime draws for itself: which of several ready channels
// a select takes, and the order of goroutines of one process within one instant. It
// shows mostly when a loop had to wait, for the write lock or because its process was
// stopped, and finds much ready at once: renew before pull in, or the other way
// round. Of twelve nights of four hours four differed in a second run, each from some
// point on. Both runs are valid; a failing seed may have to be repeated a few times.
package sim
