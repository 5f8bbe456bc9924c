// Package nightshift holds what is shared by all rooms: the database's schema.
package nightshift

import _ "embed"

// Schema is schema.sql: the tables, the rules and the indexes of a database.
//
//go:embed schema.sql
var Schema string
