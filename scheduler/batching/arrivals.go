package batching

import "github.com/symphony-serving/symphony/transport/mono"

// arrivals estimates how fast requests come: decayed sums, without a clock of
// its own.
type arrivals struct {
	known bool // a batch has started: rate means something
	fresh int  // requests since the last batch

	// Per batch: for the rate.
	batchAt mono.Time // start of the last one
	count   int       // decayed requests, in 1/countUnit
	span    mono.Dur  // decayed time

	// Per request: for gap.
	requestAt  mono.Time // arrival of the last one
	gap1, gap2 float64   // decayed sums of the gaps and of their squares, ns and ns^2
	begun      bool      // a request has come: the next one's gap counts
}

const (
	// arrivalsMemory is how many batches the rate averages over. Shorter memories
	// take a burst for the load, and shed what would have passed.
	arrivalsMemory = 512
	countUnit      = 64
	// gapMemory is how many requests the gap averages over.
	gapMemory = 1024
	// pauseMax: a longer pause counts as so many SLOs. The load before it must not
	// make the load after it look small.
	pauseMax = 4
)

// request takes the arrival of a request.
func (a *arrivals) request(now mono.Time, slo mono.Dur) {
	a.fresh++
	if !a.begun {
		a.begun, a.requestAt = true, now
		return
	}
	g := float64(min(max(0, now.Sub(a.requestAt)), pauseMax*slo))
	a.requestAt = now
	a.gap1 += g - float64(a.gap1/gapMemory)
	a.gap2 += float64(g*g) - float64(a.gap2/gapMemory)
}

// gap is how long it takes for a request to come while one waits for it: the
// mean time to the next arrival from a random instant, which is sum(g^2) /
// (2*sum(g)) over the gaps g. Where arrivals are even it is about 1/rate; where
// they come in bursts it is longer, since most of the time lies between bursts.
func (a *arrivals) gap() mono.Dur {
	if a.gap1 <= 0 {
		return 1
	}
	return max(1, mono.Dur(a.gap2/float64(2*a.gap1)))
}

// batch takes the start of a batch: the requests since the one before are
// counted over the time since then.
func (a *arrivals) batch(start mono.Time, slo mono.Dur) {
	if !a.known {
		a.known, a.batchAt, a.fresh = true, start, 0
		return
	}
	pause := min(max(0, start.Sub(a.batchAt)), pauseMax*slo)
	a.batchAt = start
	a.count += countUnit*a.fresh - a.count/arrivalsMemory
	a.span += pause - a.span/arrivalsMemory
	a.fresh = 0
}
