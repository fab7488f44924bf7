package server

import (
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// modelCount counts a model's requests, over its moves, until its id is another's.
type modelCount struct {
	came, served, late, cancelled atomic.Uint64
	dropped                       [wire.ReasonCount]atomic.Uint64
	cold, warm                    atomic.Uint64 // where its pool is paged: as in sink

	// Guarded by Server.mu: what was told last, and the rate since.
	told  counted
	rate  float64 // requests/s, smoothed
	fresh bool    // controllers have not been told of the last looks
}

// counted is a look at the counters.
type counted struct{ came, served, late, dropped, cancelled uint64 }

func (c *modelCount) look() counted {
	all := counted{c.came.Load(), c.served.Load(), c.late.Load(), 0, c.cancelled.Load()}
	for i := range c.dropped {
		all.dropped += c.dropped[i].Load()
	}
	return all
}

// drop counts a request that has no output. One of best effort counts with those that were cancelled: the bad rate, by
// which GPUs are added, is of requests with deadlines.
func (c *modelCount) drop(class wire.Class, reason wire.Reason) {
	if class == wire.ClassBestEffort {
		c.cancelled.Add(1)
		return
	}
	c.dropped[reason].Add(1)
}

// waiting is what has come and is not answered yet.
func (c counted) waiting() int {
	return int(max(0, int64(c.came-c.served-c.late-c.dropped-c.cancelled)))
}

// rateKeeps is what the rate counts of what it was a second before: it averages over some
// seconds, like the need (batching.Need).
const rateKeeps = 0.8

// second takes a look each second: true when there is something new.
func (c *modelCount) second(passed mono.Dur) bool {
	now := c.look()
	fresh := float64(now.came-c.told.came) / passed.Seconds()
	quiet := now == c.told && c.rate == 0
	if c.rate = c.rate*rateKeeps + fresh*(1-rateKeeps); c.rate < 1e-3 {
		c.rate = 0
	}
	c.told = now
	return !quiet
}

// count finds a model's counters without a lock; nil: it is not served.
func (s *Server) count(id wire.ModelID) *modelCount {
	routes := *s.routes.Load()
	if int(id) >= len(routes) {
		return nil
	}
	return routes[id].count
}

// flights are the deadlines of a loop's batches under way, by the batches' records.
type flights struct{ of []flight }

// flight is a batch's: of more than eight requests, those of each eighth.
type flight struct {
	batch wire.BatchID
	size  int
	at    [eighths]mono.Time
}

const eighths = 8

func (f *flights) begin(d *shard.Dispatch) {
	i := int(d.Batch & 0xffff)
	for i >= len(f.of) {
		f.of = append(f.of, flight{})
	}
	b := &f.of[i]
	b.batch, b.size = d.Batch, len(d.Requests)
	for k := range min(b.size, eighths) {
		at := k
		if b.size > eighths {
			at = k * b.size / eighths
		}
		b.at[k] = d.Requests[at].Deadline
	}
}

// end is how many of its requests were answered late.
func (f *flights) end(d *engine.Done) int {
	i := int(d.Batch & 0xffff)
	if i >= len(f.of) || f.of[i].batch != d.Batch {
		return 0
	}
	b, n := &f.of[i], 0
	for k := range min(b.size, eighths) {
		if b.at[k] < d.End {
			n++
		}
	}
	if b.size > eighths {
		return n * b.size / eighths
	}
	return n
}
