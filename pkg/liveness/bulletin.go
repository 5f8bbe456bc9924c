package liveness

import (
	"encoding/json"
	"time"
)

// Bulletin keeps a status file and the service manager up to date. It never blocks.
type Bulletin struct {
	file    *Outlet
	shown   string
	manager *ServiceManager
}

// NewBulletin keeps the file at path; the service manager is found by the environment.
func NewBulletin(path string) *Bulletin {
	return &Bulletin{file: NewFileOutlet(path), manager: FindServiceManager()}
}

// Publish tells the manager the state (lines as READY=1), and writes doc, as JSON and with
// the count of lost writes, when it has changed. What finds no room is tried at the next call.
func (b *Bulletin) Publish(state string, doc map[string]any, now time.Duration) {
	b.manager.Tell(state, now)
	doc["status_dropped"] = b.file.Dropped()
	text, err := json.Marshal(doc)
	if err != nil {
		panic("status is no JSON: " + err.Error()) // plain values only
	}
	if string(text) != b.shown && b.file.Offer(text) {
		b.shown = string(text)
	}
}
