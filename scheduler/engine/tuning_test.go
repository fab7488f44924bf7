package engine

import (
	"math"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/tuner"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
	"github.com/symphony-serving/symphony/transport/wire"
)

// count is how many changes of the setting the loops and the rank loop were told of.
func (r *Recording) count() (models, ranks int) {
	for _, log := range r.models {
		for i := range log.inputs.len() {
			if log.inputs.at(i).in.op == opSetSetting {
				models++
			}
		}
	}
	for i := range r.ranks.records.len() {
		if rec := r.ranks.records.at(i); !rec.step && rec.ev.op == rankSetting {
			ranks++
		}
	}
	return models, ranks
}

// A live run in which the setting changes, by the tuner's choice and otherwise, is replayed
// on bare cores: the same grants, the same batches.
func TestTunedReplayGivesTheSameGrants(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, cfg := range map[string]Config{"all": {}, "3 loops": {ModelLoops: 3}, "joined": {Placement: Placement{Joined: true}},
		"limited": {Headroom: rank.Headroom{Limited: true, Share: 0.25}}, "limited, 3 loops": {ModelLoops: 3, Headroom: rank.Headroom{Limited: true, Share: 1}}} {
		t.Run(name, func(t *testing.T) {
			cfg.Record, cfg.GPUsMax, cfg.RequestsMax, cfg.TunerShare = NewRecording(), 64, 1<<12, tuner.ShareDefault
			d := newDevices(7, 0.3)
			cfg.Margin = margin
			e, err := New(cfg, d)
			if err != nil {
				t.Fatal(err)
			}
			deferring(e)
			d.engine = e
			e.Start()
			fill(t, e, 5, 3)
			accepted := 0
			for round, rate := range []float64{100, 1500, 100, 1500} { // 3 GPUs carry some 1,000/s
				accepted += offerFrom(e, accepted, 5, rate, 300*time.Millisecond)
				settings := tuner.Settings()
				e.setSetting(settings[(3*round+4)%len(settings)])
			}
			time.Sleep(150 * time.Millisecond)
			d.wait()
			e.Stop()
			choice, spent, ok := e.Tuning()
			d.checkOnce(t, accepted)
			grants, batches, err := cfg.Record.Replay(cfg)
			if err != nil {
				t.Fatal(err)
			}
			models, ranks := cfg.Record.count()
			loops := max(1, cfg.ModelLoops)
			if grants < 50 || batches < 50 || models != loops*ranks || ranks < 5 {
				t.Fatalf("%d grants and %d batches compared, %d and %d settings told", grants, batches, models, ranks)
			}
			if !ok || ranks != 5+choice.Changes {
				t.Errorf("%d settings told, 5 and as many as the tuner's %d were to be", ranks, choice.Changes)
			}
			t.Logf("%d requests, %d served, dropped %v; %d grants and %d batches equal; %d settings, the tuner's choice %v, in %v", accepted, d.served, d.reasons, grants, batches, ranks, choice, spent)
		})
	}
}

// deferring lets a tuner begin with the whole deferral, so that it soon has something to choose.
func deferring(e *Engine) {
	settings := tuner.Settings()
	slices.Reverse(settings)
	e.tuning.tuner = tuner.New(tuner.Config{Scheduler: policy.Config{RequestsMax: e.cfg.RequestsMax}, Headroom: e.cfg.Headroom, Share: e.cfg.TunerShare, Settings: settings})
	e.tuning.choice = e.tuning.tuner.Choice()
}

// The tuner sees a load that comes and chooses anew; it is not asked where nothing may be early.
func TestTunerChooses(t *testing.T) {
	defer goleak.VerifyNone(t)
	d := newDevices(1, 0)
	e, err := New(Config{Margin: margin, GPUsMax: 8, TunerShare: 0.2}, d)
	if err != nil {
		t.Fatal(err)
	}
	if first, _, ok := e.Tuning(); !ok || first.Setting != tuner.Settings()[0] {
		t.Fatalf("%+v, %v", first, ok)
	}
	deferring(e)
	d.engine = e
	e.Start()
	defer e.Stop()
	fill(t, e, 2, 1)
	if first, _, ok := e.Tuning(); !ok || first.Setting != (batching.Setting{}) {
		t.Fatalf("%+v, %v", first, ok)
	}
	sent := 0
	for begin := time.Now(); ; {
		sent += offerFrom(e, sent, 2, 50, 200*time.Millisecond)
		choice, spent, _ := e.Tuning()
		if choice.Changes > 0 && spent > 0 {
			t.Logf("after %v: %v; %v spent", time.Since(begin), choice, spent)
			break
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("still %v", choice)
		}
	}
	e.Stop()
	d.wait()
	for _, cfg := range []Config{{}, {TunerShare: 0.02, Headroom: rank.Headroom{Limited: true}}} {
		cfg.Margin = margin
		e, err := New(cfg, d)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, ok := e.Tuning(); ok {
			t.Errorf("%+v has a tuner", cfg)
		}
	}
}

