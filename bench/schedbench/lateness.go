package schedbench

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/transport/histogram"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
)

// latenessRate is moderate: what is measured is waiting, not work.
const latenessRate = 100_000

// Compared is the same load without and with something that disturbs.
type Compared struct {
	What          string
	Bare          Spread // beside nothing: a bare thread, placed as the loops are, that sleeps for 200 us at a time
	Without, With *Point
	Collector     *Collector `json:",omitempty"`
}

// Collector is what Go's garbage collector did in the run with the large heap.
type Collector struct {
	LiveBytes, GarbagePerSecond int64 // as made
	GOGC                        int64
	MemoryLimit                 int64 // bytes; the largest number: none
	Cycles                      uint32
	PauseMax                    float64 // us
}

func (b *bench) moderate() Config {
	cfg := b.plan.Config
	if cfg.Rate == 0 {
		cfg.Rate = latenessRate
	}
	return cfg
}

// pair measures without and with.
func (b *bench) pair(what string, disturb func() (end func() error, err error)) (*Compared, error) {
	c := &Compared{What: what}
	if b.plan.Tell("a bare thread's sleeps", 0, ""); b.ctx.Err() == nil {
		c.Bare = bareSleeps(b.moderate().Placement.Cores, min(b.plan.Duration, 3*mono.Second))
	}
	var err error
	if c.Without, err = Live(b.ctx, b.moderate(), b.plan.Tell); err != nil {
		return nil, err
	}
	end, err := disturb()
	if err != nil {
		return nil, err
	}
	c.With, err = Live(b.ctx, b.moderate(), b.plan.Tell)
	if e := end(); err == nil {
		err = e
	}
	return c, err
}

// bareSleeps is how late a thread wakes up that does nothing but sleep: what the
// machine itself adds, and no scheduler can be better than.
func bareSleeps(cores []int, d mono.Dur) Spread {
	var late histogram.Histogram
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ring.Lock() // never unlocked: the thread ends with the goroutine
		if len(cores) > 0 && ring.Pin(cores[0]) == nil {
			ring.Prefer()
		}
		var w ring.Waiter
		for now, end := mono.Now(), mono.Now().Add(d); now < end; now = mono.Now() {
			until := now.Add(200 * mono.Microsecond)
			w.Arm()
			w.Wait(until)
			late.Add(mono.Now().Sub(until))
		}
	}()
	<-ended
	c := late.Snapshot()
	return spreadOf(&c)
}

func (b *bench) disturbed() (err error) {
	before := b.plan.Placement
	defer func() { b.plan.Placement = before }()
	if runtime.NumCPU() < 2 {
		return fmt.Errorf("a second processor is needed for --disturb, there is 1")
	}
	if runtime.NumCPU() < 4 && len(b.plan.Placement.Cores) == 0 {
		b.plan.Placement.Cores = []int{0, 0} // as who has neighbours would pin the loops: away from them
	}
	what := fmt.Sprintf("a process keeps processor 1 busy %.0f %% of the time", 100*b.plan.Disturb)
	b.r.Lateness, err = b.pair(what, func() (func() error, error) { return b.plan.Disturber(b.plan.Disturb) })
	return err
}

func (b *bench) heaped() (err error) {
	gc := &Collector{LiveBytes: b.plan.Heap, GOGC: gogc(), MemoryLimit: debug.SetMemoryLimit(-1)}
	what := fmt.Sprintf("a heap of %d MiB of live pointers and %d MiB/s of garbage", b.plan.Heap>>20, b.plan.Garbage>>20)
	var before debug.GCStats
	b.r.Heap, err = b.pair(what, func() (func() error, error) {
		h := newHeap(b.plan.Heap)
		runtime.GC()
		debug.ReadGCStats(&before)
		began := time.Now()
		h.litter(b.plan.Garbage)
		return func() error {
			err := h.end()
			gc.GarbagePerSecond = int64(float64(h.made.Load()) / time.Since(began).Seconds())
			return err
		}, nil
	})
	if b.r.Heap == nil {
		return err
	}
	var after debug.GCStats
	debug.ReadGCStats(&after)
	gc.Cycles = uint32(after.NumGC - before.NumGC)
	for i, d := range after.Pause {
		if int64(i) < after.NumGC-before.NumGC {
			gc.PauseMax = max(gc.PauseMax, micros(mono.Dur(d)))
		}
	}
	b.r.Heap.Collector = gc
	return err
}

