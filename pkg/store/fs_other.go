//go:build !linux

package store

// networkFS knows the file systems of Linux only.
func networkFS(string) (kind string, network bool) { return "", false }
