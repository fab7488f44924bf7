package schedbench

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Progress is told while a run goes on.
type Progress func(phase string, done float64, text string)

// Live runs the engine against the world and counts. A run that ctx ends counts
// what was offered until then.
func Live(ctx context.Context, cfg Config, tell Progress) (*Point, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	prof, err := cfg.profileFor()
	if err != nil {
		return nil, err
	}
	w := newWorld(ctx, &cfg, prof, mono.Now())
	e, err := engine.New(cfg.engine(), w)
	if err != nil {
		return nil, err
	}
	w.engine = e
	e.Start()
	defer e.Stop()
	e.SetDelay(batching.Delay{Ctrl: cfg.Delay})
	for m := range cfg.Models {
		c := batching.Config{Profile: prof, SLO: cfg.SLO, QueueMax: cfg.engine().RequestsMax}
		if err := e.AddModel(wire.ModelID(m), c); err != nil {
			return nil, err
		}
	}
	for g := range cfg.GPUs {
		if _, err := e.AddGPU(wire.GPUID(g), mono.Now()); err != nil {
			return nil, err
		}
	}
	// Membership took its time, for many GPUs: the arrivals begin after it.
	w.shift(mono.Now())
	meter := newMeter(w)
	ended := make(chan struct{})
	go func() { defer close(ended); w.run() }()
	meter.watch(ended, tell)
	<-ended
	e.Stop()
	if w.failed != nil {
		return nil, w.failed
	}
	return meter.point()
}

// shift moves the start of the arrivals.
func (w *world) shift(now mono.Time) {
	d := now.Add(50 * mono.Millisecond).Sub(w.start)
	w.start, w.from, w.until = w.start.Add(d), w.from.Add(d), w.until.Add(d)
	w.source = newSource(w.cfg.tape, w.cfg.Rate, w.start, w.cfg.Seed)
	w.wheel = newWheel(len(w.wheel.runs), now)
}

// meter reads the threads' clocks and the engine's counters at both ends of the
// span that counts.
type meter struct {
	w             *world
	began         bool
	at            [2]mono.Time
	cpu           [2]map[int]mono.Dur
	stats         [2]engine.Stats
	spent         [2]mono.Dur // by the tuner
	ringMax       int         // most inputs seen waiting for a loop
	rankMax       int
	usedMax       int
	interruptedAt mono.Time
}

func newMeter(w *world) *meter { return &meter{w: w} }

func (m *meter) read(i int) {
	m.at[i], m.cpu[i], m.stats[i] = mono.Now(), threadCPU(), m.w.engine.Stats()
	_, m.spent[i], _ = m.w.engine.Tuning()
}

// watch looks at the run ten times a second until it has ended.
func (m *meter) watch(ended <-chan struct{}, tell Progress) {
	w := m.w
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	begin := time.NewTimer(w.from.Sub(mono.Now()).Std())
	end := time.NewTimer(w.until.Sub(mono.Now()).Std())
	defer begin.Stop()
	defer end.Stop()
	done := w.ctx.Done()
	for {
		select {
		case <-begin.C:
			m.read(0)
			m.began = true
		case <-end.C:
			if m.at[1] == 0 {
				m.read(1)
			}
		case <-done:
			done = nil
			if m.at[1] == 0 {
				m.interruptedAt = mono.Now()
				m.read(1)
			}
		case <-tick.C:
			m.look(tell)
		case <-ended:
			if m.at[1] == 0 {
				m.read(1)
			}
			return
		}
	}
}

func (m *meter) look(tell Progress) {
	s := m.w.engine.Stats()
	for _, l := range s.Models {
		if !m.began {
			break
		}
		m.ringMax, m.usedMax = max(m.ringMax, l.Waiting), max(m.usedMax, l.Used)
	}
	if m.began {
		m.rankMax = max(m.rankMax, s.Rank.Waiting)
	}
	if tell != nil {
		w := m.w
		part := mono.Now().Sub(w.start).Seconds() / w.until.Sub(w.start).Seconds()
		tell(w.cfg.text(), min(1, max(0, part)), fmt.Sprintf("%d requests offered", w.progress.Load()))
	}
}

// text names a point.
func (c *Config) text() string {
	s := fmt.Sprintf("%d model loops, %d GPUs, %d models, %.0f requests/s", c.Loops, c.GPUs, c.Models, c.Rate)
	if c.Loops == 1 {
		s = "1 model loop" + s[len("1 model loops"):]
	}
	return s
}

