package simcmd

import (
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
)

// events gathers what --events writes: the last minute, as the page keeps it.
type events struct {
	title   string
	history *watch.History
	state   watch.State
}

const (
	eventsSpan  = 60 * mono.Second
	eventsBytes = 1 << 30
)

func newEvents(p *scenario.Plan) *events {
	s := &p.Scenario
	return &events{title: fmt.Sprintf("simulation: %s, %d models, %d GPUs, %g requests/s", s.Policy, len(s.Models), s.GPUs, s.Rate),
		history: watch.NewHistory(eventsSpan, eventsBytes)}
}

func (k *events) take(e *watch.Event) {
	k.state.Apply(e)
	k.history.Add(e)
}

// document begins with the surroundings: what told of them first may be forgotten.
func (k *events) document() []byte {
	doc := watch.NewHead("sim", k.title, 0).Append(nil)
	surroundings := k.state.Surroundings(k.history.From())
	for i := range surroundings {
		doc = surroundings[i].Append(doc)
	}
	doc, _ = k.history.AppendPlain(doc, 0, math.MaxUint64, math.MaxInt)
	return doc
}
