package ingress

import (
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/symphony-serving/symphony/transport/mono"
)

// There are two kinds of "not now", and clients and balancers treat them differently:
//
//	429  too many: something bounded is full, or more waits than the GPUs can serve in time (shed). The
//	     server is well and others are served: come back after Retry-After.
//	503  this server or the model does not serve now (no backend, no scheduler, starting, draining): elsewhere,
//	     or here after a pause; with Retry-After. Without it the request's own time was over.
//
// gRPC has them as RESOURCE_EXHAUSTED, UNAVAILABLE and DEADLINE_EXCEEDED.

// pause is what to wait where nothing is known of how long it takes.
const pause = time.Second

// afterLeast is the least to wait for what was full: what a fast model takes is no pause for who was refused.
const afterLeast = 250 * time.Millisecond

// retryAfterMs has what Retry-After can say in whole seconds only; some clients know it.
const retryAfterMs = "Retry-After-Ms"

// after is when it may be worth to ask again for a model that was full: what those that were served
// lately took from arrival to answer, since all that waits now has gone by then. Where none was,
// the model's SLO: by then it was answered or given up. model "": of all together. Who is refused waits for once
// to twice that (spread).
func (s *Server) after(model, version string) time.Duration {
	if model == "" {
		if d := s.stats.took.now(); d > 0 {
			return d
		}
		return pause
	}
	if d := s.stats.lately(model, version); d > 0 {
		return d
	}
	if e, err := s.cfg.Client.Model(model, version); err == nil && e.Spec.SLO > 0 {
		return e.Spec.SLO.Std()
	}
	return pause
}

// spread is once to twice what to wait, afterLeast at least, by chance: who was refused together does not come
// back together.
func spread(after time.Duration) time.Duration {
	after = max(after, afterLeast)
	return after + rand.N(after)
}

// lately is what the model's requests took lately; of several versions the longest. 0: none was served.
func (s *statistics) lately(model, version string) (d time.Duration) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for m := s.models[model]; m != nil; m = m.next {
		if version == "" || m.version == version {
			d = max(d, m.took.now())
		}
	}
	return d
}

// took is a mean of durations in which the last ones weigh most. Any number of goroutines may use it; one
// that adds while another does may be lost.
type took struct {
	mean atomic.Int64 // nanoseconds
	last atomic.Int64 // when one was added; 0: never
}

const (
	tookWeight = 16               // the newest one's, inverse
	tookKept   = 10 * mono.Second // what is older says nothing of now
)

func (t *took) add(d time.Duration) {
	now, mean := int64(mono.Now()), t.mean.Load()
	if t.stale(mono.Time(now)) {
		mean = int64(d)
	}
	t.mean.Store(mean + (int64(d)-mean)/tookWeight)
	t.last.Store(now)
}

// now is the mean; 0: nothing was added lately.
func (t *took) now() time.Duration {
	if t.stale(mono.Now()) {
		return 0
	}
	return time.Duration(t.mean.Load())
}

func (t *took) stale(now mono.Time) bool {
	last := mono.Time(t.last.Load())
	return last == 0 || now.Sub(last) > tookKept
}

// writeAfter says when the request may come again.
func writeAfter(ctx *fasthttp.RequestCtx, after time.Duration) {
	h := &ctx.Response.Header
	h.Set("Retry-After", strconv.FormatInt(ceil(after, time.Second), 10))
	h.Set(retryAfterMs, strconv.FormatInt(ceil(after, time.Millisecond), 10))
}

// ceil is d in units, rounded up.
func ceil(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }
