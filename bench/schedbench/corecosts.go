package schedbench

import (
	"fmt"
	"io"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/transport/mono"
)

// CoreCosts is what the bare cores take on one thread, in ns per request.
type CoreCosts struct {
	GPUs, Models int
	Rate         float64
	Turn         float64 // us between two looks; 0: at every event
	Requests     uint64
	MeanBatch    float64
	BadRate      float64
	Total        float64 // with the driver: tape, GPUs, virtual clock
	Driver       float64 // what is no stage's
	Stages       []Stage
	Calls        []Stage // the same by calls
}

// Stage is one stage's part.
type Stage struct {
	Name       string
	PerRequest float64 // ns
	Calls      float64 // per request
	PerCall    float64 // ns
}

func (c *CoreCosts) totals(r, before *rig, spent mono.Dur) {
	n := float64(r.requests - before.requests)
	c.Total = float64(spent) / n
	c.MeanBatch = float64(r.batched-before.batched) / float64(max(1, r.batches-before.batches))
	c.BadRate = float64(r.dropped-before.dropped+r.late-before.late) / n
}

// stages sums the timed calls up. The six stages are those of a request's life:
//
//	enqueue    into a slot and its model's queue   Shard.Enqueue
//	candidate  formed anew, timer, told if changed Shard.Settle, Shard.Wake
//	inform     the rank takes the candidate        Rank.SetCandidate
//	rank       a GPU for it, and the answer        Rank.Step, Rank.Answer
//	grant      the batch is finished               Shard.Granted
//	complete   its end is taken                    Shard.Completed, Rank.Done
func (c *CoreCosts) stages(r *rig, requests float64) {
	w := &r.watch
	names := [callCount]string{"Shard.Enqueue", "Shard.Settle", "Shard.Wake", "Shard.Granted", "Shard.Completed", "Rank.SetCandidate", "Rank.Step", "Rank.Answer", "Rank.Done"}
	for k := range callCount {
		n := float64(w.n[k]) / requests
		c.Calls = append(c.Calls, Stage{names[k], w.perCall(k) * n, n, w.perCall(k)})
	}
	for _, s := range []struct {
		name  string
		calls []call
	}{{"enqueue", []call{callEnqueue}}, {"candidate", []call{callSettle, callWake}}, {"inform", []call{callSetCandidate}},
		{"rank", []call{callStep, callAnswer}}, {"grant", []call{callGranted}}, {"complete", []call{callCompleted, callDone}}} {
		stage := Stage{Name: s.name, Calls: c.Calls[s.calls[0]].Calls}
		for _, k := range s.calls {
			stage.PerRequest += c.Calls[k].PerRequest
		}
		stage.PerCall = stage.PerRequest / max(stage.Calls, 1e-9)
		c.Stages = append(c.Stages, stage)
	}
}

// Sum is that of the stages.
func (c *CoreCosts) Sum() float64 {
	sum := 0.0
	for _, s := range c.Stages {
		sum += s.PerRequest
	}
	return sum
}

// call finds a call's costs.
func (c *CoreCosts) call(k call) Stage { return c.Calls[k] }

// Print writes the tables for people.
func (c *CoreCosts) Print(to io.Writer) {
	fmt.Fprintf(to, "Bare cores on one thread: %d GPUs, %d models, %.0f requests/s of virtual time, %d requests, batches of %.1f, bad rate %.3f %%\n",
		c.GPUs, c.Models, c.Rate, c.Requests, c.MeanBatch, 100*c.BadRate)
	if c.Turn > 0 {
		fmt.Fprintf(to, "  in turns of %.0f us, as a loop under load looks: one candidate a model and turn\n", c.Turn)
	} else {
		fmt.Fprintln(to, "  at every event: a candidate for each request")
	}
	w := report.Table(to)
	fmt.Fprintln(w, "stage\tns/request\ttimes per request\tns each\t")
	row := func(s Stage) { fmt.Fprintf(w, "%s\t%.1f\t%.3f\t%.0f\t\n", s.Name, s.PerRequest, s.Calls, s.PerCall) }
	for _, s := range c.Stages {
		row(s)
	}
	fmt.Fprintf(w, "driver: tape, GPUs, clock\t%.1f\t\t\t\n", c.Driver)
	fmt.Fprintf(w, "in all, timed as a whole\t%.1f\t\t\t\n", c.Total)
	w.Flush()
	w = report.Table(to)
	fmt.Fprintln(w, "call\tns/request\ttimes per request\tns each\t")
	for _, s := range c.Calls {
		row(s)
	}
	w.Flush()
}
