//go:build race

package rdmalink_test

const raceEnabled = true
