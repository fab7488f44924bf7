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
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// devices is a Sink with emulated GPUs: a batch takes as long as planned, give
// or take the jitter, and is then reported.
type devices struct {
	engine   *Engine
	jitter   float64
	mu       sync.Mutex
	rand     *rand.Rand
	dead     map[wire.GPUID]bool
	busy     map[wire.GPUID]mono.Time // end of what runs
	answers  map[wire.RequestID]int
	served   int
	reasons  map[wire.Reason]int
	overlaps int
	running  int                     // batches that are not reported yet
	ends     func(wire.BatchID) bool // under mu; false: with its GPU's life it has ended before. nil: dead tells
}

func newDevices(seed uint64, jitter float64) *devices {
	return &devices{jitter: jitter, rand: rand.New(rand.NewPCG(seed, 5)), dead: map[wire.GPUID]bool{}, busy: map[wire.GPUID]mono.Time{},
		answers: map[wire.RequestID]int{}, reasons: map[wire.Reason]int{}}
}

func (d *devices) Drop(_ int, r *batching.Drop) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers[r.Request.ID]++
	d.reasons[r.Reason]++
}

func (d *devices) Flush(int)                        {}
func (d *devices) Completed(int, *shard.Run, *Done) {}

func (d *devices) Dispatch(_ int, b *shard.Dispatch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead[b.GPU] {
		return // an order that crossed the GPU's end: Lost queues it again
	}
	length := b.Until.Sub(b.Exec)
	length += mono.Dur(float64(length) * d.jitter * (d.rand.Float64() - 0.5))
	start := max(b.Exec, mono.Now(), d.busy[b.GPU])
	end := start.Add(length)
	d.busy[b.GPU] = end
	ids := make([]wire.RequestID, len(b.Requests))
	for i, r := range b.Requests {
		ids[i] = r.ID
	}
	d.running++
	batch, gpu := b.Batch, b.GPU
	time.AfterFunc(end.Sub(mono.Now()).Std(), func() {
		d.finish(batch, gpu, ids, end)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.running--
	})
}

