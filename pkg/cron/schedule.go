package cron

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Missed is what becomes of occurrences whose time passed while nobody looked.
type Missed string

// The policies for missed occurrences.
const (
	MissedSkip Missed = "skip" // none of them runs
	MissedOnce Missed = "once" // one runs for all of them: the default
	MissedAll  Missed = "all"  // each runs, the newest MissedLimit of them
)

// Overlap is what becomes of an occurrence while an earlier run is unfinished.
type Overlap string

// The policies for overlapping runs.
const (
	OverlapSkip  Overlap = "skip" // it does not run: the default
	OverlapAllow Overlap = "allow"
)

// Bounds of how many missed occurrences `all` runs: the default covers a
// schedule of every minute for a week.
const (
	DefaultMissedLimit = 10_080
	MaxMissedLimit     = 100_000
)

// Definition is a schedule as it is declared. Its JSON is what the database
// keeps, so that every worker decides by the same one.
type Definition struct {
	Name        string          `json:"name"`
	Cron        string          `json:"cron,omitempty"`
	Zone        string          `json:"zone,omitempty"`
	Every       string          `json:"every,omitempty"` // a duration: 90s
	Task        string          `json:"task"`
	Payload     json.RawMessage `json:"payload,omitempty"`
	Priority    *int64          `json:"priority,omitempty"`
	Missed      Missed          `json:"missed,omitempty"`
	MissedLimit int             `json:"missed_limit,omitempty"`
	Overlap     Overlap         `json:"overlap,omitempty"`
	Jitter      string          `json:"jitter,omitempty"`
	Disabled    bool            `json:"disabled,omitempty"`
}

// DefinitionError says which key of a definition is wrong.
type DefinitionError struct {
	Schedule, Key string
	Err           error
}

func (e *DefinitionError) Error() string {
	return fmt.Sprintf("schedule %s: %s: %v", e.Schedule, e.Key, e.Err)
}

// Unwrap gives the cause: for cron and zone a *ParseError or *ZoneError.
func (e *DefinitionError) Unwrap() error { return e.Err }

// Schedule is a definition that was found to be valid.
type Schedule struct {
	Definition
	Rule   *Rule
	jitter time.Duration
}

// Compile checks a definition and fills in the defaults of its policies.
func (d Definition) Compile() (*Schedule, error) {
	bad := func(key string, err error) (*Schedule, error) {
		return nil, &DefinitionError{Schedule: d.Name, Key: key, Err: err}
	}
	if err := CheckName(d.Name); err != nil {
		return bad("name", err)
	}
	s := &Schedule{Definition: d}
	key, err := s.compileRule()
	if err != nil {
		return bad(key, err)
	}
	if key, err := s.compilePolicies(); err != nil {
		return bad(key, err)
	}
	if d.Task == "" {
		return bad("task", fmt.Errorf("the task type to run is missing"))
	}
	if len(d.Payload) > 0 && !json.Valid(d.Payload) {
		return bad("payload", fmt.Errorf("it is not valid JSON"))
	}
	return s, nil
}

func (s *Schedule) compileRule() (key string, err error) {
	switch {
	case s.Cron == "" && s.Every == "":
		return "cron", fmt.Errorf("either cron or every is needed")
	case s.Cron != "" && s.Every != "":
		return "every", fmt.Errorf("cron and every exclude each other")
	case s.Every != "" && s.Zone != "":
		return "zone", fmt.Errorf("a fixed interval knows no zone; it counts from 1970-01-01T00:00:00Z")
	case s.Every != "":
		d, err := time.ParseDuration(s.Every)
		if err != nil {
			return "every", fmt.Errorf("%q is not a duration such as 90s or 12h", s.Every)
		}
		s.Rule, err = Every(d)
		return "every", err
	}
	s.Rule, err = Parse(s.Cron, s.Zone)
	if _, ok := err.(*ZoneError); ok {
		return "zone", err
	}
	return "cron", err
}

func (s *Schedule) compilePolicies() (key string, err error) {
	switch s.Missed {
	case "":
		s.Missed = MissedOnce
	case MissedSkip, MissedOnce, MissedAll:
	default:
		return "missed", fmt.Errorf("%q is none of skip, once, all", s.Missed)
	}
	switch s.Overlap {
	case "":
		s.Overlap = OverlapSkip
	case OverlapSkip, OverlapAllow:
	default:
		return "overlap", fmt.Errorf("%q is none of skip, allow", s.Overlap)
	}
	switch {
	case s.MissedLimit == 0:
		s.MissedLimit = DefaultMissedLimit
	case s.MissedLimit < 0 || s.MissedLimit > MaxMissedLimit:
		return "missed_limit", fmt.Errorf("%d is not between 1 and %d", s.MissedLimit, MaxMissedLimit)
	}
	if s.Jitter != "" {
		s.jitter, err = time.ParseDuration(s.Jitter)
		if err != nil || s.jitter < 0 || s.jitter > 24*time.Hour {
			return "jitter", fmt.Errorf("%q is not a duration between 0 and 24h", s.Jitter)
		}
	}
	return "", nil
}

// ID is the task id of the schedule's occurrence at that time.
func (s *Schedule) ID(at time.Time) string { return OccurrenceID(s.Name, at) }

// RunAt is when the occurrence's task is due: its time and its share of the jitter.
func (s *Schedule) RunAt(at time.Time) time.Time {
	return at.Add(Spread(s.Name, at, s.jitter))
}

// Encode is the JSON that the database keeps. Equal definitions give equal bytes.
func (d Definition) Encode() (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // a payload is for programs, not for a browser
	if err := enc.Encode(d); err != nil {
		return "", fmt.Errorf("definition of schedule %s: %w", d.Name, err)
	}
	return strings.TrimSpace(b.String()), nil
}

// Decode reads what Encode wrote. A key it does not know is an error: it is the
// definition of a newer version, which this one must not carry out by half.
func Decode(text string) (Definition, error) {
	var d Definition
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return Definition{}, fmt.Errorf("stored definition of a schedule: %w", err)
	}
	return d, nil
}
