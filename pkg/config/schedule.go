package config

import (
	"encoding/json"

	"nightshift/pkg/cron"
)

// Definition is the schedule as the database keeps it; name is its key under
// schedules. It compiles: Load has tried.
func (s Schedule) Definition(name string) cron.Definition {
	def := cron.Definition{
		Name: name, Cron: s.Cron, Task: s.Task, Payload: json.RawMessage(s.Payload), Priority: &s.Priority,
		Missed: cron.Missed(s.Missed), MissedLimit: s.MissedLimit, Overlap: cron.Overlap(s.Overlap), Disabled: !s.Enabled,
	}
	if s.Every > 0 {
		def.Every = s.Every.String()
	} else {
		def.Zone = s.Zone
	}
	if s.Jitter > 0 {
		def.Jitter = s.Jitter.String()
	}
	return def
}
