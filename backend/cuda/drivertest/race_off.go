//go:build !race

package drivertest

// race: the race detector is on.
const race = false
