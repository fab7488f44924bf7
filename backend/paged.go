package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

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
	case m.Page <= 0 || m.Pages <= 0 || m.Pages > catalog.PagesMax:
		return fmt.Errorf("pool %s: %d pages of %d bytes, must be 1 to %d of 1 byte or more", cfg.DeviceType, m.Pages, m.Page, catalog.PagesMax)
	}
	return nil
}

// cannotPage is why the pool's devices cannot load on demand, as it is; "": they do, or could.
func (cfg *PoolConfig) cannotPage() string {
	switch {
	case cfg.Paged != nil:
		return ""
	case cfg.Kind == KindCUDA:
		return "a pool of kind cuda, whose models' sizes are known only once they are loaded, does not become paged by itself (give it paged)"
	case cfg.Resident:
		return "its configuration says resident: true"
	}
	return ""
}

// pageIfNeeded makes a pool paged whose models do not all fit into its devices' memory, if it may be; why: it was, in words. Those that
// its devices cannot run whatever their memory are none of them.
func (cfg *PoolConfig) pageIfNeeded(models []repository.Model) (why string, err error) {
	if cfg.Paged != nil || cfg.Memory <= 0 || cfg.Page <= 0 || cfg.cannotPage() != "" {
		return "", nil
	}
	static, dynamic, n := int64(0), int64(0), 0
	for i := range models {
		if residentLoader(cfg).check(context.Background(), &models[i]) != nil {
			continue
		}
		s, d := sizeOf(cfg, &models[i])
		static, dynamic, n = static+s, max(dynamic, d), n+1
	}
	if static+dynamic <= cfg.Memory {
		return "", nil
	}
	pages := (cfg.Memory - dynamic) / cfg.Page
	if pages < 1 || pages > catalog.PagesMax {
		return "", fmt.Errorf("pool %s: its %d models take %s, a device has %s, and that has %d pages of %s: raise the pool's memory, give it paged with smaller pages, or say resident: true, and what does not fit is refused",
			cfg.DeviceType, n, inMiB(static+dynamic), inMiB(cfg.Memory), max(0, pages), inMiB(cfg.Page))
	}
	why = fmt.Sprintf("its %d models take %s, and a device has %s for them", n, inMiB(static+dynamic), inMiB(cfg.Memory))
	cfg.Paged, cfg.Memory = &Paged{Page: cfg.Page, Pages: int(pages)}, 0
	return why, nil
}

// page is pageIfNeeded, and says so.
func (b *Backend) page(cfg *PoolConfig, models []repository.Model) error {
	why, err := cfg.pageIfNeeded(models)
	if why != "" {
		b.log.Warn().Str("pool", cfg.DeviceType).Str("why", why).Int("pages", cfg.Paged.Pages).Str("page", inMiB(cfg.Paged.Page)).
			Msg("the pool is paged: weights come to its devices and go as requests need them; resident: true keeps models on them, and refuses those that do not fit")
	}
	return err
}

// residentLoader is the loader of a resident pool that is not of kind cuda, as far as it needs no devices.
func residentLoader(cfg *PoolConfig) loader {
	if cfg.Kind == KindCPU {
		return &cpuLoader{}
	}
	return &emulatedLoader{deviceType: cfg.DeviceType}
}

// sizeOf is what the loader of a resident pool reserves for a model on a device.
func sizeOf(cfg *PoolConfig, m *repository.Model) (static, dynamic int64) {
	n := residentLoader(cfg).need(m)
	return n.static, n.dynamic
}

// fitsResident says why a model has no room on a paged pool's devices: with those that are to stay there, beside the largest
// of the others, which has to come and go in what they leave.
func (p *pool) fitsResident(m *repository.Model) error {
	stay, staying, largest := 0, 0, 0 // pages, models; pages of one of the others
	seen := map[string]bool{}
	count := func(spec *catalog.ModelSpec) {
		if spec == nil || seen[spec.Key()] {
			return
		}
		seen[spec.Key()] = true
		pages := p.doc.Paged.PagesOf(spec)
		if !spec.Resident {
			largest = max(largest, pages)
			return
		}
		stay += pages
		staying++
	}
	count(&m.Spec)
	for i := range p.specs {
		count(&p.specs[i])
	}
	if all := p.served.Load(); all != nil {
		for _, spec := range *all {
			count(spec)
		}
	}
	if stay == 0 || stay+largest <= p.doc.Paged.Pages {
		return nil
	}
	rest := ""
	if largest > 0 {
		rest = fmt.Sprintf(", and the largest of the others %d", largest)
	}
	return fmt.Errorf("%w: %d models that are to stay on the devices (resident: true) take %d pages of a device's %d%s: leave resident out of some of them, or raise paged.pages, or memory where the pool became paged by itself",
		errRoom, staying, stay, p.doc.Paged.Pages, rest)
}

