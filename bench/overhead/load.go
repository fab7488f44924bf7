package overhead

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
)

// System is what is measured: a client of parts in this process that tell the
// Recorder.
type System struct {
	Client   *frontend.Client
	Requests []frontend.Request // one per model, sent by chance; with their timeouts
	Recorder *Recorder
}

// outcome is what became of a load.
type outcome struct {
	offered  float64
	achieved float64  // answered per second of the load
	bad      float64  // share that was late, dropped or refused
	batch    float64  // mean size of the requests' batches
	lag      mono.Dur // mean, of the generator
}

// kept reports whether the rate was offered, and borne.
func (o outcome) kept() bool {
	return o.bad < BadMost && o.achieved > (1-BadMost)*o.offered && o.lag < lagMost
}

// lagMost is how late requests may be sent in the mean: beyond it the load is not the
// open loop that it should be, and says what the generator bears.
const lagMost = 2 * mono.Millisecond

// BadMost is the bad rate that a rate must stay below.
const BadMost = 0.01

// generator keeps an open-loop schedule and reuses what a request needs.
type generator struct {
	s      *System
	rng    *rand.Rand
	waiter ring.Waiter

	open    atomic.Int64
	bad     atomic.Int64
	all     atomic.Int64
	sizes   atomic.Int64
	mu      sync.Mutex // Guards spare.
	spare   []*shot
	record  bool
	measure atomic.Bool
	nap     mono.Dur   // the least that it sleeps
	every   int        // one request in so many is looked at
	counted int        // requests of the measured span
	lagSum  mono.Dur   // of those
	lags    []mono.Dur // how late requests were sent, one in every
}

// shot is one request under way. Two hold it, the sender until InferAsync has
// returned and the answer; who lets go last files it.
type shot struct {
	g       *generator
	holders atomic.Int32
	row     answered
	size    int64 // of its batch
	done    func(*frontend.Response, error)
}

// samplesMost is about how many requests of a load are looked at.
const samplesMost = 200000

// openMost bounds the open requests: beyond it the load is not borne anyway.
const openMost = 30000

func newGenerator(s *System, seed uint64) *generator {
	return &generator{s: s, rng: rand.New(rand.NewPCG(seed, 0x6f76))}
}

// run offers Poisson arrivals at a rate, of which those after the warm-up count.
func (g *generator) run(ctx context.Context, rate float64, warmup, d mono.Dur, record bool) outcome {
	g.record, g.lags = record, g.lags[:0]
	g.every = max(1, int(math.Ceil(rate*d.Seconds()/samplesMost)))
	if record {
		g.lags = slices.Grow(g.lags, int(1.1*rate*d.Seconds()/float64(g.every))+10)
	}
	g.counted, g.lagSum = 0, 0
	g.bad.Store(0)
	g.all.Store(0)
	g.sizes.Store(0)
	g.measure.Store(false)
	start := mono.Now()
	counted := start.Add(warmup)
	ended := make(chan int)
	go func() { ended <- g.offer(ctx, rate, start, counted, counted.Add(d)) }()
	refused := <-ended
	took := mono.Now().Sub(counted)
	for giveUp := mono.Now().Add(5 * mono.Second); g.open.Load() > 0 && mono.Now() < giveUp; {
		time.Sleep(time.Millisecond)
	}
	answered := float64(g.all.Load())
	failed := float64(refused) + float64(g.open.Load()) // not sent, or without an answer
	o := outcome{offered: rate, bad: 1}
	if all := answered + failed; answered > 0 {
		o.bad = (float64(g.bad.Load()) + failed) / all
		o.achieved = answered / took.Seconds()
		o.batch = float64(g.sizes.Load()) / answered
	}
	if g.counted > 0 {
		o.lag = g.lagSum / mono.Dur(g.counted)
	}
	return o
}

// offer sends the requests; it returns how many of those that count were not sent. Each
// is of a model by chance, so that every model's arrivals are Poisson, too, and leaves
// by a thread that wakes up on time (in groups of denseNap at high rates). Models in turn
// fill their batches all at once, and the runtime's timers end up to a millisecond late,
// with all that was due by then in a burst: both together had made the stages half as
// long again.
func (g *generator) offer(ctx context.Context, rate float64, start, counted, end mono.Time) (refused int) {
	ring.Lock() // never unlocked: the thread ends with the goroutine
	g.nap = 0
	if rate > denseRate {
		g.nap = denseNap
	}
	for next := start; next < end && g.sleepUntil(ctx, next); next = next.Add(mono.Dur(g.rng.ExpFloat64() / rate * 1e9)) {
		if next >= counted && !g.measure.Load() {
			if g.record {
				g.s.Recorder.begin(uint64(g.every))
			}
			g.measure.Store(true)
		}
		if g.open.Load() < openMost {
			g.send(next)
		} else if next >= counted {
			refused++
		}
	}
	return refused
}

// At rates beyond denseRate a wake-up for each request would take a good part of a
// processor from what is measured: it sleeps at least denseNap then, and sends what has
// become due.
const (
	denseRate = 40000 // requests/s
	denseNap  = 200 * mono.Microsecond
)

// lookMost is how long a wait may go without a look at its context.
const lookMost = 50 * mono.Millisecond

// sleepUntil waits for t, which may have passed; false: ctx has ended.
func (g *generator) sleepUntil(ctx context.Context, t mono.Time) bool {
	for now := mono.Now(); now < t && ctx.Err() == nil; now = mono.Now() {
		g.waiter.Arm()
		g.waiter.Wait(min(max(t, now.Add(g.nap)), now.Add(lookMost)))
	}
	return ctx.Err() == nil
}

func (g *generator) send(due mono.Time) {
	q := g.take()
	g.open.Add(1)
	q.holders.Store(2)
	q.row = answered{called: mono.Now()}
	lag := q.row.called.Sub(due)
	if g.measure.Load() {
		g.counted++
		g.lagSum += lag
		if g.record && g.counted%g.every == 0 && len(g.lags) < cap(g.lags) {
			g.lags = append(g.lags, lag)
		}
	}
	r := g.s.Requests[g.rng.IntN(len(g.s.Requests))]
	r.Timeout = max(1, r.Timeout-lag.Std()) // the SLO counts from the request's instant
	g.s.Client.InferAsync(context.Background(), r, q.done)
	q.row.sent = mono.Now()
	q.letGo()
}

// answer is every shot's done.
func (q *shot) answer(r *frontend.Response, err error) {
	now := mono.Now()
	q.row.done, q.size, q.row.bad = now, 0, err != nil || r.Slack < 0
	if err == nil {
		q.row.id, q.row.answer = r.Request, q.row.called.Add(mono.Dur(r.Total))
		q.size = int64(r.BatchSize)
		r.Release()
	}
	q.letGo()
}

func (q *shot) letGo() {
	if q.holders.Add(-1) > 0 {
		return
	}
	g := q.g
	if g.measure.Load() {
		g.all.Add(1)
		g.sizes.Add(q.size)
		if q.row.bad {
			g.bad.Add(1)
		}
		if g.record && g.s.Recorder.wants(q.row.id) {
			g.s.Recorder.answers.add(q.row)
		}
	}
	g.mu.Lock()
	g.spare = append(g.spare, q)
	g.mu.Unlock()
	g.open.Add(-1)
}

func (g *generator) take() *shot {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.spare); n > 0 {
		q := g.spare[n-1]
		g.spare = g.spare[:n-1]
		return q
	}
	q := &shot{g: g}
	q.done = q.answer
	return q
}
