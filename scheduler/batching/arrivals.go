package batching

import "github.com/symphony-serving/symphony/transport/mono"

// arrivals estimates how fast requests come, from the starts of the model's
// batches: decayed sums, without a clock of its own.
type arrivals struct {
	fresh int       // requests since the last batch
	last  mono.Time // start of the last batch
	n     int       // batches so far, up to gapMemory
	count int       // decayed requests, in 1/countUnit
	span  mono.Dur  // decayed time
	gap   mono.Dur  // see batch
}

const (
	// arrivalsMemory is how many batches the rate averages over. Shorter memories
	// take a burst for the load, and shed what would have passed.
	arrivalsMemory = 512
	gapMemory      = 64
	countUnit      = 64
	// pauseMax: a longer pause between two batches counts as so many SLOs. The
	// load before it must not make the load after it look small.
	pauseMax = 4
)

// batch takes the start of a batch of b: the requests since the one before
// are counted over the time since then.
//
// gap is the time for a request to come while one waits: the mean over batches
// of the time that each took to gather, per request. Where arrivals are even
// it is 1/rate. Where they come in bursts it is longer: most batches begin after
// the burst that filled them, and waiting brings them little.
func (a *arrivals) batch(start mono.Time, b int, slo mono.Dur) {
	pause := min(max(0, start.Sub(a.last)), pauseMax*slo)
	a.last = start
	a.count += countUnit*a.fresh - a.count/arrivalsMemory
	a.span += pause - a.span/arrivalsMemory
	a.fresh = 0
	a.n = min(a.n+1, gapMemory)
	a.gap += (pause/mono.Dur(b) - a.gap) / mono.Dur(a.n)
}