// Models, profiles, delays and GPUs change while the tuner runs and requests come, also such
// as nobody serves: nothing breaks, and after the end nothing gathers. (TestChanges has what is taken.)
func TestTunerAmongChanges(t *testing.T) {
	defer goleak.VerifyNone(t)
	d := newDevices(1, 0)
	e, _ := start(t, Config{GPUsMax: 8, RequestsMax: 1 << 12, ModelLoops: 2, TunerShare: 1}, d, 4, 2)
	end := time.Now().Add(700 * time.Millisecond)
	var wg sync.WaitGroup
	for _, f := range []func(){
		func() {
			id := wire.ModelID(4 + time.Now().UnixNano()%4)
			_ = e.AddModel(id, batching.Config{Profile: line(t, 1, 2), SLO: 30 * mono.Millisecond, QueueMax: 1 << 10})
			e.RemoveModel(id, wire.ReasonUnknownModel)
		},
		func() {
			for _, id := range []wire.ModelID{2, 9} {
				e.SetModel(id, batching.Config{Profile: line(t, 0.5, 3), SLO: 60 * mono.Millisecond, QueueMax: 1 << 10})
			}
		},
		func() { e.SetDelay(batching.Delay{Ctrl: 100 * mono.Microsecond}) },
		func() {
			g, err := e.AddGPU(3, mono.Now())
			if err != nil {
				t.Error(err)
			}
			e.RetireGPU(g)
			e.RemoveGPU(g)
		},
		func() { e.Tuning(); e.setSetting(batching.Setting{Haste: batching.HasteAll}) },
		func() {
			now := mono.Now()
			for m := range 40 {
				e.Submit(wire.ModelID(m%10), &batching.Request{ID: 1, Arrival: now, Deadline: now.Add(60 * mono.Millisecond)})
			}
			e.Submit(math.MaxUint32, &batching.Request{ID: 1, Arrival: now, Deadline: now.Add(60 * mono.Millisecond)})
		},
	} {
		wg.Go(func() {
			for time.Now().Before(end) {
				f()
				time.Sleep(time.Millisecond)
			}
		})
	}
	wg.Wait()
	time.Sleep(100 * time.Millisecond)
	e.Stop()
	d.wait()
	if choice, spent, _ := e.Tuning(); spent == 0 {
		t.Errorf("%v spent, %v", spent, choice)
	}
	e.SetDelay(batching.Delay{}) // who has not heard of the end yet
	if c := e.changes; !c.closed || c.delay != nil {
		t.Error("changes gather although nobody looks at them")
	}
}

// Requests that nobody serves are not among those that the tuner missed: they would stop its clock.
func TestTunerHearsOfServedModels(t *testing.T) {
	d := newDevices(1, 0)
	e, _ := start(t, Config{TunerShare: 0.02}, d, 2, 1)
	now := mono.Now()
	for i := range 30 {
		e.Submit(wire.ModelID(i%3), &batching.Request{ID: wire.RequestID(i + 1), Arrival: now, Deadline: now.Add(mono.Second)})
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		refused := d.reasons[wire.ReasonUnknownModel]
		d.mu.Unlock()
		if seen := e.loops[0].feed.seen.Load(); seen == 20 && refused == 10 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d requests seen, want 20; %d refused, want 10", seen, refused)
		}
	}
	e.Stop()
	d.wait()
}