// wait waits until nothing runs. On a busy machine the engine may begin another batch just then:
// only after its Stop nothing more comes.
func (d *devices) wait() {
	for {
		d.mu.Lock()
		n := d.running
		d.mu.Unlock()
		if n == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (d *devices) finish(batch wire.BatchID, gpu wire.GPUID, ids []wire.RequestID, end mono.Time) {
	d.mu.Lock()
	if d.dead[gpu] || d.ends != nil && !d.ends(batch) {
		d.mu.Unlock()
		return
	}
	for _, id := range ids {
		d.answers[id]++
		d.served++
	}
	d.mu.Unlock()
	d.engine.Done(Done{Batch: batch, End: end, Fetch: 50 * mono.Microsecond, Ran: len(ids)})
}

func line(t testing.TB, alpha, beta float64) *profile.Profile {
	p, err := profile.Linear(mono.FromMillis(alpha), mono.FromMillis(beta), 32)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// margin of the engines in tests: the configuration's default.
const margin = 250 * mono.Microsecond

// start makes a running engine with models of 60 ms SLO and GPUs.
func start(t testing.TB, cfg Config, d *devices, models, gpus int) (*Engine, []GPU) {
	t.Helper()
	cfg.Margin = margin
	e, err := New(cfg, d)
	if err != nil {
		t.Fatal(err)
	}
	d.engine = e
	e.Start()
	return e, fill(t, e, models, gpus)
}

// fill adds models and GPUs.
func fill(t testing.TB, e *Engine, models, gpus int) []GPU {
	t.Helper()
	for m := range models {
		if err := e.AddModel(wire.ModelID(m), batching.Config{Profile: line(t, 1, 4), SLO: 60 * mono.Millisecond, QueueMax: 1 << 14}); err != nil {
			t.Fatal(err)
		}
	}
	e.SetDelay(batching.Delay{Ctrl: 200 * mono.Microsecond})
	var lives []GPU
	for g := range gpus {
		life, err := e.AddGPU(wire.GPUID(g), mono.Now())
		if err != nil {
			t.Fatal(err)
		}
		lives = append(lives, life)
	}
	return lives
}

// offer submits at a steady rate and returns the number of requests accepted.
func offer(e *Engine, models int, rate float64, span time.Duration) (accepted int) {
	return offerFrom(e, 0, models, rate, span)
}

// offerFrom is offer after so many others.
func offerFrom(e *Engine, before, models int, rate float64, span time.Duration) (accepted int) {
	r := rand.New(rand.NewPCG(1, 2))
	for begin := time.Now(); time.Since(begin) < span; time.Sleep(time.Millisecond) {
		for due := int(time.Since(begin).Seconds() * rate); accepted < due; accepted++ {
			now := mono.Now()
			m := wire.ModelID(r.IntN(models))
			q := batching.Request{ID: wire.RequestID(before + accepted + 1), Model: m, Arrival: now, Deadline: now.Add(60 * mono.Millisecond)}
			for !e.Submit(m, &q) {
				time.Sleep(100 * time.Microsecond)
			}
		}
	}
	return accepted
}

// ran is how many requests were served so far.
func (d *devices) ran() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.served
}

func (d *devices) checkOnce(t *testing.T, accepted int) {
	d.wait() // also for what the engine began just before its Stop
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range accepted {
		if n := d.answers[wire.RequestID(i+1)]; n != 1 {
			t.Fatalf("request %d has %d answers, want 1 (served %d, dropped %v)", i+1, n, d.served, d.reasons)
		}
	}
}

// A live run, with GPUs that end early and late and one that is lost, is
// replayed on bare cores: the same grants, the same batches.
func TestReplayGivesTheSameGrants(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, cfg := range map[string]Config{"1 loop": {}, "3 loops": {ModelLoops: 3}, "joined": {Placement: Placement{Joined: true}}, "3 loops joined": {ModelLoops: 3, Placement: Placement{Joined: true}},
		"polling": {Placement: Placement{ModelPoll: 50 * mono.Microsecond, RankPoll: mono.Millisecond}}, "dozing": {Placement: Placement{Doze: 200 * mono.Microsecond}}} {
		t.Run(name, func(t *testing.T) {
			cfg.Record, cfg.GPUsMax, cfg.RequestsMax = NewRecording(), 64, 1<<12
			d := newDevices(7, 0.3)
			e, gpus := start(t, cfg, d, 5, 4)
			time.AfterFunc(400*time.Millisecond, func() {
				d.mu.Lock()
				d.dead[1] = true
				d.mu.Unlock()
				e.RemoveGPU(gpus[1])
			})
			accepted := offer(e, 5, 1500, 900*time.Millisecond)
			for more := 0; d.ran() < 100 && more < 20; more++ { // a busy machine serves fewer in a second
				accepted += offerFrom(e, accepted, 5, 1500, 300*time.Millisecond)
			}
			time.Sleep(150 * time.Millisecond)
			d.wait()
			e.Stop()
			d.checkOnce(t, accepted)
			grants, batches, err := cfg.Record.Replay(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if grants < 50 || batches < 50 {
				t.Fatalf("only %d grants and %d batches compared", grants, batches)
			}
			t.Logf("%d requests, %d served, dropped %v; %d grants and %d batches equal", accepted, d.served, d.reasons, grants, batches)
		})
	}
}

// A replay of a log that was tampered with must not pass.
func TestReplaySeesADifference(t *testing.T) {
	cfg := Config{Record: NewRecording(), GPUsMax: 8}
	d := newDevices(1, 0)
	e, _ := start(t, cfg, d, 1, 2)
	offer(e, 1, 500, 200*time.Millisecond)
	time.Sleep(100 * time.Millisecond)
	d.wait()
	e.Stop()
	for log, i := &cfg.Record.models[0].submissions, 0; i < log.len(); i++ {
		r := &log.at(i).Request
		r.Deadline = r.Deadline.Add(-20 * mono.Millisecond)
	}
	if _, _, err := cfg.Record.Replay(cfg); err == nil {
		t.Fatal("earlier deadlines gave the same batches")
	}
}

func TestStopAnswersWhatWaits(t *testing.T) {
	defer goleak.VerifyNone(t)
	d := newDevices(1, 0)
	e, _ := start(t, Config{}, d, 1, 1)
	q := batching.Request{ID: 1, Deadline: mono.Now().Add(3600 * mono.Second)}
	if !e.Submit(0, &q) {
		t.Fatal("refused")
	}
	e.Stop()
	d.checkOnce(t, 1)
	if d.reasons[wire.ReasonDraining] != 1 {
		t.Fatalf("reasons %v, want one draining", d.reasons)
	}
	if e.Submit(0, &q) {
		t.Fatal("a stopped engine took a request")
	}
}

// Submits that race with Stop are refused or answered, never lost.
func TestSubmitsAmongStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	for round := range 50 {
		d := newDevices(uint64(round), 0)
		e, _ := start(t, Config{GPUsMax: 8, RequestsMax: 1 << 12}, d, 1, 1)
		var accepted sync.Map
		var wg sync.WaitGroup
		for p := range 4 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := range 200 {
					id := wire.RequestID(p*1000 + i + 1)
					if e.Submit(0, &batching.Request{ID: id, Deadline: mono.Now().Add(3600 * mono.Second)}) {
						accepted.Store(id, true)
					}
				}
			}()
		}
		e.Stop()
		wg.Wait()
		d.wait()
		accepted.Range(func(id, _ any) bool {
			if n := d.answers[id.(wire.RequestID)]; n != 1 {
				t.Fatalf("round %d: request %v was accepted and has %d answers", round, id, n)
			}
			return true
		})
	}
}

