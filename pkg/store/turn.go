package store

import (
	"time"

	"nightshift/pkg/task"
)

// TurnResult is the outcome of a Turn. Finished parallels the finishes.
type TurnResult struct {
	Finished []FinishResult
	Claimed  []task.Task
	// NextDue is the earliest due time of what this worker may run and did not
	// claim; in the past when its slots are full and more is due. Zero: none.
	NextDue  time.Time
	DiskFull bool // nothing was claimed because the disk is nearly full
	Held     bool // nothing was claimed because an operator's drain is on
}

// Turn writes the ends of executions and claims due tasks for idle slots, in one
// transaction: what a task costs is one commit, shared with its neighbours. A fence
// that no longer matches concerns its own finish only. claim may be nil.
func (s *Store) Turn(finishes []Finish, claim *ClaimRequest) (TurnResult, error) {
	var res TurnResult
	o := &op{
		run: func(c *conn) error {
			res = TurnResult{Finished: make([]FinishResult, len(finishes))}
			if err := s.finishAll(c, finishes, res.Finished); err != nil {
				return err
			}
			if claim == nil || len(claim.Executors) == 0 {
				return nil
			}
			if s.full.Load() {
				res.DiskFull = true
				return nil
			}
			var err error
			if res.Held, err = c.one(sqlSetting, nil, settingDrain); err != nil || res.Held {
				return err
			}
			res.Claimed, res.NextDue, err = s.claim(c, claim, s.stamp(claim.Now))
			return err
		},
		applied: func(c *conn) (bool, error) { return turnApplied(c, finishes, &res) },
	}
	if len(finishes) > 0 {
		o.points = append(o.points, "finish")
	}
	if claim != nil {
		o.points = append(o.points, "claim")
	}
	if err := s.write("turn", o); err != nil {
		return TurnResult{}, err
	}
	return res, nil
}

// turnApplied asks for the trace of one row that the turn changed.
func turnApplied(c *conn, finishes []Finish, res *TurnResult) (bool, error) {
	for _, t := range res.Claimed {
		now, err := getTask(c, t.ID)
		return err == nil && now.ExecID == t.ExecID && now.ExecutorID == t.ExecutorID, err
	}
	for i, f := range finishes {
		if res.Finished[i].Err != nil || f.Verdict == Release {
			continue
		}
		now, err := getTask(c, f.Fence.TaskID)
		return err == nil && (now.ExecID != f.Fence.ExecID || now.Status != task.Running), err
	}
	return false, nil
}
