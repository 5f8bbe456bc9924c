// Package failpoint names the points at which a process may die.
//
// Hit stands between two steps of the protocol that must not tear apart (claim,
// checkpoint, finish, takeover …). In the product it is an empty function. In a
// build with the tag `failpoint` a test can kill or stop the process there, and
// sees which points were passed. Nothing is decided by a failpoint, and the tagged
// build alone knows the variable that arms them.
package failpoint
