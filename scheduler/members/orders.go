package members

import (
	"errors"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// ordersMax bounds those that are under way.
const ordersMax = 1 << 16

// Order carries a step of the control plane's out, or refuses it with a reason: Answer comes
// once for each, now or when it is done. Orders of a plan that is older than one that was seen
// are refused, as long as a controller is there.
func (c *Cluster) Order(now mono.Time, conn Conn, o *catalog.Order, out *Effects) {
	c.begin(now, out)
	c.controller(conn)
	later, err := false, error(nil)
	if o.Plan < c.plan && o.Plan > 0 {
		err = fmt.Errorf("an order of plan %d, and plan %d is under way", o.Plan, c.plan)
	} else {
		c.plan = max(c.plan, o.Plan)
		later, err = c.order(conn, o)
	}
	c.settle("the control plane's order")
	if !later {
		c.answer(conn, o.ID, err)
	}
}

func (c *Cluster) answer(conn Conn, id uint64, err error) {
	c.out.add(Effect{Kind: Answer, Conn: conn, ID: id, Err: err})
}

// order says whether the answer comes later.
func (c *Cluster) order(conn Conn, o *catalog.Order) (later bool, err error) {
	switch o.Kind {
	case catalog.OrderJoin:
		return false, nil
	case catalog.OrderRoute:
		return false, c.orderRoute(o)
	case catalog.OrderSet:
		return false, c.orderSet(o)
	case catalog.OrderNames:
		return false, c.names.set(c, o.Names)
	case catalog.OrderDrain:
		return c.orderDrain(conn, o)
	}
	u := c.byUnit[o.GPU]
	if u == nil {
		return false, fmt.Errorf("GPU %q is not there", o.GPU)
	}
	if o.Kind == catalog.OrderSeat {
		return c.orderSeat(conn, u, o)
	}
	w := newOrder(conn, u, o)
	var k catalog.Keep
	switch o.Kind {
	case catalog.OrderLoad:
		k, err = c.orderLoad(u, o)
		for i := range k.Load {
			w.keys = append(w.keys, k.Load[i].Key())
		}
	case catalog.OrderUnload:
		k, err = c.orderUnload(u, o)
		w.keys = slices.Clone(k.Unload)
	case catalog.OrderMeasure:
		k, err = c.orderMeasure(u, o)
		w.keys, w.begun = slices.Clone(k.Measure), map[string]bool{}
	default:
		err = fmt.Errorf("an order of kind %q: there is none", o.Kind)
	}
	switch {
	case err != nil || len(w.keys) == 0:
		return false, err
	case !u.doc().Runtime:
		return false, fmt.Errorf("the backend of GPU %s takes no models while it serves", u.name)
	case c.underway >= ordersMax:
		return false, fmt.Errorf("%d orders are under way already", c.underway)
	}
	switch o.Kind {
	case catalog.OrderLoad:
		if r := c.memory.of(u.name); !r.want(o.Sources) {
			return false, fmt.Errorf("GPU %s is to have %d models already: unload some", u.name, len(r.wanted))
		}
	case catalog.OrderUnload:
		c.memory.of(u.name).unwant(o.Keys)
	}
	c.awaits(w)
	c.keep(u, k)
	return true, nil
}

// orderLoad is what a GPU lacks of what it shall have.
func (c *Cluster) orderLoad(u *unit, o *catalog.Order) (k catalog.Keep, err error) {
	fresh := 0
	seen := make(map[string]bool, len(o.Sources))
	for i := range o.Sources {
		s := &o.Sources[i]
		key := s.Key()
		if s.URL == "" {
			return k, fmt.Errorf("model %s: where its files are is not said", key)
		}
		if err := checkStocked(&catalog.Stocked{Key: key}, 0); err != nil {
			return k, err
		}
		if seen[key] {
			return k, fmt.Errorf("model %s is to be loaded twice", key)
		}
		seen[key] = true
		if u.stock().there(u.device, key) {
			if it := u.stock().byKey[key]; it != nil && it.bad != "" {
				return k, fmt.Errorf("model %s: %s", key, it.bad)
			}
			continue
		}
		if c.models.byKey[key] == nil {
			fresh++
		}
		k.Load = append(k.Load, *s)
	}
	if fresh > c.limits.Models-len(c.models.byKey) {
		return catalog.Keep{}, fmt.Errorf("more than %d models", c.limits.Models)
	}
	return k, nil
}

// orderUnload is what it has of what it shall not have.
func (c *Cluster) orderUnload(u *unit, o *catalog.Order) (k catalog.Keep, err error) {
	seen := make(map[string]bool, len(o.Keys))
	for _, key := range o.Keys {
		if m := c.models.byKey[key]; m != nil && u.pool != nil {
			if e := m.entry(u.pool); e != nil && (e.routed() || e.pinned()) {
				return catalog.Keep{}, fmt.Errorf("model %s is served by sub-cluster %s, where GPU %s is: route it elsewhere first", key, u.pool.label(), u.name)
			}
		}
		// What it was ordered and does not have, too: else it is tried again for ever.
		if s := u.stock(); (s.there(u.device, key) || s.byKey[key] != nil) && !seen[key] {
			seen[key] = true
			k.Unload = append(k.Unload, key)
		}
	}
	if len(k.Unload) == 0 {
		if r := c.memory.byName[u.name]; r != nil {
			r.unwant(o.Keys)
		}
	}
	return k, nil
}

func (c *Cluster) orderMeasure(u *unit, o *catalog.Order) (k catalog.Keep, err error) {
	if u.pool != nil {
		return k, fmt.Errorf("GPU %s is in sub-cluster %s: drain it first", u.name, u.pool.label())
	}
	for _, key := range o.Keys {
		if !u.stock().there(u.device, key) {
			return catalog.Keep{}, fmt.Errorf("GPU %s does not have model %s", u.name, key)
		}
		k.Measure = append(k.Measure, key)
	}
	return k, nil
}

// orderRoute sends the requests of models elsewhere, all of them or none.
func (c *Cluster) orderRoute(o *catalog.Order) error {
	all := make([]*model, len(o.Keys))
	for i, key := range o.Keys {
		all[i] = c.models.byKey[key]
		if all[i] == nil && o.To != catalog.Nowhere {
			return fmt.Errorf("model %s is not known: nobody has it", key)
		}
	}
	if o.To == catalog.Nowhere {
		for _, m := range all {
			if m != nil {
				c.pinTo(m, pinNever, nil, c.decides())
			}
		}
		return nil
	}
	p := c.poolOf(o.DeviceType, o.To)
	if p == nil || p.members == 0 {
		return fmt.Errorf("sub-cluster %s of %s has no GPU", quoted(o.To), o.DeviceType)
	}
	more := 0
	for _, m := range all {
		e := m.entry(p)
		if e == nil || !e.complete() {
			n := 0
			if e != nil {
				n = e.gpus
			}
			return fmt.Errorf("model %s is on %d of the %d GPUs of sub-cluster %s", m.key, n, p.members, p.label())
		}
		if !e.routed() && !e.pinned() {
			more++
		}
	}
	if max(p.routed, p.pinned)+more > c.limits.PoolModels {
		return fmt.Errorf("sub-cluster %s serves %d models: it may serve %d", p.label(), p.routed, c.limits.PoolModels)
	}
	for _, m := range all {
		if p.name == "" {
			c.pinTo(m, pinNone, nil, c.decides())
			c.put(m, m.entry(p))
			continue
		}
		c.pinTo(m, pinTo, p, c.decides())
	}
	return nil
}

func quoted(name string) string { return fmt.Sprintf("%q", name) }

// orderDrain takes a GPU out of its sub-cluster; the answer comes when it has nothing left.
func (c *Cluster) orderDrain(conn Conn, o *catalog.Order) (later bool, err error) {
	u := c.byUnit[o.GPU]
	if u == nil {
		r := c.memory.byName[o.GPU]
		if r == nil {
			return false, fmt.Errorf("GPU %q is not there", o.GPU)
		}
		r.in, r.placed = catalog.Nowhere, true // when it comes back
		return false, nil
	}
	if u.pool == nil {
		return false, nil
	}
	if c.underway >= ordersMax {
		return false, fmt.Errorf("%d orders are under way already", c.underway)
	}
	c.drainAgain(u)
	if !u.draining {
		u.draining = true
		u.changed = c.next()
		if !u.added {
			c.idle(u)
			return false, nil
		}
		c.out.add(Effect{Kind: RetireGPU, Pool: u.pool.index, GPU: u.gpu.id})
	}
	c.awaits(newOrder(conn, u, o))
	return true, nil
}

// Idle tells that a GPU that was retired has nothing left.
func (c *Cluster) Idle(now mono.Time, conn Conn, index, device int, out *Effects) {
	u, _ := c.unitAt(conn, index, device)
	if u == nil {
		return
	}
	c.begin(now, out)
	c.idle(u)
	c.settle(u.b.info.Name)
}

// Draining reports whether the scheduler waits for a GPU to have nothing left.
func (c *Cluster) Draining(conn Conn, index, device int) bool {
	u, _ := c.unitAt(conn, index, device)
	return u != nil && u.draining
}

// idle ends a drain.
func (c *Cluster) idle(u *unit) {
	switch {
	case !u.draining:
		return
	case u.back:
		c.resume(u)
		return
	}
	c.exit(u)
	c.remember(u)
	c.keep(u, catalog.Keep{})
	c.finish(u, func(w *order) (bool, error) { return w.kind == catalog.OrderDrain, nil })
}

// orderSeat takes a GPU that is nowhere into a sub-cluster, or has one that drains there serve on.
func (c *Cluster) orderSeat(conn Conn, u *unit, o *catalog.Order) (later bool, err error) {
	if o.To == catalog.Nowhere || len(o.To) > nameMax {
		return false, fmt.Errorf("there is no sub-cluster %s: drain GPU %s to take it out of its own", quoted(o.To), u.name)
	}
	if u.pool != nil {
		switch {
		case u.pool.name != o.To:
			return false, fmt.Errorf("GPU %s is in sub-cluster %s: drain it first", u.name, u.pool.label())
		case !u.joined:
			return false, fmt.Errorf("GPU %s lacks models that are routed to %s: %s", u.name, u.pool.label(), some(c.lacks(u, u.pool)))
		case u.draining:
			return c.orderBack(conn, u, o)
		}
		return false, nil
	}
	if !u.works() {
		return false, fmt.Errorf("GPU %s is out of service", u.name)
	}
	if o.DeviceType != "" && o.DeviceType != u.doc().DeviceType {
		return false, fmt.Errorf("GPU %s is not of type %q", u.name, o.DeviceType)
	}
	p := c.poolFor(u.doc().DeviceType, o.To, nil)
	if p == nil {
		return false, fmt.Errorf("there are %d sub-clusters already", c.limits.Pools)
	}
	if lacks := c.lacks(u, p); len(lacks) > 0 {
		return false, fmt.Errorf("GPU %s lacks models that are routed to %s: %s", u.name, p.label(), some(lacks))
	}
	if p.members >= p.most {
		return false, fmt.Errorf("sub-cluster %s has %d GPUs: it may have no more", p.label(), p.members)
	}
	c.enter(u, p)
	c.configure(u)
	if !c.join(u, false) {
		c.exit(u)
		return false, fmt.Errorf("GPU %s lacks models that are routed to %s", u.name, p.label())
	}
	c.remember(u)
	c.keep(u, catalog.Keep{Told: c.toldWhole(u)})
	return false, nil
}

// orderSet changes settings of models.
func (c *Cluster) orderSet(o *catalog.Order) error {
	if o.Settings == nil {
		return errors.New("no settings are given")
	}
	s := o.Settings
	if err := checkSettings(s); err != nil {
		return err
	}
	for _, key := range o.Keys {
		if c.models.byKey[key] == nil {
			return fmt.Errorf("model %s is not known: nobody has it", key)
		}
	}
	c.stood()
	for _, key := range o.Keys {
		m := c.models.byKey[key]
		delete(c.models.stands, key) // that is older
		if s.SLO != nil {
			m.set.SLO = s.SLO
		}
		if s.MaxBatch != nil {
			m.set.MaxBatch = s.MaxBatch
		}
		if s.DropPolicy != nil {
			m.set.DropPolicy = s.DropPolicy
		}
		if m.home != nil { // also where they are as they were: whoever ordered them is told
			m.changed = c.tell()
		}
		c.stir(m)
	}
	return nil
}

// checkSettings says what is wrong with settings, whatever they are of.
func checkSettings(s *catalog.Settings) error {
	if s.SLO != nil && (*s.SLO <= 0 || *s.SLO > int64(sloMax)) {
		return fmt.Errorf("SLO %v, must be above 0 and at most an hour", durOf(*s.SLO))
	}
	if s.MaxBatch != nil && (*s.MaxBatch < 1 || *s.MaxBatch > profile.BatchMax) {
		return fmt.Errorf("max_batch %d, must be 1 to %d", *s.MaxBatch, profile.BatchMax)
	}
	if s.DropPolicy != nil {
		if _, err := batching.ParsePolicy(*s.DropPolicy); err != nil {
			return err
		}
	}
	return nil
}

// follow sees what a backend's news mean for the orders that are under way.
func (c *Cluster) follow(b *backend, index int, d *catalog.Stocked) {
	it := b.stocks[index].byKey[d.Key]
	for _, u := range b.unitsOf(index) {
		c.finish(u, func(w *order) (bool, error) { return w.progress(d, it) })
	}
}

// progress says whether the order is over, and how.
func (w *order) progress(d *catalog.Stocked, it *item) (bool, error) {
	at := slices.Index(w.keys, d.Key)
	if at < 0 || it == nil {
		return false, nil
	}
	there, failed := it.there(w.unit.device), d.State == catalog.StateFailed
	switch w.kind {
	case catalog.OrderLoad:
		switch {
		case it.bad != "" && there:
			return true, fmt.Errorf("model %s: %s", d.Key, it.bad)
		case failed && !there:
			return true, fmt.Errorf("model %s: %s", d.Key, d.Error)
		case !there:
			return false, nil
		}
	case catalog.OrderUnload:
		if there {
			return false, nil
		}
	case catalog.OrderMeasure:
		switch {
		case failed:
			return true, fmt.Errorf("model %s: %s", d.Key, d.Error)
		case d.State == catalog.StateMeasuring:
			w.begun[d.Key] = true
			return false, nil
		case !there:
			return true, fmt.Errorf("model %s is not on GPU %s any more", d.Key, w.unit.name)
		case d.State != catalog.StateReady || !w.begun[d.Key] && d.Spec == nil:
			return false, nil
		}
	}
	w.keys = slices.Delete(w.keys, at, at+1)
	return len(w.keys) == 0, nil
}
