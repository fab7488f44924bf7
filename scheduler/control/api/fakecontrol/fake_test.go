package fakecontrol

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// The fake keeps the promises that it is there to hold others to.
func TestSuite(t *testing.T) {
	Suite(t, func(*testing.T) api.Control { return &Control{} })
}
