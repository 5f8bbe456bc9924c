package operator

import (
	"errors"

	"nightshift/pkg/handler/program/client"
)

// The verbs of this file are spoken by a task's program to the worker that runs
// it, on descriptor 3. They read no configuration and open no database.

// CheckpointPut stores where the work stands. It is durable when the command ends
// with 0; 75 says that the program should stop here, and the output says why.
func (d *Desk) CheckpointPut(state, progress string) error {
	var text []byte
	if state != "" {
		var err error
		if text, err = d.readJSON("the checkpoint", state); err != nil {
			return err
		}
	}
	c, err := client.Connect()
	if err != nil {
		return d.insideError(err)
	}
	return d.insideError(c.Put(text, progress))
}

// CheckpointGet prints the last checkpoint, or nothing when there is none.
func (d *Desk) CheckpointGet() error {
	c, err := client.Connect()
	if err != nil {
		return d.insideError(err)
	}
	state, err := c.Get()
	if err != nil || state == nil {
		return d.insideError(err)
	}
	return d.say("%s", state)
}

// StillMine ends with 0 when the work should go on, with 75 when not.
func (d *Desk) StillMine() error {
	c, err := client.Connect()
	if err != nil {
		return d.insideError(err)
	}
	return d.insideError(c.StillMine())
}

// insideError gives the answers of the worker their exit statuses. The word of a
// stop is the output, so that a script can tell a pause from a cancel.
func (d *Desk) insideError(err error) error {
	var stop *client.Stop
	switch {
	case err == nil:
		return nil
	case errors.As(err, &stop):
		if err := d.say("%s", stop.Word); err != nil {
			return err
		}
		return Exit(ExitTryAgain)
	case errors.Is(err, client.ErrNoTask):
		return fail(ExitNoInput, "", "%v", err)
	}
	return fail(ExitIO, "", "%v", err)
}