// point sums up.
func (m *meter) point() (*Point, error) {
	w := m.w
	span := w.cfg.Duration
	if m.interruptedAt != 0 {
		span = m.interruptedAt.Sub(w.from)
	}
	if !m.began || span <= 0 || w.offered == 0 {
		return nil, ErrNothing
	}
	p := &Point{Loops: w.cfg.Loops, GPUs: w.cfg.GPUs, Models: w.cfg.Models, Process: string(w.cfg.Process), Shape: w.cfg.Shape, Rate: w.cfg.Rate,
		SLO: w.cfg.SLO.Millis(), Seconds: span.Seconds(), Interrupted: m.interruptedAt != 0, Quantum: micros(w.cfg.Quantum), Placement: placementText(&w.cfg.Placement, w.cfg.Loops)}
	p.Alpha = (w.prof.Latency(2) - w.prof.Latency(1)).Millis()
	p.Beta = w.prof.Latency(1).Millis() - p.Alpha
	p.Offered = w.offered + w.unsent
	p.Drops = map[string]uint64{}
	var busy mono.Dur
	for i := range w.sides {
		s := &w.sides[i]
		if s.lost {
			return nil, fmt.Errorf("loop %d: the ring of runs was full", i)
		}
		p.OK += s.ok
		p.Late += s.late
		for r, n := range s.drops {
			if n > 0 {
				p.Drops[wire.Reason(r).String()] += n
				p.Dropped += n
			}
		}
		p.Batches += s.batches
		p.batched += s.requests
		busy += s.busy
	}
	if w.unsent > 0 {
		p.Drops["not taken"] = w.unsent
		p.Dropped += w.unsent
	}
	p.Unanswered = p.Offered - p.OK - p.Late - p.Dropped
	lag := w.lag.Snapshot()
	p.Lag = spreadOf(&lag)
	p.finish(span, busy)
	m.costs(p)
	p.Tuned = m.tuned()
	return p, nil
}

// costs are what the threads and loops did within the span.
func (m *meter) costs(p *Point) {
	w, wall := m.w, m.at[1].Sub(m.at[0])
	used := map[int]mono.Dur{}
	for id, d := range m.cpu[1] {
		used[id] = d - m.cpu[0][id]
	}
	requests := float64(p.Offered)
	take := func(id int) Cost {
		d := used[id]
		delete(used, id)
		return Cost{PerRequest: float64(d) / requests, Busy: d.Seconds() / wall.Seconds()}
	}
	shared := take(m.stats[1].Models[0].Thread)
	for i := 1; i < len(m.stats[1].Models); i++ {
		p.ModelCPU.add(take(m.stats[1].Models[i].Thread))
	}
	p.WorldCPU = take(w.thread)
	if m.stats[1].Rank.Thread == m.stats[1].Models[0].Thread {
		shared, p.RankCPU = split(shared, m.stats[1].Models[0].Busy-m.stats[0].Models[0].Busy, m.stats[1].Rank.Busy-m.stats[0].Rank.Busy)
	} else {
		p.RankCPU = take(m.stats[1].Rank.Thread)
	}
	p.ModelCPU.add(shared)
	for id := range used {
		p.OtherCPU.add(take(id))
	}
	for i := range m.stats[1].Models {
		p.ModelLoops = append(p.ModelLoops, loopUse(&m.stats[0].Models[i], &m.stats[1].Models[i], wall, m.ringMax))
	}
	p.RankLoop = loopUse(&m.stats[0].Rank, &m.stats[1].Rank, wall, m.rankMax)
	p.UsedMax = m.usedMax
	p.Grants, p.Lateness = lateness(&m.stats[0], &m.stats[1])
	p.ToCandidate = toCandidate(&m.stats[0], &m.stats[1])
}

// split parts the processor time of a thread that two loops share by the time
// that their turns took: sleeps and wake-ups go to each in proportion.
func split(all Cost, model, rank mono.Dur) (Cost, Cost) {
	part := 0.0
	if model+rank > 0 {
		part = rank.Seconds() / (model + rank).Seconds()
	}
	return Cost{all.PerRequest * (1 - part), all.Busy * (1 - part)}, Cost{all.PerRequest * part, all.Busy * part}
}

func loopUse(a, b *engine.LoopStats, wall mono.Dur, waiting int) LoopUse {
	return LoopUse{Turns: b.Turns - a.Turns, Wakes: b.Wakes - a.Wakes, Full: b.Full - a.Full, BurstMax: b.BurstMax,
		WaitingMax: waiting, Busy: (b.Busy - a.Busy).Seconds() / wall.Seconds(), Dispatches: b.Dispatches - a.Dispatches}
}
