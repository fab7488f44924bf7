package netbench

import "github.com/symphony-serving/symphony/transport/mono"

// Result is what a run has measured. Spans are in microseconds.
type Result struct {
	Config      Setting
	Interrupted bool
	Ways        []WayResult
}

// Setting is what the run was told.
type Setting struct {
	Servers  int
	Objects  int     // of each server
	Size     int     // bytes of each object
	Duration float64 // seconds of incast, for each way; 0: Rounds
	Rounds   int
}

// WayResult is what one way did.
type WayResult struct {
	Name   string
	Incast Incast
	Alone  Spread // one READ, nothing else under way
	Echo   []Echo
	Flood  []Flood
}

// Incast is READs of all objects at once, round after round.
type Incast struct {
	Round   Spread  // from the first Read to the last byte
	Read    Spread  // of each of a round's READs
	Bytes   int64   // of objects
	Seconds float64 // of rounds, without what lies between them
	Rate    float64 // GB/s while a round runs
	Client  float64 // processor time of the client, ns per byte
	Servers float64 // of all servers together
	Machine float64 `json:",omitzero"` // of the whole machine, whoever used it
}

// Echo is the round trip of one shape of message.
type Echo struct {
	Shape
	Spread
}

// Flood is the rate of messages one way.
type Flood struct {
	Bytes  int // of a message
	Count  int64
	PerSec float64
}

// tally gathers a WayResult.
type tally struct {
	round, read, alone samples
	bytes              int64
	busy               mono.Dur
	cpu                usage
	echoes             []samples
	floods             []flooded
}

type flooded struct {
	count int64
	took  mono.Dur
}

func newTally() *tally {
	t := &tally{round: newSamples(), read: newSamples(), alone: newSamples()}
	for range echoShapes() {
		t.echoes = append(t.echoes, newSamples())
	}
	t.floods = make([]flooded, len(floodSizes()))
	return t
}

// forget drops what the warm-up measured.
func (t *tally) forget() { *t = *newTally() }

// result sums up; what was not measured is left out.
func (t *tally) result(name string) WayResult {
	r := WayResult{Name: name, Alone: t.alone.spread()}
	r.Incast = Incast{Round: t.round.spread(), Read: t.read.spread(), Bytes: t.bytes, Seconds: t.busy.Seconds()}
	if t.bytes > 0 {
		per := func(d mono.Dur) float64 { return float64(d) / float64(t.bytes) }
		r.Incast.Rate = float64(t.bytes) / float64(t.busy) // bytes per ns
		r.Incast.Client, r.Incast.Servers = per(t.cpu.client), per(t.cpu.servers)
		if t.cpu.known {
			r.Incast.Machine = per(t.cpu.machine)
		}
	}
	for i, s := range echoShapes() {
		if d := t.echoes[i].spread(); d.Samples > 0 {
			d.Curve = nil // no picture shows it
			r.Echo = append(r.Echo, Echo{s, d})
		}
	}
	for i, n := range floodSizes() {
		if f := t.floods[i]; f.took > 0 {
			r.Flood = append(r.Flood, Flood{n, f.count, float64(f.count) / f.took.Seconds()})
		}
	}
	return r
}
