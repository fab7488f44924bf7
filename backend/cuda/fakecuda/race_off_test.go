//go:build !race

package fakecuda_test

const raceEnabled = false