// tellWeighed says what a model that was weighed takes.
func (b *Backend) tellWeighed(p *pool, m *repository.Model) {
	b.log.Info().Str("pool", p.cfg.DeviceType).Str("model", m.Spec.Key()).Int64("bytes", m.Spec.WeightsBytes).Int("pages", p.doc.Paged.PagesOf(&m.Spec)).
		Stringer("load", m.Spec.LoadTime).Msg("weighed")
}

// weigh says in a model's specification what its weights take of a paged pool's devices, and why they do not fit.
func (p *pool) weigh(m *repository.Model, bytes int64, load mono.Dur) error {
	m.Spec.WeightsBytes, m.Spec.LoadTime = bytes, max(mono.Nanosecond, load)
	if n := p.doc.Paged.PagesOf(&m.Spec); n > p.doc.Paged.Pages {
		return fmt.Errorf("%w: its weights take %s, %d pages, and a device has %d: raise paged.pages, or memory where the pool became paged by itself", errRoom, inMiB(bytes), n, p.doc.Paged.Pages)
	}
	return p.fitsResident(m)
}

// execModel is what an executor must know.
func (p *pool) execModel(spec *catalog.ModelSpec) executor.Model {
	in, out := size(spec.Inputs), size(spec.Outputs)
	m := executor.Model{InputSize: in, InputMax: in, OutputSize: out, MaxBatch: spec.MaxBatch, Exchange: new(atomic.Uint32)}
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

// heldRoom is what an introduction has room for, of what devices hold.
type heldRoom struct {
	models, bytes int // left
	untold        int // weights that it had no room for
}

// heldBytes is the part of an introduction that may be of what devices hold: keys may be long.
const heldBytes = transport.BackendDocMax / 2

func newHeldRoom() *heldRoom { return &heldRoom{models: catalog.HeldMax, bytes: heldBytes} }

// take is how many of these fit, from the last one on.
func (r *heldRoom) take(keys []catalog.HeldModel) (n int) {
	r.models = max(0, r.models-1) // a device counts, too
	for ; n < len(keys) && r.models > 0; n++ {
		doc, err := json.Marshal(&keys[len(keys)-1-n])
		if err != nil || len(doc)+1 > r.bytes {
			break
		}
		r.models, r.bytes = r.models-1, r.bytes-len(doc)-1
	}
	r.untold += len(keys) - n
	return n
}

// holds are those of each device, for an introduction, the last ones used where there is no room for all. alone: to the only
// scheduler, which reckons with nothing else: the others leave. One of a group is told of each device by itself when it is
// obeyed.
func (p *pool) holds(alone bool, room *heldRoom) (all [][]catalog.HeldModel) {
	if p.doc.Paged == nil {
		return nil
	}
	for _, e := range p.executors {
		keys := p.keys(e.Held())
		n := room.take(keys)
		if alone { // what came meanwhile is void
			keys = p.keys(e.Introduce(n))
		}
		all = append(all, keys[max(0, len(keys)-n):])
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
	names, device := u.ids.Load(), b.pools[o.Pool].executors[o.Device]
	o.ModelIndex, o.Meant = names.find(o.Model, int(o.Pool))
	if o.Op == wire.OpUnload && o.Model == wire.ModelNone {
		for _, w := range device.Held() {
			if (o.Generation == 0 || o.Generation == w.Generation) && !names.names(int(o.Pool), w.Slot) {
				device.Forget(o.Epoch, w)
			}
		}
	}
	if !device.Load(&o) {
		return fmt.Errorf("load on device %d of pool %d, whose models are resident", o.Device, o.Pool)
	}
	return nil
}