func TestRefusals(t *testing.T) {
	d := newDevices(1, 0)
	e, gpus := start(t, Config{}, d, 1, 1)
	defer e.Stop()
	e.RemoveGPU(gpus[0])
	now := mono.Now()
	e.Submit(0, &batching.Request{ID: 1, Deadline: now.Add(mono.Second)})
	e.Submit(9, &batching.Request{ID: 2, Deadline: now.Add(mono.Second)})
	for begin := time.Now(); time.Since(begin) < 5*time.Second; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		done := d.reasons[wire.ReasonUnavailable] == 1 && d.reasons[wire.ReasonUnknownModel] == 1
		d.mu.Unlock()
		if done {
			return
		}
	}
	t.Fatalf("reasons %v, want one unavailable (no GPU) and one unknown_model", d.reasons)
}

// An engine with nothing to do uses no CPU.
func TestIdleUsesNoCPU(t *testing.T) {
	for _, cfg := range []Config{{ModelLoops: 4}, {ModelLoops: 4, TunerShare: 0.02}, {Placement: Placement{Joined: true, Doze: 50 * mono.Microsecond, ModelPoll: 20 * mono.Microsecond}}} {
		idleUsesNoCPU(t, cfg)
	}
}

func idleUsesNoCPU(t *testing.T, cfg Config) {
	d := newDevices(1, 0)
	e, _ := start(t, cfg, d, 20, 64)
	defer e.Stop()
	time.Sleep(50 * time.Millisecond)
	var before, after syscall.Rusage
	turns := e.Stats()
	syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	time.Sleep(time.Second)
	syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	used := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	t.Logf("CPU used in an idle second: %v", used)
	if used > 200*time.Millisecond { // of a core's second; a loop that spins uses all of it
		t.Errorf("an idle engine used %v of CPU in a second", used)
	}
	if n := e.Stats().Rank.Turns - turns.Rank.Turns; n > 5 {
		t.Errorf("the idle rank loop made %d turns in a second", n)
	}
}

// However many changes of settings wait, the rings keep room for the grants and
// reports that can be under way: on a shared thread the rank loop must never wait.
func TestOrdersLeaveRoom(t *testing.T) {
	t.Run("orders", func(t *testing.T) { flood(t, func(e *Engine) { e.SetDelay(batching.Delay{}) }) })
	t.Run("reports", func(t *testing.T) { flood(t, func(e *Engine) { e.Done(Done{Batch: 1}) }) })
}

func flood(t *testing.T, order func(*Engine)) {
	e, err := New(Config{Margin: margin, GPUsMax: 8, Placement: Placement{Joined: true}}, newDevices(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	l, done := e.loops[0], make(chan struct{}) // the engine is not started: nothing is taken out
	go func() {
		defer close(done)
		for range l.commands.Cap() {
			order(e)
		}
	}()
	most := l.commands.Cap() - e.inFlight()
	for begin := time.Now(); l.commands.Len() < most-ordersAtOnce; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("only %d orders were taken, room for %d", l.commands.Len(), most)
		}
	}
	time.Sleep(20 * time.Millisecond)
	if n := l.commands.Len(); n > most {
		t.Errorf("%d orders lie in a ring of %d: no room for %d grants and reports", n, l.commands.Cap(), e.inFlight())
	}
	l.stop.Store(true) // orders are given up then
	<-done
}
