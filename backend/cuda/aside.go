package cuda

import (
	"context"
	"fmt"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Aside is a model that a device has beside those of its slots, to be weighed or measured. It goes with the device's life:
// one that was lost comes back without.
type Aside struct {
	Slot  int      // in place of a Batch's Model: negative, and never another's
	Model *Model   // as it runs: without graphs, perhaps
	Bytes int64    // of the device's memory that it takes
	Took  mono.Dur // to load it, with its first runs

	p *pipeline
}

// LoadAside loads one, as Load does.
func (d *Device) LoadAside(ctx context.Context, m Model) (*Aside, error) {
	a := &Aside{Slot: int(d.asides.Add(-1))}
	var err error
	a.Bytes, err = d.bring(ctx, a.Slot, m, func(p *pipeline, s *served, took mono.Dur) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.lost != nil {
			return fmt.Errorf("%w: %s, while a model was loaded", ErrLost, p.name())
		}
		p.asides[a.Slot] = s
		p.stats.Memory.Add(s.need)
		a.p, a.Model, a.Took = p, s.m, took
		return nil
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Close unloads it. Nothing of it is under way.
func (a *Aside) Close() { a.p.takeOut(a.Slot) }
