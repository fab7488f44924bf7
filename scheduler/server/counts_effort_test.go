package server

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/wire"
)

// What is refused of best effort is in no bad rate.
func TestBestEffortIsNotBad(t *testing.T) {
	var c modelCount
	c.came.Add(2)
	c.drop(wire.ClassBestEffort, wire.ReasonFull)
	c.drop(wire.ClassLatency, wire.ReasonFull)
	if k := c.look(); k.dropped != 1 || k.waiting() != 0 {
		t.Errorf("%+v: want one dropped, and none that waits", k)
	}
}
