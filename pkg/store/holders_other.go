//go:build !linux

package store

// Holders is known to Linux only (/proc/locks).
func (s *Store) Holders() ([]LockHolder, error) { return nil, nil }
