//go:build race

package cuda_test

// raceEnabled: the detector allocates.
const raceEnabled = true
