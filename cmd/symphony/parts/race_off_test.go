//go:build !race

package parts

const raceEnabled = false