func gogc() int64 {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// node is one of a heap that is all pointers: 64 bytes.
type node struct{ to [8]*node }

// heap is what an application that embeds the scheduler may have beside it.
type heap struct {
	roots []*node
	stop  atomic.Bool
	made  atomic.Int64 // bytes of garbage
	ended chan struct{}
	last  *node // the latest garbage, so that the compiler must make it
}

// newHeap makes so many bytes of nodes that point at each other far and wide.
func newHeap(bytes int64) *heap {
	n := max(1, bytes/64/8192)
	h := &heap{ended: make(chan struct{})}
	x := uint64(1)
	for range n {
		block := make([]node, 8192)
		for i := range block {
			for k := range block[i].to {
				x = x*6364136223846793005 + 1442695040888963407
				block[i].to[k] = &block[x>>51]
			}
		}
		if len(h.roots) > 0 {
			block[0].to[0] = h.roots[x>>33%uint64(len(h.roots))]
		}
		h.roots = append(h.roots, &block[0])
	}
	return h
}

// litter makes garbage until end.
func (h *heap) litter(perSecond int64) {
	go func() {
		defer close(h.ended)
		const turn = 5 * time.Millisecond
		n := int(perSecond / 64 / int64(time.Second/turn))
		for next := time.Now(); !h.stop.Load(); time.Sleep(time.Until(next)) {
			for range n {
				h.last = &node{}
			}
			h.made.Add(int64(n) * 64)
			next = next.Add(turn) // what a pause held up is made up for
		}
	}()
}

func (h *heap) end() error {
	h.stop.Store(true)
	<-h.ended
	runtime.KeepAlive(h.roots)
	h.roots = nil
	return nil
}

// Print writes the distributions.
func (c *Compared) Print(to io.Writer) {
	fmt.Fprintf(to, "Lateness at %.0f requests/s, %d GPUs; loops: %s\ndisturbance: %s\n", c.Without.OfferedRate, c.Without.GPUs, c.Without.Placement, c.What)
	w := report.Table(to)
	fmt.Fprintln(w, "us\tsamples\tp50\tp99\tp99.9\tp99.99\tmax\tbad rate\t")
	row := func(name string, s *Spread, bad float64) {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%.4f %%\t\n", name, s.Samples, report.Micros(s.P50), report.Micros(s.P99), report.Micros(s.P999), report.Micros(s.P9999), report.Micros(s.Max), 100*bad)
	}
	row("without, a bare thread's sleeps", &c.Bare, 0)
	for _, r := range c.runs() {
		row(r.name+", grant: due by its exec until it left the rank loop", &r.p.Grants, r.p.BadRate)
		row("order: due by its last request until it left the model loop", &r.p.Lateness, r.p.BadRate)
	}
	w.Flush()
	if g := c.Collector; g != nil {
		limit := "none"
		if g.MemoryLimit < 1<<50 {
			limit = fmt.Sprintf("%d MiB", g.MemoryLimit>>20)
		}
		fmt.Fprintf(to, "  %d MiB of garbage made a second; GOGC %d, memory limit %s: %d collections meanwhile, longest pause %s us\n", g.GarbagePerSecond>>20, g.GOGC, limit, g.Cycles, report.Micros(g.PauseMax))
	}
	for _, r := range c.runs() {
		fmt.Fprintf(to, "grants, %s:\n", r.name)
		r.p.Grants.Print(to)
	}
}

// comparedRun is one of the two.
type comparedRun struct {
	name string
	p    *Point
}

func (c *Compared) runs() []comparedRun {
	out := []comparedRun{{"without", c.Without}}
	if c.With != nil {
		out = append(out, comparedRun{"with", c.With})
	}
	return out
}
