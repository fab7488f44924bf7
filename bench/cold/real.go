package cold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A run with real sessions: copies of one model, of which some fit into the memory that the device may use. Requests come
// twice: as they are, so that sessions are made and ended while others run, and folded onto the copies that fit, so that none
// is. The two take turns, since what else the machine does changes in minutes.
//
//	 copies   0 .. hot-1          hot .. room-1        room .. n-1
//	 with     asked, often        asked, seldom        asked, seldom
//	 without  the same requests   all seldom ones      -
//
// The often asked copies stay; what loads cost them is what is to be seen.

// RealConfig of a run.
type RealConfig struct {
	Copies  int
	Room    int      // copies that fit
	Counted mono.Dur // with loads, and so long without
	Rounds  int      // turns of both
	SLO     mono.Dur
	Page    int64 // bytes; a copy takes whole ones
	Pages   int   // that sessions may take
	Seed    uint64
	Hot     float64 // requests/s of the often asked copies; 0: as the machine bears
	Seldom  float64 // of the others, likewise
	Sending Sending
}

// How much is asked: so that both what runs and what loads have room, on any machine.
const (
	hotShare    = 0.25 // of the device's time, were each batch one request
	loaderShare = 0.4  // of the loader's time, were each seldom asked copy away
	hotMost     = 200  // requests/s: a model that runs in no time is not asked as often as that allows,
	seldomMost  = 10   // nor are sessions made as often as they can be
)

// RealSystem is what is measured, and what it says of itself.
type RealSystem struct {
	Client   *frontend.Client
	Models   []string      // the copies
	Resident func() int64  // of the process, bytes; 0: unknown
	Loads    *LoadsWatcher // is told of the loads' reports
}

// realRun is a run under way.
type realRun struct {
	cfg     RealConfig
	system  *RealSystem
	target  *load.ClientTarget
	sent    load.Counts
	hot     int
	streams []workload.Stream
	result  *RealResult
	with    *sideCounter
	without *sideCounter
}

// RunReal measures, until its end or until ctx ends. progress, if not nil, is told what is done.
func RunReal(ctx context.Context, cfg RealConfig, s *RealSystem, progress func(string)) (*RealResult, error) {
	if progress == nil {
		progress = func(string) {}
	}
	r, err := newRealRun(cfg, s)
	if err != nil {
		return nil, err
	}
	r.result.Idle = s.Resident()
	for round := range cfg.Rounds {
		for turn := range 2 {
			loads := (turn+round)%2 == 1 // who is first changes
			progress(fmt.Sprintf("round %d of %d, %s loads", round+1, cfg.Rounds, map[bool]string{true: "with", false: "without"}[loads]))
			if err := r.turn(ctx, round, loads); err != nil {
				return nil, err
			}
		}
	}
	return r.end(ctx.Err() != nil), nil
}

func newRealRun(cfg RealConfig, s *RealSystem) (*realRun, error) {
	r := &realRun{cfg: cfg, system: s, target: &load.ClientTarget{Client: s.Client}, hot: max(1, cfg.Room/2), result: &RealResult{Config: cfg},
		with: newSideCounter(), without: newSideCounter()}
	pages := int64(0) // of the copies that are to fit
	for i, name := range s.Models {
		e, err := s.Client.Model(name, "")
		if err != nil {
			return nil, err
		}
		r.target.Models = append(r.target.Models, load.MakeInput(&e.Spec, uint64(i)))
		if i < cfg.Room {
			pages += (e.Spec.WeightsBytes + cfg.Page - 1) / cfg.Page
		}
		if i > 0 {
			continue
		}
		r.result.Weights, r.result.LoadTime = e.Spec.WeightsBytes, e.Spec.LoadTime.Millis()
		lengths, err := profile.FromDoc(e.Spec.Profile, e.Spec.MaxBatch)
		if err != nil {
			return nil, err
		}
		r.result.HotRate = cmp.Or(cfg.Hot, min(hotMost, hotShare/lengths.Latency(1).Seconds()))
		r.result.SeldomRate = cmp.Or(cfg.Seldom, min(seldomMost, loaderShare/e.Spec.LoadTime.Seconds()))
	}
	if pages > int64(cfg.Pages) {
		return nil, fmt.Errorf("%d copies take %d pages of %d bytes, and there are %d: what a session takes is measured as it is made, and something else has grown meanwhile: try again", cfg.Room, pages, cfg.Page, cfg.Pages)
	}
	for i := range cfg.Copies {
		rate := r.result.HotRate / float64(r.hot)
		if i >= r.hot {
			rate = r.result.SeldomRate / float64(cfg.Copies-r.hot)
		}
		r.streams = append(r.streams, workload.Stream{Process: workload.Poisson, Rate: rate})
	}
	return r, nil
}

// turn sends the requests of a round, with loads or without. The copies that fit are there when it begins.
func (r *realRun) turn(ctx context.Context, round int, loads bool) error {
	if ctx.Err() != nil {
		return nil
	}
	mix, err := workload.NewMix(r.streams, r.cfg.Seed+uint64(round)<<32)
	if err != nil {
		return err
	}
	if err := r.touch(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	side, arrivals := r.without, load.Arrivals(&folded{gaps{from: mix}, r.hot, r.cfg.Room})
	if loads {
		side, arrivals = r.with, &gaps{from: mix}
	}
	slos := make([]mono.Dur, r.cfg.Copies)
	for i := range slos {
		slos[i] = r.cfg.SLO
	}
	begin := mono.Now()
	memory := watchMemory(r.system.Resident)
	before := r.system.Loads.told()
	load.Run(ctx, load.Config{SLO: slos, Duration: r.cfg.Counted / mono.Dur(r.cfg.Rounds), OutstandingMax: r.cfg.Sending.OutstandingMax, Drain: r.cfg.Sending.Drain},
		r.target, arrivals, &sideObserver{side, r.hot}, &r.sent)
	side.turned(mono.Now().Sub(begin), memory.end(), r.system.Loads.told().less(before))
	return nil
}

// A copy is asked so often before a turn, until it answers: what is refused, since the loader has enough to do, is asked again
// after a part of the SLO.
const touches, touchPart = 40, 4

// touch has the copies that fit loaded, all at once, uncounted.
func (r *realRun) touch(ctx context.Context) error {
	failed := make([]error, r.cfg.Room)
	var asked sync.WaitGroup
	for i := range failed {
		asked.Go(func() {
			m := &r.target.Models[i]
			for range touches {
				_, failed[i] = r.system.Client.Infer(ctx, frontend.Request{Model: m.Name, Inputs: m.Inputs, Timeout: r.cfg.SLO.Std()})
				if failed[i] == nil || ctx.Err() != nil {
					return
				}
				time.Sleep((r.cfg.SLO / touchPart).Std())
			}
		})
	}
	asked.Wait()
	if err := errors.Join(failed...); err != nil && ctx.Err() == nil {
		return fmt.Errorf("before a turn, each asked %d times: %w", touches, err)
	}
	return nil
}

// folded has the seldom asked copies' requests go to those of them that fit.
type folded struct {
	gaps
	hot, room int
}

// Next implements load.Arrivals.
func (f *folded) Next() (mono.Dur, int) {
	gap, model := f.gaps.Next()
	if model >= f.hot {
		model = f.hot + (model-f.hot)%(f.room-f.hot)
	}
	return gap, model
}
