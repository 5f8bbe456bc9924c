//go:build race

package model

// raced: the race detector makes the search ten times slower and finds nothing in
// it, for nothing here runs at the same time.
const raced = true
