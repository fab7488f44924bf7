package backend

import (
	"errors"
	"fmt"
	"sync"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// reigns say which scheduler of the group is obeyed: that of the highest reign that was promised.
// What is decided is the core's (standby.Backend); this carries it out.
//
//	Promise of a higher reign --> orders of before are taken no more, what has not begun is given up,
//	                              Running for each batch that goes on --> Promised
//	Promise of a lower one    --> Promised, with the highest
//
// One lock holds promises and reports apart: the report of a batch goes out before its scheduler is
// overtaken, or to the one that overtook it, after it was told of the batch. On the request path an
// order is held against uplink.reign; one that passes it just before is stopped by the executor's
// fence, under the executor's own lock.
//
// A scheduler that stands alone need not ask: its admission counts as the promise of a reign that
// is its life, and what was ordered before it is run and reported to nobody.
type reigns struct {
	b *Backend

	mu      sync.Mutex // Guards what follows, and the order of what schedulers are told of batches.
	core    standby.Backend
	effects standby.Effects
	links   standby.Link // given to links so far
	obeyed  *uplink      // nil: none now
	least   wire.Epoch   // reports of those below are nobody's
	frames  []byte       // scratch
}

// admits says why a scheduler that stands alone is not obeyed: one that was started later was.
func (r *reigns) admits(u *uplink, life wire.Epoch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.core.Highest()
	if len(r.b.uplinks) > 1 || u.asks || life >= before {
		return nil
	}
	r.b.log.Error().Uint64("epoch", uint64(life)).Uint64("promised", uint64(before)).Msg("a scheduler of an earlier epoch is not obeyed; was its clock set back?")
	return fmt.Errorf("epoch %d, a later one (%d) was promised", life, before)
}

// up says that a scheduler has admitted us.
func (r *reigns) up(u *uplink, l transport.Link, life wire.Epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	alone := len(r.b.uplinks) == 1
	u.asks = u.asks || !alone
	r.links++
	u.number = r.links
	r.core.Up(u.number, l.Peer().Incarnation, &r.effects)
	r.carryOut(u.asks)
	if alone && life >= r.core.Highest() {
		r.least = life
		r.core.Promise(u.number, wire.Promise{Epoch: life, Keep: true}, &r.effects)
		r.carryOut(false)
	}
}

// down says that the link of one that had admitted us has ended, and reports whether that one was
// obeyed.
func (r *reigns) down(u *uplink) (obeyed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	obeyed = r.obeyed == u
	r.core.Down(u.number, &r.effects)
	u.number = 0
	r.carryOut(true)
	return obeyed
}

// promise takes what a scheduler asks for.
func (r *reigns) promise(u *uplink, m wire.Promise) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u.asks = true
	if u.number == 0 {
		return // nothing is promised to one that has not admitted us: it asks again when it has
	}
	before, highest := r.obeyed, r.core.Highest()
	r.core.Promise(u.number, m, &r.effects)
	running, dropped := r.carryOut(true)
	metrics := &r.b.metrics.reigns
	if r.obeyed != u || r.core.Highest() != m.Epoch {
		metrics.refused.Inc()
		if u.said != m.Epoch {
			u.said = m.Epoch
			u.log.Warn().Uint64("reign", uint64(m.Epoch)).Uint64("promised", uint64(r.core.Highest())).Msg("a scheduler of an earlier reign asks to be obeyed: refused")
		}
		return
	}
	metrics.kept.Inc()
	if before == u && highest == m.Epoch {
		return // it has asked before
	}
	metrics.given.Add(float64(dropped))
	u.log.Info().Uint64("reign", uint64(m.Epoch)).Bool("planned", m.Keep).Int("running", running).Int("given_up", dropped).Msg("this scheduler is obeyed from now on")
}

// carryOut does what the core wants done, and counts batches that go on and that were given up.
// With tells false no scheduler is told anything. Caller holds mu.
func (r *reigns) carryOut(tells bool) (running, dropped int) {
	r.obeyed = nil
	for _, u := range r.b.uplinks {
		reign := wire.Epoch(0)
		if u.number != 0 && u.number == r.core.Obeyed() {
			reign, r.obeyed = r.core.Highest(), u
			r.b.members.obey(u.index) // one that is lost counts until another one is obeyed
		}
		u.reign.Store(uint64(reign))
	}
	for i := range r.effects {
		e := &r.effects[i]
		u := r.on(e.Link)
		switch e.Kind {
		case standby.Fence:
			var told *uplink
			if tells {
				told = u
			}
			goes, gone := r.fence(told, e)
			running, dropped = running+goes, dropped+gone
		case standby.Tell:
			if tells && u != nil {
				r.send(u, e.Promised.Append(r.frames[:0]))
			}
		}
	}
	r.effects = r.effects[:0]
	return running, dropped
}

// on is the scheduler that a link leads to; nil: it has ended. Caller holds mu.
func (r *reigns) on(link standby.Link) *uplink {
	for _, u := range r.b.uplinks {
		if u.number == link {
			return u
		}
	}
	return nil
}

// fence ends what was ordered before, and tells a scheduler (not nil) of what goes on. Caller holds mu.
func (r *reigns) fence(told *uplink, e *standby.Effect) (running, dropped int) {
	for i, p := range r.b.pools {
		for k, x := range p.executors {
			frames := r.frames[:0]
			dropped += x.Fence(e.Reign, e.Keep, func(o *executor.Order) {
				running++
				m := runningOf(o)
				m.Pool, m.Device = uint32(i), uint32(k)
				frames = m.Append(frames)
			})
			r.frames = frames
			if told != nil && len(frames) > 0 {
				r.send(told, frames)
			}
			if told == nil {
				continue
			}
			if l := told.link.Load(); l != nil {
				r.b.tellHeld(*l, i, k)
			}
		}
	}
	return running, dropped
}

// runningOf is what a scheduler is told of a batch that another one has ordered.
func runningOf(o *executor.Order) wire.Running {
	m := wire.Running{Epoch: o.Epoch, Batch: o.Batch.Batch, Until: o.Until}
	frontends, _ := o.Links.(*roster)
	for i := range o.Items {
		it := wire.RunningItem{Request: o.Items[i].Request}
		if frontends != nil {
			it.Instance = frontends.instance(o.Items[i].Frontend)
		}
		m.Items = append(m.Items, it)
	}
	return m
}

// send tells a scheduler something that may not be lost: a link that is full starts anew. Caller
// holds mu.
func (r *reigns) send(u *uplink, frames []byte) {
	l := u.link.Load()
	if l == nil {
		return
	}
	if err := (*l).Send(frames); errors.Is(err, transport.ErrFull) {
		(*l).Close(err)
	}
}

// report takes the report of a batch to whoever is obeyed now.
func (r *reigns) report(d *wire.Done) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.obeyed == nil || d.Epoch < r.least {
		return
	}
	r.frames = d.Append(r.frames[:0])
	r.send(r.obeyed, r.frames)
}

// state is the highest reign that was promised, and who is obeyed; nil: nobody now.
func (r *reigns) state() (highest wire.Epoch, obeyed *uplink) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.core.Highest(), r.obeyed
}
