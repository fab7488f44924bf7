//go:build race

package grpcin

const raceEnabled = true
