package tuner

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/invariants"
)

// long is for tests that simulate for many seconds. Under the race detector they would take
// minutes, and nothing here runs in parallel: the assertions, which are on there, are
// checked by the shorter tests.
func long(t *testing.T) {
	t.Helper()
	if invariants.Enabled || testing.Short() {
		t.Skip("long: run it without the race detector")
	}
}
