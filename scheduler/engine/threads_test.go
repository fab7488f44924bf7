package engine

import (
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// fleet is engines on common threads, with models that move, and a routing table.
type fleet struct {
	t       *testing.T
	threads *Threads

	mu      sync.RWMutex // Guards what follows: who submits holds it for reading.
	engines []*Engine    // by FirstLoop
	sinks   []*devices   // likewise; those of engines that were stopped go on in past
	past    []*devices
	route   map[wire.ModelID]int // -1: removed
	removed int
}

func (f *fleet) begin(i int) {
	d := newDevices(uint64(i), 0.1)
	e, _ := start(f.t, Config{Threads: f.threads, FirstLoop: i, GPUsMax: 8, RequestsMax: 1 << 10, TunerShare: 0.02 * float64(i%2)}, d, 0, 1+i%3)
	f.engines[i], f.sinks[i] = e, d
}

func (f *fleet) add(m wire.ModelID, i int) {
	if err := f.engines[i].AddModel(m, batching.Config{Profile: line(f.t, 1, 4), SLO: 60 * mono.Millisecond, QueueMax: 1 << 10}); err != nil {
		f.t.Error(err)
	}
}

// change does something at random to the catalogue or the engines. One goroutine, as the members are
// in one; the routes change under mu, the engines' own work goes on.
func (f *fleet) change(r *rand.Rand, models int) {
	m := wire.ModelID(r.IntN(models)*97 + 5)
	f.mu.RLock()
	from, to := f.route[m], r.IntN(len(f.engines))
	f.mu.RUnlock()
	set := func(to int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.route[m] = to
	}
	switch k := r.IntN(20); {
	case from < 0:
		f.add(m, to)
		set(to)
	case k == 0:
		set(-1)
		f.removed++
		f.engines[from].RemoveModel(m, wire.ReasonUnavailable)
	case k == 1: // an engine ends, and another one begins with its number
		var left []wire.ModelID
		for id, at := range f.route {
			if at == to {
				left = append(left, id)
			}
		}
		next := (to + 1) % len(f.engines)
		for _, id := range left {
			f.add(id, next)
			if err := f.engines[to].HandOver(id, f.engines[next]); err != nil {
				f.t.Error(err)
			}
		}
		f.mu.Lock()
		for _, id := range left {
			f.route[id] = next
		}
		f.mu.Unlock()
		f.engines[to].Stop()
		f.mu.Lock()
		f.past = append(f.past, f.sinks[to])
		f.begin(to)
		f.mu.Unlock()
	case from != to:
		f.add(m, to)
		if err := f.engines[from].HandOver(m, f.engines[to]); err != nil {
			f.t.Error(err)
		}
		set(to)
	}
}

// submit offers requests until the end, and tells how many were accepted.
func (f *fleet) submit(end time.Time, first, models int) (accepted int) {
	r := rand.New(rand.NewPCG(uint64(first), 9))
	for ; time.Now().Before(end); time.Sleep(time.Millisecond) {
		for range 2 {
			m := wire.ModelID(r.IntN(models)*97 + 5)
			f.mu.RLock()
			if at := f.route[m]; at >= 0 && f.engines[at].Submit(m, request(first+accepted, 60*mono.Millisecond)) {
				accepted++
			}
			f.mu.RUnlock()
		}
	}
	return accepted
}

// 64 engines on two threads: while models are added, removed and handed over at random and engines
// end and begin anew, each request that is accepted has one answer.
func TestManyEnginesOnTwoThreads(t *testing.T) {
	defer goleak.VerifyNone(t)
	const engines, models, submitters, most = 64, 150, 3, 1 << 20
	f := &fleet{t: t, threads: NewThreads(Placement{Joined: true, ThreadsMax: 2}), engines: make([]*Engine, engines), sinks: make([]*devices, engines), route: map[wire.ModelID]int{}}
	for i := range engines {
		f.begin(i)
	}
	for n := range models {
		m := wire.ModelID(n*97 + 5)
		f.add(m, n%engines)
		f.route[m] = n % engines
	}
	if n := f.threads.live.Load(); n != 2 {
		t.Errorf("%d threads, want 2", n)
	}
	end := time.Now().Add(3 * time.Second)
	var wg sync.WaitGroup
	var accepted [submitters]int
	for s := range submitters {
		wg.Go(func() { accepted[s] = f.submit(end, 1+s*most, models) })
	}
	changes := 0
	for r := rand.New(rand.NewPCG(8, 8)); time.Now().Before(end); changes++ {
		f.change(r, models)
		time.Sleep(time.Millisecond)
	}
	wg.Wait()
	time.Sleep(100 * time.Millisecond)
	for _, e := range f.engines {
		e.Stop()
	}
	if n := f.threads.live.Load(); n != 0 {
		t.Errorf("%d threads are left", n)
	}
	answers, served, reasons := map[wire.RequestID]int{}, 0, map[wire.Reason]int{}
	for _, d := range append(f.past, f.sinks...) {
		d.wait()
		for id, n := range d.answers {
			answers[id] += n
		}
		for r, n := range d.reasons {
			reasons[r] += n
		}
		served += d.served
	}
	total := 0
	for s, n := range accepted {
		total += n
		for i := range n {
			if got := answers[wire.RequestID(1+s*most+i)]; got != 1 {
				t.Fatalf("request %d of submitter %d has %d answers, want 1", i, s, got)
			}
		}
	}
	t.Logf("%d requests, %d served, dropped %v; %d changes, %d engines ended on the way", total, served, reasons, changes, len(f.past))
	if served < total/2 || changes < 100 || len(f.past) == 0 || reasons[wire.ReasonUnknownModel] > 3*f.removed { // those in the ring when their model was removed
		t.Errorf("%d of %d served, %d changes, %d ends, dropped %v: too few to tell, or models were not found", served, total, changes, len(f.past), reasons)
	}
}

// Engines get threads of their own while there are cores, and ride then, evenly; a thread ends with its
// last loop and its place is used again.
func TestSeats(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, c := range map[string]struct {
		place Placement
		loops int
		live  []int // threads after each engine
	}{
		"two cores":             {Placement{Joined: true, ThreadsMax: 2}, 1, []int{1, 2, 2, 2}},
		"one core, three loops": {Placement{Joined: true, ThreadsMax: 1}, 3, []int{3, 3, 3}},
		"five cores":            {Placement{ThreadsMax: 5}, 1, []int{2, 4, 4, 4}},
		"no limit":              {Placement{}, 2, []int{3, 6, 9}},
	} {
		t.Run(name, func(t *testing.T) {
			ts := NewThreads(c.place)
			var es []*Engine
			for i, live := range c.live {
				e, _ := start(t, Config{Threads: ts, ModelLoops: c.loops, FirstLoop: i * c.loops, GPUsMax: 4}, newDevices(1, 0), 1, 1)
				if es = append(es, e); int(ts.live.Load()) != live {
					t.Errorf("%d threads with %d engines, want %d", ts.live.Load(), i+1, live)
				}
			}
			least, most := 1<<20, 0
			for _, th := range ts.list {
				least, most = min(least, th.loops), max(most, th.loops)
			}
			if most > least+1+c.loops {
				t.Errorf("threads have from %d to %d loops", least, most)
			}
			es[0].Stop()
			again, _ := start(t, Config{Threads: ts, ModelLoops: c.loops, GPUsMax: 4}, newDevices(1, 0), 1, 1)
			if last := c.live[len(c.live)-1]; int(ts.live.Load()) != last || len(ts.list) != last {
				t.Errorf("%d threads in %d places after one engine came for another, want %d", ts.live.Load(), len(ts.list), last)
			}
			for _, e := range append(es, again) {
				e.Stop()
			}
			if ts.live.Load() != 0 {
				t.Errorf("%d threads are left", ts.live.Load())
			}
		})
	}
}

// A report of an engine that was stopped finds no batch of the one that has its loops' numbers now,
// although both began to count.
func TestLateReportOfAnEngineBefore(t *testing.T) {
	defer goleak.VerifyNone(t)
	var ids [2]wire.BatchID
	var last *Engine
	for i := range ids {
		sink := &lastBatch{}
		e, err := New(Config{Margin: margin, GPUsMax: 4, FirstLoop: 7}, sink)
		if err != nil {
			t.Fatal(err)
		}
		e.Start()
		defer e.Stop()
		p, err := profile.Linear(1, 1, 1) // batches of one are full: they start at once
		if err != nil {
			t.Fatal(err)
		}
		if err := e.AddModel(0, batching.Config{Profile: p, SLO: 3600 * mono.Second, QueueMax: 4}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.AddGPU(0, mono.Now()); err != nil {
			t.Fatal(err)
		}
		if !e.Submit(0, request(1, 3600*mono.Second)) {
			t.Fatal("refused")
		}
		waitFor(t, "a batch", func() bool { return sink.batch.Load() != 0 })
		ids[i] = wire.BatchID(sink.batch.Load())
		if last = e; i == 0 {
			e.Stop()
		}
	}
	used := func() int { return last.Stats().Models[0].Used }
	last.Done(Done{Batch: ids[0], End: mono.Now(), Ran: 1})
	last.SetDelay(batching.Delay{}) // comes after it
	time.Sleep(20 * time.Millisecond)
	if used() != 1 {
		t.Errorf("batches %x and %x: the first one's report ended the second", ids[0], ids[1])
	}
	last.Done(Done{Batch: ids[1], End: mono.Now(), Ran: 1})
	waitFor(t, "the batch's own report", func() bool { return used() == 0 })
}

// What one engine does wakes no other on its thread, and idle ones use no processor.
func TestIdleEnginesCostNothing(t *testing.T) {
	defer goleak.VerifyNone(t)
	ts := NewThreads(Placement{Joined: true, ThreadsMax: 1})
	busy := newDevices(1, 0)
	e, _ := start(t, Config{Threads: ts, GPUsMax: 4}, newDevices(1, 0), 1, 1)
	works, _ := start(t, Config{Threads: ts, GPUsMax: 4, FirstLoop: 1, TunerShare: 0.02}, busy, 1, 2)
	var idle []*Engine
	for i := range 62 {
		e, _ := start(t, Config{Threads: ts, GPUsMax: 4, FirstLoop: 2 + i, TunerShare: 0.02}, newDevices(1, 0), 3, 2)
		idle = append(idle, e)
	}
	time.Sleep(100 * time.Millisecond)
	turns := func() (n uint64) {
		for _, e := range idle {
			s := e.Stats()
			n += s.Rank.Turns + s.Models[0].Turns
		}
		return n
	}
	before := turns()
	accepted := offer(works, 1, 500, 300*time.Millisecond)
	if n := turns() - before; n != 0 {
		t.Errorf("the idle engines made %d turns while another one worked", n)
	}
	time.Sleep(1300 * time.Millisecond) // its tuner goes to sleep
	var u [2]syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u[0])
	time.Sleep(time.Second)
	syscall.Getrusage(syscall.RUSAGE_SELF, &u[1])
	cpu := time.Duration(u[1].Utime.Nano() + u[1].Stime.Nano() - u[0].Utime.Nano() - u[0].Stime.Nano())
	t.Logf("64 idle engines: %v of a processor in a second", cpu)
	if cpu > 200*time.Millisecond {
		t.Errorf("64 idle engines used %v of a processor in a second", cpu)
	}
	for _, e := range append(idle, e, works) {
		e.Stop()
	}
	busy.wait()
	busy.checkOnce(t, accepted)
}
