package operator

import (
	"time"

	"nightshift/pkg/operator/screen"
	"nightshift/pkg/task"
)

// words is short for screen.Words.
func words(d time.Duration) string { return screen.Words(d) }

// esc is short for screen.Escape.
func esc(s string) string { return screen.Escape(s) }

// quote shows a value in a message: escaped, in quotes, and no longer than a
// line can bear.
func quote(s string) string {
	return `"` + screen.Shorten(screen.Escape(s), 120, false) + `"`
}

// statusColor gives each state the colour of what it asks of a person.
func statusColor(s task.Status) screen.Color {
	switch s {
	case task.Running:
		return screen.Green
	case task.Retrying, task.Paused:
		return screen.Yellow
	case task.Lost, task.Failed, task.Dead:
		return screen.Red
	case task.Success, task.Cancelled:
		return screen.Dim
	}
	return screen.Plain
}

// lifeColor does the same for workers.
func lifeColor(l Life) screen.Color {
	switch l {
	case Alive:
		return screen.Green
	case Draining, Suspect, Unknown:
		return screen.Yellow
	case Offline, Gone:
		return screen.Red
	}
	return screen.Dim
}
