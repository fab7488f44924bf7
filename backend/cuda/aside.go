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
	Took  mono.Dur // to load it, with its first runs: as if the device had had nothing else to do

	p *pipeline
}

// LoadAside loads one, as Load does, into so many bytes of the device's memory at most; 0: what there is.
func (d *Device) LoadAside(ctx context.Context, m Model, most int64) (*Aside, error) {
	a := &Aside{Slot: int(d.asides.Add(-1))}
	var err error
	a.Bytes, err = d.bring(ctx, a.Slot, m, most, func(p *pipeline, s *served, took mono.Dur) error {
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
