package backend

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Buffer implements transport.Handler.
func (*uplink) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// Receive implements transport.Handler.
func (u *uplink) Receive(l transport.Link, f transport.Frame) {
	var err error
	switch f.Kind {
	case wire.KindBatch:
		err = u.onBatch(l, f.Body)
	case wire.KindLoad:
		err = u.onLoad(l, f.Body)
	case wire.KindMember:
		err = u.onMember(f.Body)
	case wire.KindDoc:
		err = u.onDoc(l, f)
	case wire.KindPromise:
		err = u.onPromise(f.Body)
	case wire.KindLeave:
		u.log.Info().Msg("the scheduler drains")
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

func (u *uplink) onBatch(l transport.Link, body []byte) error {
	b, o := u.b, &u.order
	if err := o.Batch.Decode(body, l.Shift()); err != nil {
		return err
	}
	if reign := u.reign.Load(); reign == 0 || uint64(o.Epoch) != reign {
		b.metrics.reigns.batches.Inc()
		return nil // of a scheduler that is not obeyed: its requests are its own to lose
	}
	s := u.ids.Load()
	o.Arrived, o.Links = mono.Now(), s.frontends
	if int(o.Pool) >= len(b.pools) || int(o.Device) >= len(b.pools[o.Pool].executors) {
		return fmt.Errorf("order for device %d of pool %d, which does not exist", o.Device, o.Pool)
	}
	o.ModelIndex, o.Meant = s.find(o.Model, int(o.Pool))
	b.pools[o.Pool].executors[o.Device].Submit(o)
	return nil
}

func (u *uplink) onMember(body []byte) error {
	var m wire.Member
	if err := m.Decode(body); err != nil {
		return err
	}
	if s := u.ids.Load(); s != nil && m.Epoch == s.life {
		u.b.members.set(s.frontends, m)
	}
	return nil
}

func (u *uplink) onPromise(body []byte) error {
	var m wire.Promise
	if err := m.Decode(body); err != nil {
		return err
	}
	u.b.reigns.promise(u, m)
	return nil
}

// mayOrder reports whether its scheduler may say what devices shall have: in a group that is for one
// to say.
func (u *uplink) mayOrder() bool { return u.reign.Load() != 0 || len(u.b.uplinks) == 1 }

func (u *uplink) onDoc(l transport.Link, f transport.Frame) error {
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
		return u.admitted(l, a)
	case wire.DocWant:
		return u.b.onWant(u, l, f.Payload)
	case wire.DocBound:
		bound, err := catalog.DecodeBound(f.Payload)
		if err != nil {
			return err
		}
		return u.b.bind(u, l, bound)
	case wire.DocKeep:
		k, err := catalog.DecodeKeep(f.Payload)
		if err != nil {
			return err
		}
		if !u.mayOrder() {
			u.b.metrics.reigns.keeps.Inc()
			return nil
		}
		err = u.b.onKeep(u, l, k)
		if err == nil && len(u.b.uplinks) > 1 {
			u.b.passOn(u, f.Payload)
		}
		return err
	}
	return nil
}

// modelsMax is above every id that a scheduler gives.
const modelsMax = 1 << 16
