package httpbench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Job is what the generator is asked for, as JSON where it is another process.
type Job struct {
	Address     string
	Request     []byte
	Connections int
	Depth       int // requests in flight on each: HTTP pipelining
	Span        time.Duration
}

// Load is what came of a Job.
type Load struct {
	Span    float64       // seconds
	OK      int64         // replies with status 200
	Refused map[int]int64 `json:",omitempty"` // other replies, by status
	P50     float64       // ms from sending to the reply, of all
	P99     float64
}

// Rate is requests served a second.
func (l *Load) Rate() float64 { return float64(l.OK) / l.Span }

// patience is how long a reply may take.
const patience = 30 * time.Second

// generator is a job under way.
type generator struct {
	job    Job
	bundle []byte // Depth requests
	ctx    context.Context
	fail   context.CancelCauseFunc
	ok     atomic.Int64
	spans  [stripes]stripe

	mu      sync.Mutex // Guards refused.
	refused map[int]int64
}

// stripe is the spans of some of the connections.
type stripe struct {
	mu    sync.Mutex
	spans *report.Spans
}

// stripes are enough for processors not to wait for each other's, and few enough for the
// memory of each.
const stripes = 16

// Generate runs a job: all connections are open before the clock starts. Where ctx ends
// it earlier, the Load is that of the span until then.
func Generate(ctx context.Context, j Job) (*Load, error) {
	g := &generator{job: j, refused: map[int]int64{}}
	for i := range g.spans {
		g.spans[i].spans = report.NewSpans(mono.Nanosecond)
	}
	for range j.Depth {
		g.bundle = append(g.bundle, j.Request...)
	}
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for i := range j.Connections {
		c, err := net.Dial("tcp", j.Address)
		if err != nil {
			return nil, fmt.Errorf("connection %d of %d: %w", i+1, j.Connections, err)
		}
		conns = append(conns, c)
	}
	var stop context.CancelFunc
	ctx, g.fail = context.WithCancelCause(ctx)
	start := mono.Now() // before the span begins to count: it is never shorter than asked for
	g.ctx, stop = context.WithTimeout(ctx, j.Span)
	defer stop()
	defer g.fail(nil)
	var all sync.WaitGroup
	for i, c := range conns {
		all.Go(func() { g.drive(c, &g.spans[i%stripes]) })
	}
	<-g.ctx.Done()
	l := &Load{Span: mono.Now().Sub(start).Seconds(), OK: g.ok.Load()} // what comes later is beyond the span
	all.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return nil, err
	}
	spans := report.NewSpans(mono.Nanosecond)
	for i := range g.spans {
		spans.Merge(g.spans[i].spans)
	}
	l.P50, l.P99, l.Refused = spans.Percentile(50).Millis(), spans.Percentile(99).Millis(), g.refused
	return l, nil
}

// drive keeps one connection busy until the job's end.
func (g *generator) drive(c net.Conn, to *stripe) {
	r := replies{b: make([]byte, 4<<10)}
	for g.ctx.Err() == nil {
		if err := g.bundleOnce(c, &r, to); err != nil {
			g.fail(err)
			return
		}
	}
}

// bundleOnce sends Depth requests and takes their replies.
func (g *generator) bundleOnce(c net.Conn, r *replies, to *stripe) error {
	start := mono.Now()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := c.Write(g.bundle); err != nil {
		return err
	}
	for range g.job.Depth {
		status, err := r.next(c)
		if err != nil {
			return err
		}
		took := mono.Now().Sub(start)
		to.mu.Lock()
		to.spans.Add(took)
		to.mu.Unlock()
		if status == 200 {
			g.ok.Add(1)
			continue
		}
		g.mu.Lock()
		g.refused[status]++
		g.mu.Unlock()
	}
	return nil
}
