package members

import (
	"errors"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// order is one that is under way: its GPU has not got there yet.
type order struct {
	conn  Conn
	id    uint64
	kind  string
	unit  *unit
	keys  []string        // that are missing yet
	begun map[string]bool // of OrderMeasure: those that are being measured

	within mono.Dur  // how long it may take; 0: for ever
	due    mono.Time // when that is over
}

// withinMost bounds how long an order may take.
const withinMost = 24 * 3600 * mono.Second

func newOrder(conn Conn, u *unit, o *catalog.Order) *order {
	return &order{conn: conn, id: o.ID, kind: o.Kind, unit: u, within: min(max(o.Within, 0), withinMost)}
}

// awaits notes an order that is under way.
func (c *Cluster) awaits(w *order) {
	if w.due = mono.Never; w.within > 0 {
		w.due = c.now.Add(w.within)
		c.lapses = min(c.lapses, w.due)
	}
	w.unit.orders = append(w.unit.orders, w)
	c.underway++
}

// drop forgets the orders of a unit that are over.
func (c *Cluster) drop(u *unit, over func(*order) bool) {
	before := len(u.orders)
	u.orders = slices.DeleteFunc(u.orders, over)
	c.underway -= before - len(u.orders)
}

// finish answers the orders of a unit that over says are over.
func (c *Cluster) finish(u *unit, over func(*order) (bool, error)) {
	c.drop(u, func(w *order) bool {
		done, err := over(w)
		if done {
			c.answer(w.conn, w.id, err)
		}
		return done
	})
}

// fail ends all of a unit's orders.
func (c *Cluster) fail(u *unit, why string) {
	c.finish(u, func(*order) (bool, error) { return true, errors.New(why) })
}

// lapse fails the orders that have taken longer than they may. What a backend has begun goes
// on, and the facts tell; a GPU that was to be drained stays where it is.
func (c *Cluster) lapse() {
	if c.now < c.lapses {
		return
	}
	c.lapses = mono.Never
	for _, b := range c.backends {
		for _, u := range b.units {
			drains := false
			c.finish(u, func(w *order) (bool, error) {
				if w.due > c.now {
					c.lapses = min(c.lapses, w.due)
					return false, nil
				}
				drains = drains || w.kind == catalog.OrderDrain
				return true, fmt.Errorf("it took longer than %v", w.within)
			})
			if drains && !slices.ContainsFunc(u.orders, func(w *order) bool { return w.kind == catalog.OrderDrain }) {
				u.back = u.draining
			}
		}
	}
}

// orderBack calls a drain off. The GPU gets nothing new before it has ended what it has: the
// rank loop does not know of that any more. The answer comes when it serves.
func (c *Cluster) orderBack(conn Conn, u *unit, o *catalog.Order) (later bool, err error) {
	if c.underway >= ordersMax {
		return false, fmt.Errorf("%d orders are under way already", c.underway)
	}
	u.back = true
	c.finish(u, func(w *order) (bool, error) {
		return w.kind == catalog.OrderDrain, fmt.Errorf("the drain is called off: GPU %s is to serve in %s again", u.name, u.pool.label())
	})
	c.awaits(newOrder(conn, u, o))
	return true, nil
}

// drainAgain takes that back.
func (c *Cluster) drainAgain(u *unit) {
	u.back = false
	c.finish(u, func(w *order) (bool, error) {
		return w.kind == catalog.OrderSeat, fmt.Errorf("GPU %s is to be drained again", u.name)
	})
}

// resume has a GPU serve again whose drain was called off. One that may not, since it is out of
// service or has lost a model, is what others of its sub-cluster are then.
func (c *Cluster) resume(u *unit) {
	c.unjoin(u)
	u.draining, u.back = false, false
	u.changed = c.next()
	err := error(nil)
	if !c.join(u, false) {
		err = fmt.Errorf("GPU %s is out of service, or lacks models that are routed to %s: %s", u.name, u.pool.label(), some(c.lacks(u, u.pool)))
	}
	c.look(u.pool)
	c.finish(u, func(w *order) (bool, error) { return w.kind == catalog.OrderSeat, err })
}
