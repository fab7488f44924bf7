// Package invariants has the assertions of the scheduling cores. They are on
// under the build tag `invariants` and under the race detector, and cost
// nothing otherwise: Check is then an empty function that the compiler drops.
//
// An assertion is about a bug of ours and panics. What comes from outside (a
// bad profile, a late report, a full queue) is answered by value instead.
package invariants