// What nobody has looked at yet is what things have become, in the order that matters.
func TestChanges(t *testing.T) {
	e, err := New(Config{Margin: margin, TunerShare: 0.02}, newDevices(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	c := e.changes
	p, q := line(t, 1, 1), line(t, 1, 2)
	for range 1000 {
		for id := range wire.ModelID(3) {
			if err := e.AddModel(id, batching.Config{Profile: p, SLO: mono.Second}); err != nil {
				t.Fatal(err)
			}
		}
		e.SetModel(1, batching.Config{Profile: q, SLO: mono.Second})
		e.SetModel(7, batching.Config{Profile: q, SLO: mono.Second}) // is not served
		c.removeModel(2)
		c.setDelay(batching.Delay{Ctrl: 5})
		c.setGPUs(7)
		drainOrders(e)
	}
	if len(c.models) != 3 || c.models[0].added.Profile != p || c.models[1].added.Profile != q ||
		!c.models[2].removed || c.models[2].added != nil || c.delay.Ctrl != 5 || c.gpus != 7 {
		t.Errorf("%+v", c)
	}
	c.take(e.tuning.tuner, &e.tuning.names)
	if len(c.models) != 0 || c.delay != nil || c.gpus != -1 {
		t.Errorf("%+v after the look", c)
	}
	for range 2 { // the second time nothing
		c.take(e.tuning.tuner, &e.tuning.names)
	}
	(*changes)(nil).setGPUs(1) // without a tuner
}

// drainOrders empties the rings of an engine that was not started.
func drainOrders(e *Engine) {
	for _, l := range e.loops {
		for l.commands.Pop(&l.in) {
		}
	}
}

// Feeds that nobody empties fill up; then requests are counted and nothing waits. What was told
// late is not counted twice.
func TestFeedsFull(t *testing.T) {
	f := &feed{told: ring.NewGrowing[observation](feedLeast)}
	f.told.Grow(feedSize) // as far as it goes
	f.told.Ready()        // and there is nothing in the smaller one any more
	var taken []observation
	tell := func(n int) {
		for range n {
			f.tell(&observation{})
		}
	}
	for _, c := range []struct{ told, seen, taken, missed int }{
		{5, 5, 5, 0},
		{3, 0, 3, 0},                     // not yet counted
		{0, 3, 0, 0},                     // now it is
		{2, 10, 2, 8},                    // it was not asked to tell of more
		{feedSize + 100, 0, feedSize, 0}, // too many: the ring is full
		{0, feedSize + 100, 0, 100},      // those are missed
		{feedSize, 2 * feedSize, feedSize, feedSize},
	} {
		tell(c.told)
		f.seen.Add(uint64(c.seen))
		taken = taken[:0]
		if missed := f.take(&taken); missed != c.missed || len(taken) != c.taken {
			t.Errorf("%+v: took %d, missed %d", c, len(taken), missed)
		}
	}

	// The whole way: the tuner's thread does not run, and all requests are answered.
	d := newDevices(1, 0)
	e, err := New(Config{Margin: margin, GPUsMax: 8, TunerShare: 0.02}, d)
	if err != nil {
		t.Fatal(err)
	}
	d.engine = e
	e.run()
	e.tuning.state.Store(tunerAwake) // so nobody starts it
	close(e.tuning.ended)
	fill(t, e, 1, 1)
	const requests = feedSize + 5000
	for i := range requests {
		for now := mono.Now(); !e.Submit(0, &batching.Request{ID: wire.RequestID(i + 1), Arrival: now, Deadline: now.Add(60 * mono.Millisecond)}); {
			time.Sleep(10 * time.Microsecond)
		}
	}
	e.Stop()
	d.wait()
	d.checkOnce(t, requests)
	taken = taken[:0]
	missed := e.tuning.feeds[0].take(&taken)
	told := 0
	for _, o := range taken {
		if !o.pause() { // the host may stand still
			told++
		}
	}
	if len(taken) != feedSize || told+missed != requests {
		t.Errorf("%d told and %d missed of %d", told, missed, requests)
	}
}

// The tuner ends with the engine, wherever it is, also when its own orders wait for room.
func TestTunerStops(t *testing.T) {
	defer goleak.VerifyNone(t)
	for round := range 30 {
		d := newDevices(uint64(round), 0)
		e, _ := start(t, Config{GPUsMax: 8, RequestsMax: 1 << 10, TunerShare: 1}, d, 1, 1)
		e.Submit(0, request(1, mono.Second)) // it wakes up
		over := make(chan struct{})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
						e.setSetting(batching.Setting{})
					}
				}
			})
		}
		time.Sleep(time.Duration(round) * 300 * time.Microsecond)
		ended := make(chan struct{})
		go func() { defer close(ended); e.Stop() }()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Fatal("Stop does not end")
		}
		close(over)
		wg.Wait()
		d.wait()
	}
	e, err := New(Config{Margin: margin, TunerShare: 0.5}, newDevices(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	e.Stop() // never started
}

// The tuner takes no more of a processor than it may, over a second or so, and next to nothing
// where nothing comes.
func TestTunerShare(t *testing.T) {
	const share = 0.02
	d := newDevices(1, 0)
	e, _ := start(t, Config{GPUsMax: 64, TunerShare: share}, d, 20, 64)
	defer e.Stop()
	time.Sleep(200 * time.Millisecond)
	_, before, _ := e.Tuning()
	begin := time.Now()
	offerFrom(e, 0, 20, 5000, 2*time.Second)
	time.Sleep(150 * time.Millisecond)
	_, after, _ := e.Tuning()
	// Twice the share: a slice is counted in requests, and under the race detector one takes ten times as long.
	used, most := (after - before).Seconds(), 2*share*(time.Since(begin).Seconds()+1)
	t.Logf("%.4f s of a processor, at most %.4f s", used, most)
	if used > most {
		t.Errorf("%.4f s of a processor, may be %.4f", used, most)
	}
	d.wait()
	var u [2]syscall.Rusage
	_, before, _ = e.Tuning()
	syscall.Getrusage(syscall.RUSAGE_SELF, &u[0])
	time.Sleep(2 * time.Second)
	syscall.Getrusage(syscall.RUSAGE_SELF, &u[1])
	_, after, _ = e.Tuning()
	cpu := time.Duration(u[1].Utime.Nano() + u[1].Stime.Nano() - u[0].Utime.Nano() - u[0].Stime.Nano())
	t.Logf("after the load, in two seconds: %v of a processor, the tuner %v", cpu, after-before)
	if after-before > 100*mono.Millisecond || cpu > 400*time.Millisecond {
		t.Errorf("an idle engine used %v of CPU in two seconds, its tuner %v", cpu, after-before)
	}
}

func TestTunerConfig(t *testing.T) {
	for _, cfg := range []Config{{TunerShare: -0.1}, {TunerShare: 1.1}, {TunerShare: math.NaN()},
		{Headroom: rank.Headroom{Limited: true, Share: -1}}, {Headroom: rank.Headroom{Limited: true, Share: math.NaN()}}} {
		if _, err := New(cfg, newDevices(1, 0)); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}

// A loop that stood still says so, if somebody listens; the tuner hears of those of one loop, and a request more is not missed for it.
func TestFeedsTellPauses(t *testing.T) {
	e, err := New(Config{Margin: margin, GPUsMax: 8, ModelLoops: 2, TunerShare: 0.02}, newDevices(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	const begin = mono.Time(100 * mono.Second)
	tuning := e.tuning
	const ms = mono.Millisecond
	turn := func(loop int, from, took mono.Dur) { e.loops[loop].timed(begin.Add(from), begin.Add(from+took)) }
	tell := func(what string, from, took mono.Dur, want int) {
		turn(0, from, took)
		var got []observation
		if tuning.feeds[0].take(&got); len(got) != want {
			t.Errorf("%s: told %+v, want %d", what, got, want)
		}
	}
	tell("the tuner sleeps", 0, 3*ms, 0)
	tuning.state.Store(tunerAwake)
	tuning.feeds[0].listens.Store(false)
	tell("nobody listens", 10*ms, 3*ms, 0)
	tuning.feeds[0].listens.Store(true)
	tell("a pause", 20*ms, 3*ms, 1)
	tell("no pause", 24*ms, ms/2, 0)
	e.loops[0].fired = begin.Add(20 * ms) // what was due in the pause, in the turn after it
	tell("the same pause again", 23*ms, ms/2, 0)
	turn(0, 40*ms, 3*ms)
	turn(1, 40*ms, 4*ms)
	if tuning.listen(); len(tuning.taken) != 1 {
		t.Fatalf("heard %+v, want one", tuning.taken)
	}
	if want := (observation{begin.Add(40 * ms), begin.Add(43 * ms), pauseModel}); tuning.taken[0] != want {
		t.Errorf("heard %+v, want %+v", tuning.taken[0], want)
	}
	for i := range tuning.feeds {
		if f := &tuning.feeds[i]; f.known != f.seen.Load() {
			t.Errorf("loop %d: %d are known of %d", i, f.known, f.seen.Load())
		}
	}
}
