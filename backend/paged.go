package backend

import (
	"fmt"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Paged pools: the host has all models, devices have the weights that the scheduler orders (wire.Load). What a
// device holds is told when a link begins and after a Promise; in between the scheduler knows by its own orders.
//
//	introduction to the only scheduler   loads under way are void, then what is held is told
//	introduction to one of a group       what is held is told; if it is to lead it promises first
//	Promise                              loads under way are void (Fence), then what is held is told, then Promised
//	device out of service                all is void and leaves: it comes back empty
//	model taken from the pool            its weights leave before its files do

// paging is the pool's memory as it is configured; nil: its models are resident.
func (cfg *PoolConfig) paging() *catalog.Paged {
	if cfg.Paged == nil {
		return nil
	}
	return &catalog.Paged{Page: cfg.Paged.Page, Pages: cfg.Paged.Pages}
}

// checkPaged says why a pool cannot have pages.
func (cfg *PoolConfig) checkPaged() error {
	m := cfg.Paged
	switch {
	case m == nil:
		return nil
	case cfg.Kind == KindCUDA:
		return fmt.Errorf("pool %s: pools of kind cuda are resident: leave paged out", cfg.DeviceType)
	case m.Page <= 0 || m.Pages <= 0 || m.Pages > catalog.PagesMax:
		return fmt.Errorf("pool %s: %d pages of %d bytes, must be 1 to %d of 1 byte or more", cfg.DeviceType, m.Pages, m.Page, catalog.PagesMax)
	}
	return nil
}

// weigh says in a model's specification what its weights take of a paged pool's devices, and why they do not fit.
func (p *pool) weigh(m *repository.Model, bytes int64, load mono.Dur) error {
	m.Spec.WeightsBytes, m.Spec.LoadTime = bytes, max(mono.Nanosecond, load)
	if n := p.doc.Paged.PagesOf(&m.Spec); n > p.doc.Paged.Pages {
		return fmt.Errorf("%w: its weights take %s, %d pages, and a device has %d: raise paged.pages", errRoom, inMiB(bytes), n, p.doc.Paged.Pages)
	}
	return nil
}

// execModel is what an executor must know.
func (p *pool) execModel(spec *catalog.ModelSpec) executor.Model {
	in, out := size(spec.Inputs), size(spec.Outputs)
	m := executor.Model{InputSize: in, InputMax: in, OutputSize: out, MaxBatch: spec.MaxBatch}
	if p.doc.Paged != nil {
		m.Pages = p.doc.Paged.PagesOf(spec)
	}
	return m
}

// keys are weights as schedulers know them.
func (p *pool) keys(held []executor.Weights) []catalog.HeldModel {
	all := make([]catalog.HeldModel, 0, len(held))
	for _, w := range held {
		if spec := p.spec(w.Slot); spec != nil { // else its model is just being taken away
			all = append(all, catalog.HeldModel{Key: spec.Key(), Generation: w.Generation})
		}
	}
	return all
}

// holds are those of each device, for an introduction, of so many at most; alone: to the only scheduler.
func (p *pool) holds(alone bool, most *int) (all [][]catalog.HeldModel) {
	if p.doc.Paged == nil {
		return nil
	}
	for _, e := range p.executors {
		*most = max(0, *most-1) // a device counts, too
		var held []executor.Weights
		if alone {
			held = e.Introduce(*most)
		} else {
			held = e.Held()
			held = held[max(0, len(held)-*most):]
		}
		*most -= len(held)
		all = append(all, p.keys(held))
	}
	return all
}

// tellHeld tells a scheduler that is obeyed from now on what a device holds. Its loads of before are void.
func (b *Backend) tellHeld(l transport.Link, pool, device int) {
	p := b.pools[pool]
	if p.doc.Paged == nil {
		return
	}
	transport.SendDoc(l, wire.DocHeld, catalog.Held{Pool: pool, Device: device, Models: p.keys(p.executors[device].Held())})
}

// Loaded implements executor.LoadReporter.
func (b *Backend) Loaded(l *wire.Loaded) { b.reigns.loaded(l) }

// loaded takes the report of a load to who ordered it, if it is still obeyed.
func (r *reigns) loaded(l *wire.Loaded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.obeyed == nil || uint64(l.Epoch) != r.obeyed.reign.Load() {
		return
	}
	r.frames = l.Append(r.frames[:0])
	r.send(r.obeyed, r.frames)
}

// onLoad takes an order to load or unload.
func (u *uplink) onLoad(l transport.Link, body []byte) error {
	b := u.b
	var o executor.LoadOrder
	if err := o.Load.Decode(body, l.Shift()); err != nil {
		return err
	}
	if reign := u.reign.Load(); reign == 0 || uint64(o.Epoch) != reign {
		b.metrics.reigns.batches.Inc()
		return nil // of a scheduler that is not obeyed
	}
	if int(o.Pool) >= len(b.pools) || int(o.Device) >= len(b.pools[o.Pool].executors) {
		return fmt.Errorf("load on device %d of pool %d, which does not exist", o.Device, o.Pool)
	}
	o.ModelIndex, o.Meant = u.ids.Load().find(o.Model, int(o.Pool))
	if !b.pools[o.Pool].executors[o.Device].Load(&o) {
		return fmt.Errorf("load on device %d of pool %d, whose models are resident", o.Device, o.Pool)
	}
	return nil
}
