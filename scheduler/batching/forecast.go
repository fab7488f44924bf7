package batching

import "github.com/symphony-serving/symphony/transport/mono"

const (
	// forecastBatches bounds a forecast: what lies beyond is extrapolated.
	forecastBatches = 16
	// lossUnit is one lost request: forecasts count in fractions of requests.
	lossUnit = 64
	// supplyMemory is how many batches the supply estimate averages over.
	supplyMemory = 8
)

// supply estimates how many GPUs the model really gets: the GPU time that its
// batches take per span of time. Two decayed sums, no clock of its own.
type supply struct {
	busy, span mono.Dur
	last       mono.Time // start of the batch before
}

// add takes a batch of the given length that starts at start. A long pause
// counts as two lengths: it tells that the model was idle, not that GPUs were
// scarce.
func (s *supply) add(start mono.Time, length mono.Dur) {
	gap := min(max(0, start.Sub(s.last)), 2*length)
	s.last = start
	s.busy += length - s.busy/supplyMemory
	s.span += gap - s.span/supplyMemory
}

// gap is the time until the next GPU is granted, when batches of this length
// run: by what was seen, but not worse than the model's share of the GPUs.
func (s *supply) gap(length mono.Dur, share int) mono.Dur {
	g := length / mono.Dur(share)
	if s.busy > 0 {
		const scale = 1024 // keeps the product below 2^63 for an hour's batch
		g = min(g, length*(s.span*scale/s.busy)/scale)
	}
	return max(g, 1)
}

// losses forecasts how many of the waiting requests will be lost if the first
// `skip` are given up now and a GPU comes at start and one gap after the other.
// With hold, later batches give up heads for the target too.
//
// A batch changes when GPUs come only when its own GPU comes back: the next
// share-1 gaps are those of the batches that run already, which are taken to
// be target batches; after that, gaps follow the sizes forecast. O(log n) for
// each of forecastBatches batches.
func (m *Model) losses(skip int, start mono.Time, hold bool) int {
	p, share, n := m.cfg.Profile, max(1, m.cfg.GPUs), m.queue.Len()
	i, lost, t := skip, skip, start
	for k := 0; k < forecastBatches && i < n; k++ {
		first := m.queue.Below(int64(t.Add(p.Latency(1))))
		if hold {
			if j := m.queue.Below(int64(t.Add(p.Latency(m.target)))); n-j >= m.target {
				first = j
			}
		}
		if first > i {
			lost += first - i
			i = first
		}
		if i == n {
			break
		}
		b := min(p.Largest(m.deadline(i).Sub(t), 0), n-i)
		i += b
		if k < share-1 {
			b = m.target
		}
		t = t.Add(m.supply.gap(p.Latency(b), share))
	}
	return lossUnit * lost * n / max(1, i)
}
