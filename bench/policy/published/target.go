package published

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	window  = 50 * mono.Millisecond
	windows = 100
)

// meter counts a model's arrivals in the last windows. They begin with the
// first arrival, and are closed when somebody looks.
type meter struct {
	counts []int // of closed windows, a ring; empty: no arrival yet
	next   int   // index in counts of the window to close
	closed int   // windows, at most len(counts)
	total  int   // arrivals in them
	since  mono.Time
	count  int // arrivals in the open window
}

// roll closes the windows that are over by now, and reports whether one was.
func (w *meter) roll(now mono.Time) bool {
	if len(w.counts) == 0 || now.Sub(w.since) < window {
		return false
	}
	over := now.Sub(w.since) / window
	w.since = w.since.Add(over * window)
	for range min(over, windows+1) { // the open one and as many as count
		w.total += w.count - w.counts[w.next]
		w.counts[w.next] = w.count
		w.next = (w.next + 1) % windows
		w.closed = min(w.closed+1, windows)
		w.count = 0
	}
	return true
}

// hit counts an arrival; what is over by now has been rolled.
func (w *meter) hit(now mono.Time) {
	if len(w.counts) == 0 {
		w.counts, w.since = make([]int, windows), now
	}
	w.count++
}

// gather is how long b requests take to arrive at the mean rate.
func (w *meter) gather(b int) mono.Dur {
	if w.total == 0 {
		return mono.Second * 1e6
	}
	return mono.Dur(b) * mono.Dur(w.closed) * window / mono.Dur(w.total)
}

// retarget sets the target anew when a window has been closed.
func (m *model) retarget(now mono.Time, delay batching.Delay) {
	if m.meter.roll(now) {
		m.target = target(m.profile, m.slo-delay.Ctrl, delay.Data, m.meter.gather)
	}
}

// target is the batch size that the window drop holds: the largest that the
// budget bears where batches of the next size at this rate are staggered on
// n = rate*l(b)/b GPUs. If that is no more than one GPU: the largest that
// gathers and runs within the budget.
//
// The code has l(b)*(1 + 1/max(n, 1)). With l(b)/n = b/rate, which is how long b
// requests take to gather, that is l(b) + min(l(b), gather(b)), and n is over 1
// where gather(b) < l(b).
func target(p *profile.Profile, budget, perItem mono.Dur, gather func(b int) mono.Dur) int {
	b, l, g := 0, mono.Dur(0), mono.Dur(0)
	for b < p.MaxBatch() {
		l, g = p.Latency(b+1), gather(b+1)
		if l+min(l, g)+perItem*mono.Dur(b+1) > budget {
			break
		}
		b++
	}
	if g < l {
		return max(1, b)
	}
	for b = 1; b < p.MaxBatch(); b++ {
		if p.Latency(b+1)+gather(b+1)+perItem*mono.Dur(b+1) > budget {
			break
		}
	}
	return b
}
