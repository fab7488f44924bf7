package server

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/transport/wire"
)

// Each reason has a counter of its own, and a drop for it is counted there.
func TestDropsOfEachReason(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	m, err := newMetrics(&Server{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Register(m.dropped); err != nil {
		t.Fatal(err)
	}
	for reason := wire.ReasonDeadline; int(reason) < wire.ReasonCount; reason++ {
		for range reason {
			m.drop(reason)
		}
	}
	m.drop(wire.Reason(wire.ReasonCount)) // of a later build
	families, err := r.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%d families, %v", len(families), err)
	}
	got := map[string]float64{}
	for _, c := range families[0].GetMetric() {
		got[c.GetLabel()[0].GetValue()] = c.GetCounter().GetValue()
	}
	for reason := wire.ReasonDeadline; int(reason) < wire.ReasonCount; reason++ {
		if got[reason.String()] != float64(reason) {
			t.Errorf("%v: %v drops, want %d", reason, got[reason.String()], reason)
		}
	}
	if len(got) != wire.ReasonCount-1 {
		t.Errorf("%v: want a counter for each of the %d reasons", got, wire.ReasonCount-1)
	}
}
