package backend

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// schedulerHandler takes what the scheduler sends. Its scratch belongs to the
// link's receiving goroutine, of which there is one at a time.
type schedulerHandler struct {
	backend *Backend
	order   executor.Order
}

// Buffer implements transport.Handler.
func (h *schedulerHandler) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// Receive implements transport.Handler.
func (h *schedulerHandler) Receive(l transport.Link, f transport.Frame) {
	var err error
	switch f.Kind {
	case wire.KindBatch:
		err = h.onBatch(l, f.Body)
	case wire.KindMember:
		err = h.onMember(f.Body)
	case wire.KindDoc:
		err = h.onDoc(l, f)
	case wire.KindLeave:
		h.backend.log.Info().Msg("the scheduler drains")
	default:
		err = fmt.Errorf("frame of kind %d from the scheduler", f.Kind)
	}
	if err != nil && !errors.Is(err, transport.ErrRejected) {
		err = fmt.Errorf("%w: %w", transport.ErrProtocol, err)
	}
	if err != nil {
		l.Close(err)
	}
}

func (h *schedulerHandler) onBatch(l transport.Link, body []byte) error {
	b, o := h.backend, &h.order
	if err := o.Batch.Decode(body, l.Shift()); err != nil {
		return err
	}
	if uint64(o.Epoch) != b.epoch.Load() {
		return nil // of a scheduler that is no longer obeyed: its requests are its own to lose
	}
	o.Arrived, o.ModelIndex, o.Meant = mono.Now(), -1, nil
	if int(o.Pool) >= len(b.pools) || int(o.Device) >= len(b.pools[o.Pool].executors) {
		return fmt.Errorf("order for device %d of pool %d, which does not exist", o.Device, o.Pool)
	}
	if t := b.table.Load(); t != nil && int(o.Model) < len(*t) && (*t)[o.Model].pool == int(o.Pool) {
		o.ModelIndex, o.Meant = (*t)[o.Model].index, (*t)[o.Model].model
	}
	b.pools[o.Pool].executors[o.Device].Submit(o)
	return nil
}

func (h *schedulerHandler) onMember(body []byte) error {
	var m wire.Member
	if err := m.Decode(body); err != nil {
		return err
	}
	if uint64(m.Epoch) == h.backend.epoch.Load() {
		h.backend.members.set(m)
	}
	return nil
}

func (h *schedulerHandler) onDoc(l transport.Link, f transport.Frame) error {
	var d wire.Doc
	if err := d.Decode(f.Body); err != nil {
		return err
	}
	switch d.Type {
	case wire.DocAdmitted:
		a, err := catalog.DecodeAdmitted(f.Payload)
		if err != nil {
			return err
		}
		return h.backend.admitted(l, a)
	case wire.DocWant:
		return h.backend.onWant(l, f.Payload)
	case wire.DocBound:
		bound, err := catalog.DecodeBound(f.Payload)
		if err != nil {
			return err
		}
		return h.backend.bind(l, bound)
	case wire.DocKeep:
		k, err := catalog.DecodeKeep(f.Payload)
		if err != nil {
			return err
		}
		return h.backend.onKeep(l, k)
	}
	return nil
}

// admitted begins an epoch, unless a later one was promised already.
func (b *Backend) admitted(l transport.Link, a catalog.Admitted) error {
	if a.Error != "" {
		return fmt.Errorf("%w: this backend is not admitted: %s", transport.ErrRejected, a.Error) // the keeper tells it, and waits longer each time
	}
	before := b.epoch.Load()
	if uint64(a.Epoch) < before {
		b.log.Error().Uint64("epoch", uint64(a.Epoch)).Uint64("promised", before).Msg("a scheduler of an earlier epoch is not obeyed; was its clock set back?")
		return fmt.Errorf("epoch %d, a later one (%d) was promised", a.Epoch, before)
	}
	if uint64(a.Epoch) != before {
		b.tableMu.Lock()
		b.table.Store(nil)
		b.tableMu.Unlock()
		b.epoch.Store(uint64(a.Epoch))
	}
	b.members.clear() // this link's Members follow
	b.scheduler.Store(&l)
	b.service.tellAll(l)
	b.wakeTeller()
	b.log.Info().Uint64("epoch", uint64(a.Epoch)).Msg("admitted by the scheduler")
	return nil
}

// modelsMax is above every id that a scheduler gives.
const modelsMax = 1 << 16

// Closed implements transport.Handler.
func (h *schedulerHandler) Closed(l transport.Link, err error) {
	b := h.backend
	p := b.scheduler.Load()
	had := p != nil && *p == l
	if had {
		b.scheduler.Store(nil)
	}
	if !b.draining.Load() && (had || !errors.Is(err, transport.ErrRejected)) {
		b.log.Warn().AnErr("cause", err).Msg("lost the scheduler: what runs is finished; dialling again")
	}
}
