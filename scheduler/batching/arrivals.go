package batching

import "github.com/symphony-serving/symphony/transport/mono"

// arrivals estimates how fast requests come: decayed sums, without a clock of
// its own.
type arrivals struct {
	fresh int // requests since the last batch

	// Per batch, for the rate.
	begun   bool      // a batch has started
	batchAt mono.Time // start of the last one
	slow    rate
	quick   rate

	// Per request, for the gap.
	known      bool      // a request has come
	requestAt  mono.Time // arrival of the last one
	gap1, gap2 float64   // decayed sums of the gaps and of their squares, ns and ns^2
}

// rate is decayed requests over decayed time.
type rate struct {
	count int // in 1/countUnit
	span  mono.Dur
}

const (
	countUnit = 64
	// slowMemory and quickMemory are how many batches the rates average over. A
	// short memory takes a burst for the load, and sheds what would have passed;
	// a long one takes a surge for a burst, and lets batches shrink to one. So the
	// slow rate counts, until the quick one is surgePercent of it.
	slowMemory, quickMemory = 512, 64
	surgePercent            = 140
	// gapMemory is how many requests the gap averages over.
	gapMemory = 1024
	// pauseMax: a longer pause counts as so many SLOs. The load before it must not
	// make the load after it look small.
	pauseMax = 4
)

func (r *rate) add(count int, span mono.Dur, memory int) {
	r.count += countUnit*count - r.count/memory
	r.span += span - r.span/mono.Dur(memory)
}

// perSpan is requests per unit of time, 0 when not known.
func (r *rate) perSpan() float64 {
	if r.span <= 0 {
		return 0
	}
	return float64(r.count) / countUnit / float64(r.span)
}

// rate is requests per nanosecond; 0 when not known.
func (a *arrivals) rate() float64 {
	slow, quick := a.slow.perSpan(), a.quick.perSpan()
	if 100*quick > surgePercent*slow {
		return quick
	}
	return slow
}

// request takes the arrival of a request.
func (a *arrivals) request(now mono.Time, slo mono.Dur) {
	a.fresh++
	if !a.known {
		a.known, a.requestAt = true, now
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
	if a.begun {
		pause := min(max(0, start.Sub(a.batchAt)), pauseMax*slo)
		a.slow.add(a.fresh, pause, slowMemory)
		a.quick.add(a.fresh, pause, quickMemory)
	}
	a.begun, a.batchAt, a.fresh = true, max(a.batchAt, start), 0
}
