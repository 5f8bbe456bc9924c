//go:build race

package logging

// raceEnabled: the race detector makes a gigabyte a matter of minutes.
const raceEnabled = true
