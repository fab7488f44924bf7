package schedbench

import (
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Replayed is a recorded run and its replay through bare cores.
type Replayed struct {
	Point           *Point
	Grants, Batches int     // compared, all equal
	BytesPerRequest float64 // of the log, in memory
	Seconds         float64 // that the replay took
}

// replay records a run and replays it.
func (b *bench) replay() error {
	cfg := b.plan.Config
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cfg.Record = engine.NewRecording()
	p, err := Live(b.ctx, cfg, b.plan.Tell)
	if err != nil {
		return err
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	r := &Replayed{Point: p, BytesPerRequest: (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / (float64(p.Offered) * (p.Seconds + cfg.warmup()) / p.Seconds)}
	b.plan.Tell("replay", 0, "")
	began := mono.Now()
	if err := cfg.complete(); err != nil {
		return err
	}
	if r.Grants, r.Batches, err = cfg.Record.Replay(cfg.engine()); err != nil {
		return fmt.Errorf("the replay differs: %w", err)
	}
	r.Seconds = mono.Now().Sub(began).Seconds()
	if r.Grants == 0 {
		return errors.New("the replay compared nothing")
	}
	b.r.Replay = r
	return nil
}

func (c *Config) warmup() float64 {
	if c.Warmup == 0 {
		return 1
	}
	return c.Warmup.Seconds()
}

// Print writes it for people.
func (r *Replayed) Print(to io.Writer) {
	r.Point.Print(to)
	fmt.Fprintf(to, "Replay: %d grants and %d batches, all equal, in %.1f s; the log took %.0f bytes a request (%.1f GB for a minute at %.0f requests/s)\n",
		r.Grants, r.Batches, r.Seconds, r.BytesPerRequest, r.BytesPerRequest*60*r.Point.OfferedRate/1e9, r.Point.OfferedRate)
}
