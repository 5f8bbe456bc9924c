//go:build !linux

package store

// watch polls: inotify is Linux's.
func (s *Store) watch() { s.poll() }
