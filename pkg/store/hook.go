package store

import (
	"sync"

	"nightshift/pkg/task"
)

// Hook is asked inside the transaction of a change; the task that it returns, if
// any, is inserted in the same transaction, so that neither can be without the other.
// It must not call the store.
type Hook func(event string, t *task.Task) (NewTask, bool)

// EventLost is the hook event of a change to LOST; the others are the final states.
const EventLost = "lost"

type hooks struct {
	mu sync.RWMutex
	on map[string]bool
	h  Hook
}

// SetHook has h asked at the events ("FAILED", "DEAD", "CANCELLED", "SUCCESS",
// "lost"), whatever path of this process makes the change. A nil h asks nobody.
func (s *Store) SetHook(events []string, h Hook) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.on, s.hooks.h = map[string]bool{}, h
	for _, e := range events {
		s.hooks.on[e] = h != nil
	}
}

func eventOf(to task.Status) string {
	if to == task.Lost {
		return EventLost
	}
	return string(to)
}

// fire asks the hook about a task that just changed to a status. A hook's task
// that is refused must not undo the change: it is logged.
func (s *Store) fire(c *conn, id string, to task.Status, st stamp) error {
	s.hooks.mu.RLock()
	on, h := s.hooks.on[eventOf(to)], s.hooks.h
	s.hooks.mu.RUnlock()
	if !on {
		return nil
	}
	t, err := getTask(c, id)
	if err != nil {
		return err
	}
	n, ok := h(eventOf(to), &t)
	if !ok {
		return nil
	}
	return s.insertHook(c, n, st)
}

func (s *Store) insertHook(c *conn, n NewTask, st stamp) error {
	if n.ID == "" {
		n.ID = task.NewID(st.at)
	}
	err := n.Check()
	if err == nil {
		err = insertTask(c, &n, st)
	}
	if err != nil && own(err) {
		s.log.Error("a hook's task was refused", "type", n.Type, "err", err)
		return nil
	}
	return err
}
